package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// threadErased is the error code of the triggers of erased threads.
const threadErased = "TM001"

const (
	isErased   = `SELECT FROM erased_threads WHERE namespace = $1 AND id = $2`
	markErased = `INSERT INTO erased_threads (namespace, id, erased_at, parent_id)
		SELECT $1, $2, now(), parent_id FROM threads WHERE namespace = $1 AND id = $2 ON CONFLICT DO NOTHING`
	eraseMarks = `DELETE FROM thread_marks WHERE namespace = $1 AND thread_id = $2`
	eraseRow   = `DELETE FROM threads WHERE namespace = $1 AND id = $2`

	eraseRecords = `DELETE FROM records WHERE ctid = ANY(ARRAY(SELECT ctid FROM records WHERE namespace = $1 AND thread_id = $2 LIMIT $3))`
	eraseTools   = `DELETE FROM tool_logs WHERE ctid = ANY(ARRAY(SELECT ctid FROM tool_logs WHERE namespace = $1 AND thread_id = $2 LIMIT $3))`
	oldTools     = `SELECT count(*) FROM tool_logs WHERE namespace = $1 AND finished_at < $2 AND status NOT IN ('started', 'waiting', 'pending')`
	pruneTools   = `DELETE FROM tool_logs WHERE ctid = ANY(ARRAY(SELECT ctid FROM tool_logs
		WHERE namespace = $1 AND finished_at < $2 AND status NOT IN ('started', 'waiting', 'pending') LIMIT $3))`
	eraseExtractions = `DELETE FROM entity_extractions WHERE namespace = $1 AND thread_id = $2 AND NOT ended`
	documents        = `SELECT id FROM knowledge_documents WHERE namespace = $1 AND thread_id = $2 AND thread_id <> ''
			UNION SELECT id FROM knowledge_documents WHERE namespace = $1 AND indexed_thread_id = $2 AND indexed_thread_id <> ''
			UNION SELECT id FROM knowledge_documents WHERE namespace = $1 AND title_thread_id = $2 AND title_thread_id <> ''
			UNION SELECT id FROM knowledge_documents WHERE namespace = $1 AND metadata_thread_id = $2 AND metadata_thread_id <> ''`
	documentsOf = documents + ` ORDER BY id`

	// thread_id has a statement of its own, since a trigger refuses the threads that are erased.
	eraseFromDocument = `UPDATE knowledge_documents SET title = $3, metadata = $4::text::json, status = $5, error = $6, revision = $7, indexed = $8,
			digest = $9, indexed_digest = $10, format = $11, bytes = $12, chunks = $13, requested_by = $14, updated_at = $15,
			indexed_thread_id = $16, title_thread_id = $17, metadata_thread_id = $18
		WHERE namespace = $1 AND id = $2`
	setDocumentThread = `UPDATE knowledge_documents SET thread_id = $3 WHERE namespace = $1 AND id = $2`

	subThreads = `SELECT id FROM threads WHERE namespace = $1 AND parent_id = $2 AND parent_id <> ''
		UNION SELECT id FROM erased_threads WHERE namespace = $1 AND parent_id = $2 AND parent_id <> '' ORDER BY id`

	threadIDs = `SELECT id FROM threads WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3`

	mentionPage = `SELECT m.entity, m.name, m.thread_id, m.source_type, m.source_id, m.text, m.at FROM entity_mentions m
		WHERE m.namespace = $1 AND m.thread_id = $2 AND (m.source_type, m.source_id, m.entity) > ($3, $4, $5)
		ORDER BY m.source_type, m.source_id, m.entity LIMIT $6`
	toolPage = selectTool + ` WHERE namespace = $1 AND thread_id = $2 AND tool_call_id > $3 ORDER BY tool_call_id LIMIT $4`

	threadContents = `SELECT (SELECT count(*) FROM records WHERE namespace = $1 AND thread_id = $2),
		(SELECT count(*) FROM tool_logs WHERE namespace = $1 AND thread_id = $2),
		(SELECT count(*) FROM entity_extractions WHERE namespace = $1 AND thread_id = $2 AND NOT ended),
		(SELECT count(*) FROM entity_mentions WHERE namespace = $1 AND thread_id = $2),
		(SELECT count(*) FROM (` + documents + `) d)`

	replaceRecord = `UPDATE records SET payload = $4::text::json WHERE namespace = $1 AND thread_id = $2 AND id = $3`
	replaceTool   = `UPDATE tool_logs SET input = coalesce($4::text::json, input), output = coalesce($5::text::json, output)
		WHERE namespace = $1 AND thread_id = $2 AND tool_call_id = $3`
	endExtractions = endedExtraction + ` WHERE namespace = $1 AND thread_id = $2 AND NOT ended AND (
			source_id IN (SELECT unnest($3::text[])) OR content <> '' AND event_id IN (SELECT unnest($3::text[])))`
	entityNames = `WITH page AS MATERIALIZED (SELECT id, name FROM entities WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3)
		SELECT id, name FROM page UNION
		SELECT entity, name FROM entity_mentions WHERE namespace = $1 AND entity = ANY(ARRAY(SELECT id FROM page)) ORDER BY id`

	dropMentions = `DELETE FROM entity_mentions WHERE ctid = ANY(ARRAY(SELECT ctid FROM entity_mentions WHERE namespace = $1 AND thread_id = $2
		AND ($3::text[] IS NULL OR source_id IN (SELECT unnest($3::text[]))) LIMIT $4)) RETURNING entity`
	dropRelations = `DELETE FROM entity_relations WHERE namespace = $1 AND (from_entity = ANY($2::text[]) OR to_entity = ANY($2::text[]))`
	recountOwn    = `UPDATE entities e SET descriptions = '[]',
			mentions = (SELECT count(*) FROM entity_mentions m WHERE m.namespace = $1 AND m.entity = e.id),
			mentioned_at = (SELECT max(at) FROM entity_mentions m WHERE m.namespace = $1 AND m.entity = e.id)
		WHERE e.namespace = $1 AND e.id = ANY($2::text[])`

	entityStanding = `SELECT e.mentions, coalesce(e.merged_into, ''), e.name,
			coalesce((SELECT h.id FROM entities h WHERE h.namespace = $1 AND h.merged_into = $2 ORDER BY h.created_at, h.id LIMIT 1), ''),
			coalesce((SELECT m.name FROM entity_mentions m WHERE m.namespace = $1 AND m.entity = $2
				ORDER BY m.name = e.name DESC, m.at DESC, m.source_type, m.source_id LIMIT 1), '')
		FROM entities e WHERE e.namespace = $1 AND e.id = $2`
	renameEntity  = `UPDATE entities SET name = $3, name_key = $4, embedder = '', vector = NULL WHERE namespace = $1 AND id = $2`
	repointEntity = `UPDATE entities SET merged_into = $3 WHERE namespace = $1 AND merged_into = $2`
	promoteEntity = `UPDATE entities SET root = $2, merged_into = CASE id WHEN $2 THEN NULL ELSE merged_into END
		WHERE namespace = $1 AND root = $3`
	eraseVectors = `DELETE FROM entity_vectors WHERE namespace = $1 AND entity = $2`
)

