package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

const (
	documentColumns = `kind, name, version, content, changed_by, changed_at`

	existingDocuments = `SELECT ` + documentColumns + ` FROM documents WHERE content IS NOT NULL AND namespace = $1 AND kind = $2`
	oneDocument       = existingDocuments + ` AND name = $3`
	allDocuments      = existingDocuments + ` AND name > $3 ORDER BY name LIMIT $4`

	documentNamespaces = `SELECT DISTINCT namespace FROM documents WHERE kind = $1 AND content IS NOT NULL ORDER BY namespace`

	putDocument = `INSERT INTO documents AS d (namespace, kind, name, version, content, changed_by, changed_at)
		SELECT $1, $2, $3, 1, $4::text::json, $5, clock_timestamp()
		WHERE $6::bigint <= 0 OR EXISTS (SELECT FROM documents WHERE namespace = $1 AND kind = $2 AND name = $3)
		ON CONFLICT (namespace, kind, name) DO UPDATE SET version = d.version + 1, content = excluded.content,
			changed_by = excluded.changed_by, changed_at = greatest(d.changed_at, excluded.changed_at)
		WHERE $6::bigint < 0 OR $6::bigint = CASE WHEN d.content IS NULL THEN 0 ELSE d.version END
		RETURNING ` + documentColumns
	removeDocument = `UPDATE documents SET version = version + 1, content = NULL, changed_at = greatest(changed_at, clock_timestamp())
		WHERE namespace = $1 AND kind = $2 AND name = $3 AND content IS NOT NULL AND ($4::bigint < 0 OR $4::bigint = version)`
)

// PutDocument implements [store.Documents].
func (s *Store) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (store.Document, error) {
	saved, err := store.NormalizeDocument(namespace, d)
	if err == nil {
		saved, err = s.documentRow(ctx, putDocument, namespace, saved.Kind, saved.Name, string(saved.Content), saved.By, after)
		if errors.Is(err, store.ErrNotFound) {
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
	if !store.DocumentKey(namespace, kind, after) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, allDocuments, namespace, kind, after, min(limit, store.MaxLimit))
	if err != nil {
		return nil, documentError("reading", namespace, kind, "*", err)
	}
	found, err := pgx.CollectRows(rows, scanDocument)
	if err != nil {
		return nil, documentError("reading", namespace, kind, "*", err)
	}
	return found, nil
}

// DocumentNamespaces implements [store.Documents].
func (s *Store) DocumentNamespaces(ctx context.Context, kind string) ([]string, error) {
	if !store.Storable(kind) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, documentNamespaces, kind)
	if err != nil {
		return nil, documentError("reading", "*", kind, "*", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
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
	tag, err := s.pool.Exec(ctx, removeDocument, namespace, kind, name, after)
	if err != nil || tag.RowsAffected() > 0 {
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
	return s.documentRow(ctx, oneDocument, namespace, kind, name)
}

func (s *Store) documentRow(ctx context.Context, query string, args ...any) (store.Document, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return store.Document{}, err
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDocument)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return d, err
}

func documentError(doing, namespace, kind, name string, err error) error {
	return fmt.Errorf("postgres: %s %s %q of %q: %w", doing, kind, name, namespace, classify(err))
}

func scanDocument(row pgx.CollectableRow) (store.Document, error) {
	var d store.Document
	err := row.Scan(&d.Kind, &d.Name, &d.Version, (*[]byte)(&d.Content), &d.By, &d.At)
	d.At = d.At.UTC()
	return d, err
}
