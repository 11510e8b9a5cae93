package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Documents stores small JSON documents that belong to the server rather than to a thread, such as the
// MCP servers that are declared at run time. It does not interpret them.
//
// A document is identified by namespace, kind and name, which are case-sensitive. The empty namespace
// contains the documents of all namespaces. The versions of a document count from 1, and continue
// if it is deleted and created again, so that equal versions are equal documents.
type Documents interface {
	// PutDocument creates or replaces a document; after is the version that it replaces, 0 if there is
	// none. If the current version is another one, it fails with a *ConflictError. A negative after
	// replaces any version. Of d, it uses only Kind, Name, Content and By.
	PutDocument(ctx context.Context, namespace string, d Document, after int) (Document, error)

	// Document returns a document, or ErrNotFound.
	Document(ctx context.Context, namespace, kind, name string) (Document, error)

	// Documents returns the documents of a kind, by name, after one of them; at most limit, which is at most [MaxLimit].
	Documents(ctx context.Context, namespace, kind, after string, limit int) ([]Document, error)

	// DocumentNamespaces returns the namespaces that have documents of a kind, in order.
	DocumentNamespaces(ctx context.Context, kind string) ([]string, error)

	// DeleteDocument deletes a document; after is as for PutDocument, but never 0. If there is none, it
	// returns ErrNotFound.
	DeleteDocument(ctx context.Context, namespace, kind, name string, after int) error
}

// Document is a document of [Documents].
type Document struct {
	Kind, Name string
	Version    int

	// Content is a JSON value of at most [MaxDocument] bytes, returned byte for byte.
	Content json.RawMessage

	// By is the author of the version, At its time.
	By string
	At time.Time
}

// MaxDocument is the maximum size of the content of a document, in bytes.
const MaxDocument = 2 << 20

// NormalizeDocument returns the document in the form that every driver stores, or an [ErrInvalid]
// error.
func NormalizeDocument(namespace string, d Document) (Document, error) {
	switch {
	case !Storable(namespace):
		return d, invalid("namespace: %q must be UTF-8 without NUL characters", namespace)
	case !Storable(d.By):
		return d, invalid("by: must be UTF-8 without NUL characters")
	}
	for _, word := range []struct{ field, text string }{{"kind", d.Kind}, {"name", d.Name}} {
		if err := checkWord(word.field, word.text); err != nil {
			return d, err
		}
	}
	switch {
	case len(d.Content) > MaxDocument:
		return d, invalid("content: is %d bytes, at most %d are kept", len(d.Content), MaxDocument)
	case !json.Valid(d.Content):
		return d, invalid("content: is not JSON")
	}
	d.Content = validUTF8(d.Content)
	return d, nil
}

// DocumentKey reports whether a document can have this key.
func DocumentKey(namespace, kind, name string) bool {
	return Storable(namespace) && Storable(kind) && Storable(name)
}

// DocumentConflict returns the error of a change of d after a version, which found another one. Current
// is the document that exists, and err the error of reading it.
func DocumentConflict(d Document, after int, current Document, err error) error {
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return &ConflictError{Kind: d.Kind, Name: d.Name, After: after, Newest: current.Version}
}