// removeEntity deletes one entity, and nothing that was merged into it.
var removeEntity = []string{
	`DELETE FROM entity_relations WHERE namespace = $1 AND from_entity = $2`,
	`DELETE FROM entity_relations WHERE namespace = $1 AND to_entity = $2`,
	`DELETE FROM entity_merges WHERE namespace = $1 AND from_entity = $2`,
	`DELETE FROM entity_merges WHERE namespace = $1 AND into_entity = $2`,
	eraseVectors,
	`DELETE FROM entities WHERE namespace = $1 AND id = $2`,
}

// MarkErased implements [store.Erasures].
func (s *Store) MarkErased(ctx context.Context, key store.Key) error {
	if !storableKey(key) {
		return nil
	}
	err := s.change(ctx, func(tx pgx.Tx) error {
		// Whoever creates or changes the thread at this moment ends first. The row of a marked thread cannot be created.
		for _, query := range []string{makeThread, lockThread, markErased, eraseMarks, eraseRow} {
			if _, err := tx.Exec(ctx, query, key.Namespace, key.ThreadID); err != nil {
				return err
			}
		}
		return nil
	})
	if err = classify(err); errors.Is(err, store.ErrErased) {
		return nil
	}
	return eraseError("marking as erased", key, err)
}

// EraseThread implements [store.Erasures].
func (s *Store) EraseThread(ctx context.Context, key store.Key) error {
	if !storableKey(key) {
		return nil
	}
	err := s.MarkErased(ctx, key)
	for _, query := range []string{eraseRecords, eraseTools} {
		if err == nil {
			err = store.EraseInBatches(func() (deleted int64, err error) {
				err = s.change(ctx, func(tx pgx.Tx) error {
					tag, err := tx.Exec(ctx, query, key.Namespace, key.ThreadID, store.EraseBatch)
					deleted = tag.RowsAffected()
					return err
				})
				return deleted, err
			})
		}
	}
	if err == nil {
		err = s.forget(ctx, key, nil, eraseExtractions)
	}
	if err == nil {
		err = s.eraseDocuments(ctx, key)
	}
	return eraseError("erasing", key, err)
}

