package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/store"
)

const documentColumns = `kind, name, version, content, changed_by, changed_at`

// documentReads are the queries for documents, documentWrites the statements that change them.
type documentReads struct {
	one, all, namespaces *sql.Stmt
}

type documentWrites struct {
	put, remove *sql.Stmt
}

func (r *documentReads) queries() map[**sql.Stmt]string {
	const existing = `SELECT ` + documentColumns + ` FROM documents WHERE content IS NOT NULL AND namespace = ? AND kind = ?`
	return map[**sql.Stmt]string{
		&r.one: existing + ` AND name = ?`,
		&r.all: existing + ` AND name > ? ORDER BY name LIMIT ? + 0`,

		&r.namespaces: `SELECT DISTINCT namespace FROM documents WHERE kind = ? AND content IS NOT NULL ORDER BY namespace`,
	}
}

func (w *documentWrites) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&w.put: `INSERT INTO documents (namespace, kind, name, version, content, changed_by, changed_at)
			SELECT ?1, ?2, ?3, 1, ?4, ?5, ?6
			WHERE ?7 <= 0 OR EXISTS (SELECT 1 FROM documents WHERE namespace = ?1 AND kind = ?2 AND name = ?3)
			ON CONFLICT DO UPDATE SET version = version + 1, content = excluded.content, changed_by = excluded.changed_by,
				changed_at = max(changed_at, excluded.changed_at)
			WHERE ?7 < 0 OR ?7 = iif(content IS NULL, 0, version)
			RETURNING ` + documentColumns,
		&w.remove: `UPDATE documents SET version = version + 1, content = NULL, changed_at = max(changed_at, ?1)
			WHERE namespace = ?2 AND kind = ?3 AND name = ?4 AND content IS NOT NULL AND (?5 < 0 OR ?5 = version)`,
	}
}

// PutDocument implements [store.Documents].
func (s *Store) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (store.Document, error) {
	saved, err := store.NormalizeDocument(namespace, d)
	if err == nil {
		saved, err = scanDocument(s.writeDocuments.put.QueryRowContext(ctx, namespace, saved.Kind, saved.Name,
			string(saved.Content), saved.By, time.Now().UnixMicro(), after))
		if errors.Is(err, sql.ErrNoRows) {
			current, reading := s.document(ctx, namespace, d.Kind, d.Name)
			err = store.DocumentConflict(d, after, current, reading)
		}
	}
	if err != nil {
		return store.Document{}, documentError("saving", namespace, d.Kind, d.Name, err)
	}
	return saved, nil
}

// Document implements [store.Documents].
func (s *Store) Document(ctx context.Context, namespace, kind, name string) (store.Document, error) {
	d, err := s.document(ctx, namespace, kind, name)
	if err != nil {
		return store.Document{}, documentError("reading", namespace, kind, name, err)
	}
	return d, nil
}

// Documents implements [store.Documents].
func (s *Store) Documents(ctx context.Context, namespace, kind, after string, limit int) ([]store.Document, error) {
	found, err := collect(ctx, s.readDocuments.all, scanDocument, namespace, kind, after, min(limit, store.MaxLimit))
	if err != nil {
		return nil, documentError("reading", namespace, kind, "*", err)
	}
	return found, nil
}

// DocumentNamespaces implements [store.Documents].
func (s *Store) DocumentNamespaces(ctx context.Context, kind string) ([]string, error) {
	found, err := collect(ctx, s.readDocuments.namespaces, func(row scanner) (namespace string, err error) {
		err = row.Scan(&namespace)
		return namespace, err
	}, kind)
	if err != nil {
		return nil, documentError("reading", "*", kind, "*", err)
	}
	return found, nil
}

// DeleteDocument implements [store.Documents].
func (s *Store) DeleteDocument(ctx context.Context, namespace, kind, name string, after int) error {
	if err := s.deleteDocument(ctx, namespace, kind, name, after); err != nil {
		return documentError("deleting", namespace, kind, name, err)
	}
	return nil
}

func (s *Store) deleteDocument(ctx context.Context, namespace, kind, name string, after int) error {
	if !store.DocumentKey(namespace, kind, name) {
		return store.ErrNotFound
	}
	result, err := s.writeDocuments.remove.ExecContext(ctx, time.Now().UnixMicro(), namespace, kind, name, after)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); changed > 0 || err != nil {
		return err
	}
	current, err := s.document(ctx, namespace, kind, name)
	if err != nil {
		return err
	}
	return store.DocumentConflict(current, after, current, nil)
}

func (s *Store) document(ctx context.Context, namespace, kind, name string) (store.Document, error) {
	if !store.DocumentKey(namespace, kind, name) {
		return store.Document{}, store.ErrNotFound
	}
	d, err := scanDocument(s.readDocuments.one.QueryRowContext(ctx, namespace, kind, name))
	return d, notFound(err)
}

func documentError(doing, namespace, kind, name string, err error) error {
	return fmt.Errorf("sqlite: %s %s %q of %q: %w", doing, kind, name, namespace, classify(err))
}

func scanDocument(row scanner) (store.Document, error) {
	var (
		d  store.Document
		at int64
	)
	err := row.Scan(&d.Kind, &d.Name, &d.Version, (*[]byte)(&d.Content), &d.By, &at)
	d.At = moment(at)
	return d, err
}
