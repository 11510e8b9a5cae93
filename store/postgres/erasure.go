package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

// threadErased is the error code of the triggers of erased threads.
const threadErased = "TM001"

const (
	isErased = `SELECT FROM erased_threads WHERE namespace = $1 AND id = $2`

	// thread_id has a statement of its own, since a trigger refuses the threads that are erased.
	eraseFromDocument = `UPDATE knowledge_documents SET title = $3, metadata = $4::text::json, status = $5, error = $6, revision = $7, indexed = $8,
			digest = $9, indexed_digest = $10, format = $11, bytes = $12, chunks = $13, requested_by = $14, updated_at = $15,
			indexed_thread_id = $16, title_thread_id = $17, metadata_thread_id = $18
		WHERE namespace = $1 AND id = $2`
	setDocumentThread = `UPDATE knowledge_documents SET thread_id = $3 WHERE namespace = $1 AND id = $2`
)

func (s *Store) eraseDocuments(ctx context.Context, key store.Key) error {
	ids, err := s.ThreadDocuments(ctx, key)
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.change(ctx, func(tx pgx.Tx) error { return eraseDocument(ctx, tx, key, id) })
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

func eraseDocument(ctx context.Context, tx pgx.Tx, key store.Key, id string) error {
	before, err := knowledgeRow(ctx, tx, lockKnowledge, key.Namespace, id)
	if err != nil {
		return err
	}
	d, keep, ok := before.Without(key.ThreadID, time.Now())
	if ok && d.ThreadID != before.ThreadID {
		// The revision before may be that of a thread that is erased too.
		tag, err := tx.Exec(ctx, isErased, key.Namespace, d.ThreadID)
		if err != nil {
			return err
		}
		ok = tag.RowsAffected() == 0
	}
	if !ok {
		return dropDocument(ctx, tx, key.Namespace, id)
	}
	var change wordsChange
	if d.Indexed == 0 && before.Indexed > 0 {
		if change, err = wordsChanged(ctx, tx, key.Namespace, id, noRevision); err != nil {
			return err
		}
	}
	if keep > 0 {
		if err := keepOnly(ctx, tx, key.Namespace, id, keep); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, eraseFromDocument, key.Namespace, id, d.Title, jsonOrNull(d.Metadata), string(d.Status), d.Error, d.Revision, d.Indexed,
		d.Digest, d.IndexedDigest, d.Format, d.Bytes, d.Chunks, d.By, d.UpdatedAt, d.IndexedThreadID, d.TitleThreadID, d.MetadataThreadID)
	if err == nil && d.ThreadID != before.ThreadID {
		_, err = tx.Exec(ctx, setDocumentThread, key.Namespace, id, d.ThreadID)
	}
	if err != nil {
		return err
	}
	return change.apply(ctx, tx, key.Namespace)
}

// scrubbed are the tables that have what belongs to threads.
var scrubbed = []string{
	"threads", "thread_marks", "records", "tool_logs", "entity_extractions", "entities", "entity_mentions", "entity_relations",
	"entity_merges", "entity_vectors", "knowledge_documents", "knowledge_contents", "knowledge_chunks", "knowledge_words", "knowledge_word_chunks",
}

// Scrub implements [store.Erasures]. VACUUM frees the room of deleted rows, whose bytes stay until it is reused, as they do in
// the write-ahead log of the server. It waits for nobody and locks nobody out: rows that an older transaction can still
// see, and tables that are vacuumed at this moment, are left to the next VACUUM.
func (s *Store) Scrub(ctx context.Context) error {
	for _, table := range scrubbed {
		if _, err := s.pool.Exec(ctx, `VACUUM (SKIP_LOCKED, TRUNCATE FALSE) `+table); err != nil {
			return fmt.Errorf("postgres: vacuuming %s: %w", table, classify(err))
		}
	}
	return nil
}