// forget runs a statement on queued extractions, and forgets mentions: an extraction that ended meanwhile has added its own.
func (s *Store) forget(ctx context.Context, key store.Key, sources []string, extractions string, args ...any) error {
	err := s.change(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, extractions, append([]any{key.Namespace, key.ThreadID}, args...)...)
		return err
	})
	if err != nil {
		return err
	}
	return store.EraseInBatches(func() (deleted int64, err error) {
		err = s.resolving(ctx, key.Namespace, func(r resolving) (err error) {
			deleted, err = store.ForgetMentions(ctx, forgetting{r}, key.ThreadID, sources)
			return err
		})
		return deleted, err
	})
}

// ReplaceRecords implements [store.Erasures].
func (s *Store) ReplaceRecords(ctx context.Context, key store.Key, records ...event.Record) error {
	records, err := store.NormalizeReplacedRecords(records)
	if err == nil {
		err = replace(ctx, s, key, replaceRecord, records, func(r event.Record) []any { return []any{r.ID, string(r.Payload)} })
	}
	return eraseError("replacing records of", key, err)
}

// ReplaceToolLogs implements [store.Erasures].
func (s *Store) ReplaceToolLogs(ctx context.Context, key store.Key, logs ...store.ToolLog) error {
	err := replace(ctx, s, key, replaceTool, store.NormalizeReplacedToolLogs(logs), func(l store.ToolLog) []any {
		return []any{l.ToolCallID, jsonOrNull(l.Input), jsonOrNull(l.Output)}
	})
	return eraseError("replacing tool logs of", key, err)
}

