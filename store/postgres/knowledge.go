package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

const (
	selectKnowledge = `SELECT id, coalesce(collection, ''), source, title, metadata, status, error, revision, indexed, digest, indexed_digest,
		format, bytes, chunks, thread_id, requested_by, created_at, updated_at,
		indexed_thread_id, title_thread_id, metadata_thread_id FROM knowledge_documents WHERE namespace = $1`

	existingKnowledge = selectKnowledge + ` AND collection IS NOT NULL`
	oneKnowledge      = existingKnowledge + ` AND id = $2`
	lockKnowledge     = oneKnowledge + ` FOR UPDATE`

	knowledgePage = existingKnowledge + ` AND (collection, source) > ($2, $3)`
	inCollection  = ` AND collection = $%d`
	withStatus    = ` AND status = $%d`
	containing    = ` AND (source ILIKE $%[1]d OR title ILIKE $%[1]d)`
	bySource      = ` ORDER BY collection, source LIMIT $%d`

	// lockRevision lets other steps of the revision go on, but not its end.
	lockRevision = `SELECT status FROM knowledge_documents WHERE namespace = $1 AND id = $2 AND collection IS NOT NULL AND revision = $3
		FOR SHARE`

	reserveKnowledge = `INSERT INTO knowledge_documents (namespace, id) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	lockReserved     = selectKnowledge + ` AND id = $2 FOR UPDATE`

	saveKnowledge = `UPDATE knowledge_documents SET collection = $3, source = $4, title = $5, metadata = $6::text::json, status = $7, error = $8,
			revision = $9, indexed = $10, digest = $11, indexed_digest = $12, format = $13, bytes = $14, chunks = $15, thread_id = $16,
			requested_by = $17, created_at = $18, updated_at = $19, indexed_thread_id = $20, title_thread_id = $21, metadata_thread_id = $22
		WHERE namespace = $1 AND id = $2`
	deleteKnowledge = `UPDATE knowledge_documents SET collection = NULL, source = '', title = '', metadata = NULL, status = '', error = '',
			indexed = 0, digest = '', indexed_digest = '', format = '', bytes = 0, chunks = 0, thread_id = '', requested_by = '',
			indexed_thread_id = '', title_thread_id = '', metadata_thread_id = ''
		WHERE namespace = $1 AND id = $2`

	addContent = `INSERT INTO knowledge_contents (namespace, document, revision, name, media_type, bytes) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT DO NOTHING`
	setDigest  = `UPDATE knowledge_documents SET digest = $3 WHERE namespace = $1 AND id = $2`
	oneContent = `SELECT name, media_type, bytes FROM knowledge_contents WHERE namespace = $1 AND document = $2 AND revision = $3`

	// The chunks' words and vectors go with them.
	dropChunks   = `DELETE FROM knowledge_chunks WHERE namespace = $1 AND document = $2 AND revision <> $3`
	dropContents = `DELETE FROM knowledge_contents WHERE namespace = $1 AND document = $2 AND revision <> $3`

	visibleDocuments     = `SELECT count(*), coalesce(sum(chunks), 0)::bigint FROM knowledge_documents WHERE namespace = $1 AND indexed > 0`
	useIndexes           = `SET LOCAL enable_seqscan = off`
	knowledgeNamespaces  = `SELECT namespace FROM knowledge_indexes WHERE chunks > 0 ORDER BY namespace`
	knowledgeCollections = `SELECT DISTINCT collection FROM knowledge_documents WHERE namespace = $1 AND collection IS NOT NULL
		ORDER BY collection LIMIT $2`
)

// noRevision is the number of no revision.
const noRevision = -1

var _ store.Knowledge = (*Store)(nil)

// BeginKnowledge implements [store.Knowledge].
func (s *Store) BeginKnowledge(
	ctx context.Context, namespace string, d store.KnowledgeDocument, begin store.KnowledgeBegin,
) (store.KnowledgeDocument, error) {
	begun, err := store.NormalizeKnowledge(namespace, d, begin)
	if err == nil {
		d = begun
		err = s.change(ctx, func(tx pgx.Tx) error {
			begun, err = beginRevision(ctx, tx, namespace, d, begin)
			return err
		})
	}
	if err != nil {
		return store.KnowledgeDocument{}, fmt.Errorf("postgres: beginning document %q in %q of %q: %w", d.Source, d.Collection, namespace, classify(err))
	}
	return begun, nil
}

func beginRevision(
	ctx context.Context, tx pgx.Tx, namespace string, d store.KnowledgeDocument, begin store.KnowledgeBegin,
) (store.KnowledgeDocument, error) {
	// A row to lock exists from here on, even if the document is new, or was deleted.
	if _, err := tx.Exec(ctx, reserveKnowledge, namespace, d.ID); err != nil {
		return d, err
	}
	before, err := knowledgeRow(ctx, tx, lockReserved, namespace, d.ID)
	if err != nil {
		return d, err
	}
	if before.Status == "" {
		before = store.KnowledgeDocument{Revision: before.Revision}
	}
	d, next := store.NextKnowledge(d, begin, before, time.Now())
	if !next {
		return d, nil
	}
	if err := save(ctx, tx, namespace, d); err != nil {
		return d, err
	}
	if err := keepOnly(ctx, tx, namespace, d.ID, d.Indexed); err != nil {
		return d, err
	}
	if begin.Content == nil {
		return d, nil
	}
	_, err = putContent(ctx, tx, namespace, d.Newest(), *begin.Content)
	return d, err
}

// keepOnly deletes the chunks and contents of all revisions of a document but one.
func keepOnly(ctx context.Context, tx pgx.Tx, namespace, id string, revision int) error {
	for _, query := range []string{dropChunks, dropContents} {
		if _, err := tx.Exec(ctx, query, namespace, id, revision); err != nil {
			return err
		}
	}
	return nil
}

func save(ctx context.Context, tx pgx.Tx, namespace string, d store.KnowledgeDocument) error {
	_, err := tx.Exec(ctx, saveKnowledge, namespace, d.ID, d.Collection, d.Source, d.Title, jsonOrNull(d.Metadata), string(d.Status), d.Error,
		d.Revision, d.Indexed, d.Digest, d.IndexedDigest, d.Format, d.Bytes, d.Chunks, d.ThreadID, d.By, d.CreatedAt, d.UpdatedAt,
		d.IndexedThreadID, d.TitleThreadID, d.MetadataThreadID)
	return err
}

// putContent stores the content of a revision, and reports whether it had none.
func putContent(ctx context.Context, tx pgx.Tx, namespace string, r store.KnowledgeRevision, c store.KnowledgeContent) (bool, error) {
	bytes := c.Bytes
	if bytes == nil {
		bytes = []byte{}
	}
	tag, err := tx.Exec(ctx, addContent, namespace, r.Document, r.Number, c.Name, c.MediaType, bytes)
	return tag.RowsAffected() > 0, err
}

// PutKnowledgeContent implements [store.Knowledge].
func (s *Store) PutKnowledgeContent(
	ctx context.Context, namespace string, r store.KnowledgeRevision, digest string, c store.KnowledgeContent,
) error {
	err := store.CheckPut(digest, c)
	if err == nil {
		err = s.change(ctx, func(tx pgx.Tx) error {
			d, err := newest(ctx, tx, namespace, r)
			if err != nil || d.Status != store.KnowledgeProcessing {
				return err
			}
			added, err := putContent(ctx, tx, namespace, r, c)
			if err != nil || !added {
				return err
			}
			_, err = tx.Exec(ctx, setDigest, namespace, r.Document, digest)
			return err
		})
	}
	return revisionError("storing the content of", namespace, r, err)
}

// KnowledgeContent implements [store.Knowledge].
func (s *Store) KnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeContent, error) {
	var c store.KnowledgeContent
	err := store.ErrNotFound
	if storableRevision(namespace, r) {
		err = s.pool.QueryRow(ctx, oneContent, namespace, r.Document, r.Number).Scan(&c.Name, &c.MediaType, &c.Bytes)
		if errors.Is(err, pgx.ErrNoRows) {
			err = store.ErrNotFound
		}
	}
	return c, revisionError("reading the content of", namespace, r, err)
}

// FinishKnowledge implements [store.Knowledge].
func (s *Store) FinishKnowledge(
	ctx context.Context, namespace string, r store.KnowledgeRevision, finish store.KnowledgeFinish,
) (d store.KnowledgeDocument, err error) {
	finish = store.NormalizeFinish(finish)
	err = s.change(ctx, func(tx pgx.Tx) error {
		d, err = newest(ctx, tx, namespace, r)
		switch {
		case err != nil || d.Status != store.KnowledgeProcessing:
		case finish.Error != "":
			d = d.Finished(finish, 0, time.Now())
			if _, err = tx.Exec(ctx, dropChunks, namespace, d.ID, d.Indexed); err == nil {
				err = save(ctx, tx, namespace, d)
			}
		case finish.Unchanged:
			d = d.Finished(finish, 0, time.Now())
			if err = keepOnly(ctx, tx, namespace, d.ID, d.Indexed); err == nil {
				err = save(ctx, tx, namespace, d)
			}
		default:
			d, err = indexRevision(ctx, tx, namespace, d, finish)
		}
		return err
	})
	if err != nil {
		return store.KnowledgeDocument{}, revisionError("finishing", namespace, r, err)
	}
	return d, nil
}

// indexRevision makes the newest revision of a document the visible one. The counts of the namespace come last, since their lock
// holds up other documents.
func indexRevision(
	ctx context.Context, tx pgx.Tx, namespace string, d store.KnowledgeDocument, finish store.KnowledgeFinish,
) (store.KnowledgeDocument, error) {
	chunks, err := addWordsOf(ctx, tx, namespace, d)
	if err != nil {
		return d, err
	}
	if err := showVectors(ctx, tx, namespace, d); err != nil {
		return d, err
	}
	change, err := wordsChanged(ctx, tx, namespace, d.ID, d.Revision)
	if err != nil {
		return d, err
	}
	if err := keepOnly(ctx, tx, namespace, d.ID, d.Revision); err != nil {
		return d, err
	}
	d = d.Finished(finish, chunks, time.Now())
	if err := save(ctx, tx, namespace, d); err != nil {
		return d, err
	}
	return d, change.apply(ctx, tx, namespace)
}

// DeleteKnowledge implements [store.Knowledge].
func (s *Store) DeleteKnowledge(ctx context.Context, namespace, id string) error {
	err := store.ErrNotFound
	if store.Storable(namespace) && store.Storable(id) {
		err = s.change(ctx, func(tx pgx.Tx) error { return dropDocument(ctx, tx, namespace, id) })
	}
	if err != nil {
		return fmt.Errorf("postgres: deleting document %q of %q: %w", id, namespace, classify(err))
	}
	return nil
}

func dropDocument(ctx context.Context, tx pgx.Tx, namespace, id string) error {
	if _, err := knowledgeRow(ctx, tx, lockKnowledge, namespace, id); err != nil {
		return err
	}
	change, err := wordsChanged(ctx, tx, namespace, id, noRevision)
	if err != nil {
		return err
	}
	if err := keepOnly(ctx, tx, namespace, id, noRevision); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, deleteKnowledge, namespace, id); err != nil {
		return err
	}
	return change.apply(ctx, tx, namespace)
}

// KnowledgeDocument implements [store.Knowledge].
func (s *Store) KnowledgeDocument(ctx context.Context, namespace, id string) (d store.KnowledgeDocument, err error) {
	err = store.ErrNotFound
	if store.Storable(namespace) && store.Storable(id) {
		d, err = knowledgeRow(ctx, s.pool, oneKnowledge, namespace, id)
	}
	if err != nil {
		return store.KnowledgeDocument{}, fmt.Errorf("postgres: document %q of %q: %w", id, namespace, classify(err))
	}
	return d, nil
}

// KnowledgeDocuments implements [store.Knowledge].
func (s *Store) KnowledgeDocuments(ctx context.Context, namespace string, page store.KnowledgePage) ([]store.KnowledgeDocument, error) {
	query, args := knowledgePage, []any{namespace, page.AfterCollection, page.AfterSource}
	for _, part := range []struct{ condition, text, value string }{
		{inCollection, page.Collection, page.Collection},
		{withStatus, string(page.Status), string(page.Status)},
		{containing, page.Search, store.Pattern(page.Search)},
	} {
		if part.text != "" {
			args = append(args, part.value)
			query += fmt.Sprintf(part.condition, len(args))
		}
	}
	for _, arg := range args {
		if text, ok := arg.(string); ok && !store.Storable(text) {
			return nil, nil
		}
	}
	args = append(args, store.KnowledgePageLimit(page.Limit))
	found, err := collectRows(ctx, s.pool, scanKnowledge, query+fmt.Sprintf(bySource, len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("postgres: documents of %q: %w", namespace, classify(err))
	}
	return found, nil
}

// KnowledgeIndex implements [store.Knowledge].
func (s *Store) KnowledgeIndex(ctx context.Context, namespace string) (store.KnowledgeIndex, error) {
	index := store.KnowledgeIndex{Embedders: []store.KnowledgeEmbedder{}}
	if !store.Storable(namespace) {
		return index, nil
	}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, visibleDocuments, namespace).Scan(&index.Documents, &index.Chunks)
		if err != nil || s.vectors == nil {
			return err
		}
		index.Embedders, err = collectRows(ctx, tx, pgx.RowToStructByPos[store.KnowledgeEmbedder], visibleVectors, namespace)
		return err
	})
	if err != nil {
		return index, fmt.Errorf("postgres: index of %q: %w", namespace, classify(err))
	}
	return index, nil
}

// KnowledgeNamespaces implements [store.Knowledge].
func (s *Store) KnowledgeNamespaces(ctx context.Context) ([]string, error) {
	found, err := collectRows(ctx, s.pool, pgx.RowTo[string], knowledgeNamespaces)
	if err != nil {
		return nil, fmt.Errorf("postgres: namespaces with documents: %w", classify(err))
	}
	return found, nil
}

// KnowledgeCollections implements [store.Knowledge].
func (s *Store) KnowledgeCollections(ctx context.Context, namespace string) ([]string, error) {
	if !store.Storable(namespace) {
		return nil, nil
	}
	found, err := collectRows(ctx, s.pool, pgx.RowTo[string], knowledgeCollections, namespace, store.MaxKnowledgeCollections)
	if err != nil {
		return nil, fmt.Errorf("postgres: collections of %q: %w", namespace, classify(err))
	}
	return found, nil
}

// change runs a transaction, again if it was chosen to end a deadlock.
func (s *Store) change(ctx context.Context, run func(tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, s.pool, run)
		if err == nil || !rolledBack(err) || try == appendTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// snapshot runs queries that see the same state. They use indexes: a plan serves all namespaces, and must not read all of them
// because one of them is large.
func (s *Store) snapshot(ctx context.Context, run func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, useIndexes); err != nil {
			return err
		}
		return run(tx)
	})
}

// newest locks the document of a revision, or returns [store.ErrSuperseded].
func newest(ctx context.Context, tx pgx.Tx, namespace string, r store.KnowledgeRevision) (store.KnowledgeDocument, error) {
	if !storableRevision(namespace, r) {
		return store.KnowledgeDocument{}, store.ErrSuperseded
	}
	d, err := knowledgeRow(ctx, tx, lockKnowledge, namespace, r.Document)
	if errors.Is(err, store.ErrNotFound) || err == nil && d.Revision != r.Number {
		err = store.ErrSuperseded
	}
	return d, err
}

func storableRevision(namespace string, r store.KnowledgeRevision) bool {
	return store.Storable(namespace) && store.Storable(r.Document)
}

func revisionError(doing, namespace string, r store.KnowledgeRevision, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s revision %d of document %q of %q: %w", doing, r.Number, r.Document, namespace, classify(err))
}

func knowledgeRow(ctx context.Context, from runner, query string, args ...any) (store.KnowledgeDocument, error) {
	found, err := collectRows(ctx, from, scanKnowledge, query, args...)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.KnowledgeDocument{}, err
	}
	return found[0], nil
}

func collectRows[T any](ctx context.Context, from runner, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, err := from.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func scanKnowledge(row pgx.CollectableRow) (store.KnowledgeDocument, error) {
	var d store.KnowledgeDocument
	err := row.Scan(&d.ID, &d.Collection, &d.Source, &d.Title, (*[]byte)(&d.Metadata), (*string)(&d.Status), &d.Error, &d.Revision,
		&d.Indexed, &d.Digest, &d.IndexedDigest, &d.Format, &d.Bytes, &d.Chunks, &d.ThreadID, &d.By, &d.CreatedAt, &d.UpdatedAt,
		&d.IndexedThreadID, &d.TitleThreadID, &d.MetadataThreadID)
	d.CreatedAt, d.UpdatedAt = d.CreatedAt.UTC(), d.UpdatedAt.UTC()
	return d, err
}
