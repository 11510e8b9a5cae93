package store

import (
	"context"
	"encoding/json"
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

// DocumentKey reports whether a document can have this key.
func DocumentKey(namespace, kind, name string) bool {
	return Storable(namespace) && Storable(kind) && Storable(name)
}