func replace[T any](ctx context.Context, s *Store, key store.Key, query string, rows []T, args func(T) []any) error {
	if !storableKey(key) {
		return nil
	}
	for rows := range slices.Chunk(rows, store.EraseBatch) {
		err := s.change(ctx, func(tx pgx.Tx) error {
			var pipeline pgx.Batch
			pipeline.Queue(lockThread, key.Namespace, key.ThreadID) // first, as in appends: a replaced record changes the thread
			for _, row := range rows {
				pipeline.Queue(query, append([]any{key.Namespace, key.ThreadID}, args(row)...)...)
			}
			return tx.SendBatch(ctx, &pipeline).Close()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetMessages implements [store.Erasures].
func (s *Store) ForgetMessages(ctx context.Context, key store.Key, ids ...string) error {
	if !storableKey(key) {
		return nil
	}
	for batch := range slices.Chunk(storable(ids), store.EraseBatch) {
		if err := s.forget(ctx, key, batch, endExtractions, batch); err != nil {
			return eraseError("forgetting messages of", key, err)
		}
	}
	return nil
}

// ForgetEntities implements [store.Erasures].
func (s *Store) ForgetEntities(ctx context.Context, namespace string, match func(name string) bool) (int, error) {
	if !store.Storable(namespace) {
		return 0, nil
	}
	n, err := store.ForgetNamed(ctx, match, func(ctx context.Context, after string) ([]store.EntityVector, error) {
		return collectRows(ctx, s.pool, scanName, entityNames, namespace, after, store.MaxEntityPage)
	}, func(ctx context.Context, id string) error {
		return s.resolving(ctx, namespace, func(r resolving) error {
			root, err := r.RootOf(ctx, id)
			if err != nil {
				return err
			}
			return r.deleteRoot(ctx, root)
		})
	})
	return n, entityError("forgetting entities", namespace, "*", err)
}

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

// ThreadDocuments implements [store.Erasures].
func (s *Store) ThreadDocuments(ctx context.Context, key store.Key) ([]string, error) {
	ids, err := s.idsOf(ctx, documentsOf, key)
	return ids, eraseError("reading the documents of", key, err)
}

// SubThreads implements [store.Erasures].
func (s *Store) SubThreads(ctx context.Context, key store.Key) ([]string, error) {
	ids, err := s.idsOf(ctx, subThreads, key)
	return ids, eraseError("reading the sub-agents of", key, err)
}

// ThreadIDs implements [store.Erasures].
func (s *Store) ThreadIDs(ctx context.Context, namespace, after string, limit int) (ids []string, err error) {
	if !store.Storable(namespace) || !store.Storable(after) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, threadIDs, namespace, after, min(limit, store.MaxLimit))
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: listing the threads of namespace %q: %w", namespace, classify(err))
	}
	return ids, nil
}

func (s *Store) idsOf(ctx context.Context, query string, key store.Key) ([]string, error) {
	if !storableKey(key) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, query, key.Namespace, key.ThreadID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ThreadMentions implements [store.Erasures].
func (s *Store) ThreadMentions(ctx context.Context, key store.Key, after store.Mention, limit int) ([]store.Mention, error) {
	found, err := collect(ctx, s, key, scanMention, mentionPage, after.SourceType, after.SourceID, after.EntityID, min(limit, store.MaxLimit))
	return found, eraseError("reading the mentions of", key, err)
}

// ToolLogPage implements [store.Erasures].
func (s *Store) ToolLogPage(ctx context.Context, key store.Key, after string, limit int) ([]store.ToolLog, error) {
	found, err := collect(ctx, s, key, scanTool, toolPage, after, min(limit, store.MaxLimit))
	return found, eraseError("reading tool logs of", key, err)
}

// ThreadContents implements [store.Erasures].
func (s *Store) ThreadContents(ctx context.Context, key store.Key) (c store.ThreadContents, err error) {
	if storableKey(key) {
		err = s.pool.QueryRow(ctx, threadContents, key.Namespace, key.ThreadID).Scan(&c.Records, &c.ToolLogs, &c.Extractions, &c.Mentions, &c.Documents)
	}
	return c, eraseError("counting", key, err)
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

func storableKey(key store.Key) bool {
	return store.Storable(key.Namespace) && store.Storable(key.ThreadID)
}

func eraseError(doing string, key store.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s %s: %w", doing, key, classify(err))
}

// forgetting implements [store.Forgetting].
type forgetting struct{ resolving }

func (f forgetting) run(ctx context.Context, query string, args ...any) error {
	_, err := f.Exec(ctx, query, append([]any{f.namespace}, args...)...)
	return err
}

// DropMentions implements [store.Forgetting].
func (f forgetting) DropMentions(ctx context.Context, threadID string, sources []string) ([]string, error) {
	return collectRows(ctx, f, pgx.RowTo[string], dropMentions, f.namespace, threadID, sources, store.EraseBatch)
}

// DropDerived implements [store.Forgetting].
func (f forgetting) DropDerived(ctx context.Context, ids []string) error {
	if err := f.run(ctx, dropRelations, ids); err != nil {
		return err
	}
	return f.run(ctx, recountOwn, ids)
}

// Standing implements [store.Forgetting].
func (f forgetting) Standing(ctx context.Context, id string) (e store.EntityStanding, err error) {
	err = f.QueryRow(ctx, entityStanding, f.namespace, id).Scan(&e.Mentions, &e.Parent, &e.Name, &e.Heir, &e.Uses)
	return e, err
}

// Rename implements [store.Forgetting].
func (f forgetting) Rename(ctx context.Context, id, name string) error {
	if err := f.run(ctx, renameEntity, id, name, store.EntityKeys(name)[0]); err != nil {
		return err
	}
	return f.run(ctx, eraseVectors, id)
}

// Repoint implements [store.Forgetting].
func (f forgetting) Repoint(ctx context.Context, id, parent string) error {
	return f.run(ctx, repointEntity, id, parent)
}

// Promote implements [store.Forgetting].
func (f forgetting) Promote(ctx context.Context, id, root string) error {
	return f.run(ctx, promoteEntity, id, root)
}

// Remove implements [store.Forgetting].
func (f forgetting) Remove(ctx context.Context, id string) error {
	for _, query := range removeEntity {
		if err := f.run(ctx, query, id); err != nil {
			return err
		}
	}
	return nil
}

// Recount implements [store.Forgetting].
func (f forgetting) Recount(ctx context.Context, id string) error {
	root, err := f.RootOf(ctx, id)
	if err != nil {
		return err
	}
	return f.count(ctx, root)
}

// OldToolLogs implements [store.Erasures].
func (s *Store) OldToolLogs(ctx context.Context, namespace string, before time.Time) (n int, err error) {
	if err := s.pool.QueryRow(ctx, oldTools, namespace, before).Scan(&n); err != nil {
		return 0, fmt.Errorf("postgres: counting old tool logs: %w", classify(err))
	}
	return n, nil
}

// PruneToolLogs implements [store.Erasures].
func (s *Store) PruneToolLogs(ctx context.Context, namespace string, before time.Time) (n int, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, pruneTools, namespace, before, store.EraseBatch)
		n = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: deleting old tool logs: %w", classify(err))
	}
	return n, nil
}
