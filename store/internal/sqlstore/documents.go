package sqlstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/threadmill/threadmill/store"
)

const (
	documentColumns   = `kind, name, version, content, changed_by, changed_at`
	existingDocuments = `SELECT ` + documentColumns + ` FROM documents WHERE content IS NOT NULL AND namespace = $1 AND kind = $2`
)

var (
	oneDocument        = both(existingDocuments + ` AND name = $3`)
	allDocuments       = both(existingDocuments + ` AND name > $3 ORDER BY name LIMIT $4 + 0`)
	documentNamespaces = both(`SELECT DISTINCT namespace FROM documents WHERE kind = $1 AND content IS NOT NULL ORDER BY namespace`)

	putDocument = both(`INSERT INTO documents AS d (namespace, kind, name, version, content, changed_by, changed_at)
		SELECT $1, $2, $3, 1, $4, $5, clock_timestamp()
		WHERE CAST($6 AS bigint) <= 0 OR EXISTS (SELECT 1 FROM documents WHERE namespace = $1 AND kind = $2 AND name = $3)
		ON CONFLICT (namespace, kind, name) DO UPDATE SET version = d.version + 1, content = excluded.content,
			changed_by = excluded.changed_by, changed_at = greatest(d.changed_at, excluded.changed_at)
		WHERE $6 < 0 OR $6 = CASE WHEN d.content IS NULL THEN 0 ELSE d.version END
		RETURNING ` + documentColumns)
	removeDocument = both(`UPDATE documents SET version = version + 1, content = NULL, changed_at = greatest(changed_at, clock_timestamp())
		WHERE namespace = $1 AND kind = $2 AND name = $3 AND content IS NOT NULL AND (CAST($4 AS bigint) < 0 OR $4 = version)`)
)

// PutDocument implements [store.Documents].
func (s *Store) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (store.Document, error) {
	return call(ctx, s, "put_document", func(ctx context.Context) (store.Document, error) {
		saved, err := normalizeDocument(namespace, d)
		if err != nil {
			return saved, err
		}
		saved, err = one(ctx, s, s.db.Writer, putDocument, (*Store).scanDocument, namespace, saved.Kind, saved.Name, string(saved.Content), saved.By, after)
		if errors.Is(err, store.ErrNotFound) {
			current, reading := s.document(ctx, namespace, d.Kind, d.Name)
			err = documentConflict(d, after, current, reading)
		}
		return saved, err
	}, "saving %s %q of %q", d.Kind, d.Name, namespace)
}

// Document implements [store.Documents].
func (s *Store) Document(ctx context.Context, namespace, kind, name string) (store.Document, error) {
	return call(ctx, s, "document", func(ctx context.Context) (store.Document, error) {
		return s.document(ctx, namespace, kind, name)
	}, "reading %s %q of %q", kind, name, namespace)
}

func (s *Store) document(ctx context.Context, namespace, kind, name string) (store.Document, error) {
	return one(ctx, s, s.db.Reader, oneDocument, (*Store).scanDocument, namespace, kind, name)
}

// Documents implements [store.Documents].
func (s *Store) Documents(ctx context.Context, namespace, kind, after string, limit int) ([]store.Document, error) {
	return call(ctx, s, "documents", func(ctx context.Context) ([]store.Document, error) {
		return all(ctx, s, s.db.Reader, allDocuments, (*Store).scanDocument, namespace, kind, after, min(limit, store.MaxLimit))
	}, "reading each %s of %q", kind, namespace)
}

// DocumentNamespaces implements [store.Documents].
func (s *Store) DocumentNamespaces(ctx context.Context, kind string) ([]string, error) {
	return call(ctx, s, "document_namespaces", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, documentNamespaces, scanned[string], kind)
	}, "reading the namespaces with a %s", kind)
}

// DeleteDocument implements [store.Documents].
func (s *Store) DeleteDocument(ctx context.Context, namespace, kind, name string, after int) error {
	_, err := call(ctx, s, "delete_document", func(ctx context.Context) (store.Document, error) {
		changed, err := s.db.Writer.Exec(ctx, removeDocument, namespace, kind, name, after)
		if err != nil || changed > 0 {
			return store.Document{}, err
		}
		current, err := s.document(ctx, namespace, kind, name)
		if err == nil {
			err = documentConflict(current, after, current, nil)
		}
		return current, err
	}, "deleting %s %q of %q", kind, name, namespace)
	return err
}

func (s *Store) scanDocument(row Row) (d store.Document, err error) {
	err = row.Scan(&d.Kind, &d.Name, &d.Version, (*[]byte)(&d.Content), &d.By, s.db.Time(&d.At))
	return d, err
}

// normalizeDocument returns the document in the form that every driver stores, or a [store.ErrInvalid]
// error.
func normalizeDocument(namespace string, d store.Document) (store.Document, error) {
	switch {
	case !store.Storable(namespace):
		return d, invalid("namespace: %q must be UTF-8 without NUL characters", namespace)
	case !store.Storable(d.By):
		return d, invalid("by: must be UTF-8 without NUL characters")
	}
	for _, word := range []struct{ field, text string }{{"kind", d.Kind}, {"name", d.Name}} {
		if err := checkWord(word.field, word.text); err != nil {
			return d, err
		}
	}
	switch {
	case len(d.Content) > store.MaxDocument:
		return d, invalid("content: is %d bytes, at most %d are kept", len(d.Content), store.MaxDocument)
	case !json.Valid(d.Content):
		return d, invalid("content: is not JSON")
	}
	d.Content = validUTF8(d.Content)
	return d, nil
}

// documentConflict returns the error of a change of d after a version, which found another one. Current
// is the document that exists, and err the error of reading it.
func documentConflict(d store.Document, after int, current store.Document, err error) error {
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return &store.ConflictError{Kind: d.Kind, Name: d.Name, After: after, Newest: current.Version}
}
