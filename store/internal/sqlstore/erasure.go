package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const documentsOf = `SELECT id FROM knowledge_documents WHERE namespace = $1 AND thread_id = $2 AND thread_id <> ''
	UNION SELECT id FROM knowledge_documents WHERE namespace = $1 AND indexed_thread_id = $2 AND indexed_thread_id <> ''
	UNION SELECT id FROM knowledge_documents WHERE namespace = $1 AND title_thread_id = $2 AND title_thread_id <> ''
	UNION SELECT id FROM knowledge_documents WHERE namespace = $1 AND metadata_thread_id = $2 AND metadata_thread_id <> ''`

const oldTools = ` WHERE namespace = $1 AND finished_at < $2 AND status NOT IN ('started', 'waiting', 'pending')`

var (
	// markErased are the statements that mark a thread. Whoever creates or changes it at this moment ends first. The row of a marked
	// thread cannot be created.
	markErased = []*Query{
		both(`INSERT INTO threads (namespace, id, created_at, updated_at) VALUES ($1, $2, clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING`),
		lockThread,
		both(`INSERT INTO erased_threads (namespace, id, erased_at, parent_id)
			SELECT $1, $2, clock_timestamp(), parent_id FROM threads WHERE namespace = $1 AND id = $2 ON CONFLICT DO NOTHING`),
		both(`DELETE FROM thread_marks` + ofThread),
		both(`DELETE FROM threads WHERE namespace = $1 AND id = $2`),
	}

	// lockThread makes those who change a thread wait, as appends do. SQLite has one writer.
	lockThread = &Query{Postgres: `SELECT 1 FROM threads WHERE namespace = $1 AND id = $2 FOR UPDATE`}

	eraseRecords     = deleteSome(`records`, ofThread)
	eraseTools       = deleteSome(`tool_logs`, ofThread)
	pruneTools       = deleteSome(`tool_logs`, oldTools)
	countOldTools    = both(`SELECT count(*) FROM tool_logs` + oldTools)
	eraseExtractions = queued(`DELETE FROM entity_extractions` + ofThread + ` AND QUEUED`)
	threadDocuments  = both(documentsOf + ` ORDER BY id`)

	subThreads = both(`SELECT id FROM threads WHERE namespace = $1 AND parent_id = $2 AND parent_id <> ''
		UNION SELECT id FROM erased_threads WHERE namespace = $1 AND parent_id = $2 AND parent_id <> '' ORDER BY id`)
	threadIDs   = both(`SELECT id FROM threads WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3 + 0`)
	mentionPage = both(`SELECT ` + mentionColumns + ` FROM entity_mentions m WHERE m.namespace = $1 AND m.thread_id = $2
		AND (m.source_type, m.source_id, m.entity) > ($3, $4, $5) ORDER BY m.source_type, m.source_id, m.entity LIMIT $6 + 0`)
	toolPage = both(selectTool + ofThread + ` AND tool_call_id > $3 ORDER BY tool_call_id LIMIT $4 + 0`)

	threadContents = queued(`SELECT (SELECT count(*) FROM records` + ofThread + `), (SELECT count(*) FROM tool_logs` + ofThread + `),
		(SELECT count(*) FROM entity_extractions` + ofThread + ` AND QUEUED), (SELECT count(*) FROM entity_mentions` + ofThread + `),
		(SELECT count(*) FROM (` + documentsOf + `) AS documents)`)

	replaceRecord = both(`UPDATE records SET payload = $4` + ofThread + ` AND id = $3`)
	replaceTool   = both(`UPDATE tool_logs SET input = coalesce($4, input), output = coalesce($5, output)` + ofThread + ` AND tool_call_id = $3`)

	endExtractionsOf = variants(endExtractions+`thread_id = $2 AND QUEUED AND (source_id IN IDS OR content <> '' AND event_id IN IDS)`,
		isQueued, word{"IDS", "(SELECT value FROM json_each($3))", "(SELECT unnest($3::text[]))"})
	entityNames = &Query{
		SQLite: `WITH page AS MATERIALIZED (SELECT id, name FROM entities WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3 + 0)
			SELECT id, name FROM page UNION SELECT p.id, m.name FROM page p CROSS JOIN entity_mentions m ON m.namespace = $1 AND m.entity = p.id
			ORDER BY id`,
		Postgres: `WITH page AS MATERIALIZED (SELECT id, name FROM entities WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3)
			SELECT id, name FROM page UNION
			SELECT entity, name FROM entity_mentions WHERE namespace = $1 AND entity = ANY(ARRAY(SELECT id FROM page)) ORDER BY id`,
	}

	dropMentions = &Query{
		SQLite: `DELETE FROM entity_mentions WHERE key IN (SELECT key FROM entity_mentions` + ofThread + `
			AND ($3 IS NULL OR source_id IN (SELECT value FROM json_each($3))) LIMIT $4 + 0) RETURNING entity`,
		Postgres: `DELETE FROM entity_mentions WHERE ctid = ANY(ARRAY(SELECT ctid FROM entity_mentions` + ofThread + `
			AND ($3::text[] IS NULL OR source_id IN (SELECT unnest($3::text[]))) LIMIT $4)) RETURNING entity`,
	}
	recountOwn = both(`UPDATE entities SET descriptions = '[]',
			mentions = (SELECT count(*) FROM entity_mentions WHERE namespace = $1 AND entity = $2),
			mentioned_at = (SELECT max(at) FROM entity_mentions WHERE namespace = $1 AND entity = $2)
		WHERE namespace = $1 AND id = $2`)
	entityStanding = both(`SELECT e.mentions, coalesce(e.merged_into, ''), e.name,
			coalesce((SELECT h.id FROM entities h WHERE h.namespace = $1 AND h.merged_into = $2 ORDER BY h.created_at, h.id LIMIT 1), ''),
			coalesce((SELECT m.name FROM entity_mentions m WHERE m.namespace = $1 AND m.entity = $2
				ORDER BY m.name = e.name DESC, m.at DESC, m.source_type, m.source_id LIMIT 1), '')
		FROM entities e WHERE e.namespace = $1 AND e.id = $2`)
	renameEntity  = both(`UPDATE entities SET name = $3, name_key = $4, embedder = '', vector = NULL WHERE namespace = $1 AND id = $2`)
	repointEntity = both(`UPDATE entities SET merged_into = $3 WHERE namespace = $1 AND merged_into = $2`)
	promoteEntity = both(`UPDATE entities SET root = $2, merged_into = CASE id WHEN $2 THEN NULL ELSE merged_into END WHERE namespace = $1 AND root = $3`)

	dropRelationsFrom = both(`DELETE FROM entity_relations WHERE namespace = $1 AND from_entity = $2`)
	dropRelationsTo   = both(`DELETE FROM entity_relations WHERE namespace = $1 AND to_entity = $2`)
	dropVectorsOf     = both(`DELETE FROM entity_vectors WHERE namespace = $1 AND entity = $2`)

	// removeEntity deletes one entity, and nothing that was merged into it.
	removeEntity = []*Query{
		dropRelationsFrom, dropRelationsTo,
		both(`DELETE FROM entity_merges WHERE namespace = $1 AND from_entity = $2`),
		both(`DELETE FROM entity_merges WHERE namespace = $1 AND into_entity = $2`),
		dropVectorsOf,
		both(`DELETE FROM entities WHERE namespace = $1 AND id = $2`),
	}
)

// deleteSome deletes at most $3 rows of a table.
func deleteSome(table, where string) *Query {
	return &Query{
		SQLite:   `DELETE FROM ` + table + ` WHERE rowid IN (SELECT rowid FROM ` + table + where + ` LIMIT $3 + 0)`,
		Postgres: `DELETE FROM ` + table + ` WHERE ctid = ANY(ARRAY(SELECT ctid FROM ` + table + where + ` LIMIT $3))`,
	}
}

// MarkErased implements [store.Erasures].
func (s *Store) MarkErased(ctx context.Context, key store.Key) error {
	return s.do(ctx, "mark_erased", func(ctx context.Context) error { return s.markErased(ctx, key) }, "marking %s as erased", key)
}

func (s *Store) markErased(ctx context.Context, key store.Key) error {
	err := s.db.Transaction(ctx, "", func(tx Querier) error {
		for _, q := range markErased {
			if _, err := tx.Exec(ctx, q, key.Namespace, key.ThreadID); err != nil {
				return err
			}
		}
		return nil
	})
	if err = s.db.Classify(err); errors.Is(err, store.ErrErased) {
		return nil
	}
	return err
}

// EraseThread implements [store.Erasures].
func (s *Store) EraseThread(ctx context.Context, key store.Key) error {
	return s.do(ctx, "erase_thread", func(ctx context.Context) error {
		if err := s.markErased(ctx, key); err != nil {
			return err
		}
		for _, q := range []*Query{eraseRecords, eraseTools} {
			err := eraseInBatches(func() (int64, error) {
				return s.db.Writer.Exec(ctx, q, key.Namespace, key.ThreadID, store.EraseBatch)
			})
			if err != nil {
				return err
			}
		}
		if err := s.forget(ctx, key, nil, eraseExtractions); err != nil {
			return err
		}
		return s.eraseDocuments(ctx, key)
	}, "erasing %s", key)
}

// forget runs a statement on queued extractions, and forgets mentions: an extraction that ended meanwhile has added its own.
func (s *Store) forget(ctx context.Context, key store.Key, sources []string, extractions *Query, args ...any) error {
	if _, err := s.db.Writer.Exec(ctx, extractions, append([]any{key.Namespace, key.ThreadID}, args...)...); err != nil {
		return err
	}
	return eraseInBatches(func() (deleted int64, err error) {
		err = s.resolving(ctx, key.Namespace, func(r resolving) error {
			deleted, err = r.forgetMentions(ctx, key.ThreadID, sources)
			return err
		})
		return deleted, err
	})
}

// ReplaceRecords implements [store.Erasures].
func (s *Store) ReplaceRecords(ctx context.Context, key store.Key, records ...event.Record) error {
	return s.do(ctx, "replace_records", func(ctx context.Context) error {
		records, err := normalizeReplacedRecords(records)
		if err != nil {
			return err
		}
		return replace(ctx, s, key, replaceRecord, records, func(r event.Record) []any {
			return []any{key.Namespace, key.ThreadID, r.ID, string(r.Payload)}
		})
	}, "replacing records of %s", key)
}

// ReplaceToolLogs implements [store.Erasures].
func (s *Store) ReplaceToolLogs(ctx context.Context, key store.Key, logs ...store.ToolLog) error {
	return s.do(ctx, "replace_tool_logs", func(ctx context.Context) error {
		return replace(ctx, s, key, replaceTool, normalizeReplacedToolLogs(logs), func(l store.ToolLog) []any {
			return []any{key.Namespace, key.ThreadID, l.ToolCallID, TextOrNull(l.Input), TextOrNull(l.Output)}
		})
	}, "replacing tool logs of %s", key)
}

func replace[T any](ctx context.Context, s *Store, key store.Key, q *Query, given []T, args func(T) []any) error {
	for batch := range slices.Chunk(given, store.EraseBatch) {
		rows := make([][]any, len(batch))
		for i, one := range batch {
			rows[i] = args(one)
		}
		err := s.db.Transaction(ctx, "", func(tx Querier) error {
			// First, as in appends: a replaced record changes the thread.
			if _, err := tx.Exec(ctx, lockThread, key.Namespace, key.ThreadID); err != nil {
				return err
			}
			_, err := tx.Run(ctx, q, rows)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetMessages implements [store.Erasures].
func (s *Store) ForgetMessages(ctx context.Context, key store.Key, ids ...string) error {
	return s.do(ctx, "forget_messages", func(ctx context.Context) error {
		for batch := range slices.Chunk(ids, store.EraseBatch) {
			if err := s.forget(ctx, key, batch, endExtractionsOf, batch); err != nil {
				return err
			}
		}
		return nil
	}, "forgetting messages of %s", key)
}

// ForgetEntities implements [store.Erasures].
func (s *Store) ForgetEntities(ctx context.Context, namespace string, match func(name string) bool) (n int, err error) {
	err = s.do(ctx, "forget_entities", func(ctx context.Context) error {
		n, err = forgetNamed(ctx, match, func(ctx context.Context, after string) ([]store.EntityVector, error) {
			return all(ctx, s, s.db.Reader, entityNames, (*Store).scanName, namespace, after, store.MaxEntityPage)
		}, func(ctx context.Context, id string) error {
			return s.resolving(ctx, namespace, func(r resolving) error {
				root, err := r.rootOf(ctx, id)
				if err != nil {
					return err
				}
				return r.each(ctx, root, deleteEntity...)
			})
		})
		return err
	}, "forgetting entities of %q", namespace)
	return n, err
}

// ThreadDocuments implements [store.Erasures].
func (s *Store) ThreadDocuments(ctx context.Context, key store.Key) ([]string, error) {
	return call(ctx, s, "thread_documents", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, threadDocuments, scanned[string], key.Namespace, key.ThreadID)
	}, "reading the documents of %s", key)
}

// SubThreads implements [store.Store].
func (s *Store) SubThreads(ctx context.Context, key store.Key) ([]string, error) {
	return call(ctx, s, "sub_threads", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, subThreads, scanned[string], key.Namespace, key.ThreadID)
	}, "reading the sub-agents of %s", key)
}

// ThreadIDs implements [store.Store].
func (s *Store) ThreadIDs(ctx context.Context, namespace, after string, limit int) ([]string, error) {
	return call(ctx, s, "thread_ids", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, threadIDs, scanned[string], namespace, after, min(limit, store.MaxLimit))
	}, "listing the threads of %q", namespace)
}

// ThreadMentions implements [store.Erasures].
func (s *Store) ThreadMentions(ctx context.Context, key store.Key, after store.Mention, limit int) ([]store.Mention, error) {
	return call(ctx, s, "thread_mentions", func(ctx context.Context) ([]store.Mention, error) {
		return all(ctx, s, s.db.Reader, mentionPage, (*Store).scanMention, key.Namespace, key.ThreadID, after.SourceType, after.SourceID, after.EntityID, min(limit, store.MaxLimit))
	}, "reading the mentions of %s", key)
}

// ToolLogPage implements [store.Erasures].
func (s *Store) ToolLogPage(ctx context.Context, key store.Key, after string, limit int) ([]store.ToolLog, error) {
	return call(ctx, s, "tool_log_page", func(ctx context.Context) ([]store.ToolLog, error) {
		return all(ctx, s, s.db.Reader, toolPage, (*Store).scanTool, key.Namespace, key.ThreadID, after, min(limit, store.MaxLimit))
	}, "reading tool logs of %s", key)
}

// ThreadContents implements [store.Erasures].
func (s *Store) ThreadContents(ctx context.Context, key store.Key) (store.ThreadContents, error) {
	return call(ctx, s, "thread_contents", func(ctx context.Context) (c store.ThreadContents, err error) {
		err = Each(ctx, s.db.Reader, threadContents, func(row Row) error {
			return row.Scan(&c.Records, &c.ToolLogs, &c.Extractions, &c.Mentions, &c.Documents)
		}, key.Namespace, key.ThreadID)
		return c, err
	}, "counting what %s has", key)
}

// OldToolLogs implements [store.Erasures].
func (s *Store) OldToolLogs(ctx context.Context, namespace string, before time.Time) (int, error) {
	return call(ctx, s, "old_tool_logs", func(ctx context.Context) (int, error) {
		return one(ctx, s, s.db.Reader, countOldTools, scanned[int], namespace, before)
	}, "counting old tool logs of %q", namespace)
}

// PruneToolLogs implements [store.Erasures].
func (s *Store) PruneToolLogs(ctx context.Context, namespace string, before time.Time) (int, error) {
	return call(ctx, s, "prune_tool_logs", func(ctx context.Context) (int, error) {
		n, err := s.db.Writer.Exec(ctx, pruneTools, namespace, before, store.EraseBatch)
		return int(n), err
	}, "deleting old tool logs of %q", namespace)
}

// dropMentions deletes mentions of a thread, at most [store.EraseBatch] of those whose sources have these ids; nil = of all. It returns
// their entities, one for each mention.
func (r resolving) dropMentions(ctx context.Context, threadID string, sources []string) ([]string, error) {
	return all(ctx, r.s, r, dropMentions, scanned[string], r.namespace, threadID, sources, store.EraseBatch)
}

// dropDerived deletes the descriptions and relations of entities, and counts their mentions again.
func (r resolving) dropDerived(ctx context.Context, ids []string) error {
	rows := make([][]any, len(ids))
	for _, q := range []*Query{dropRelationsFrom, dropRelationsTo, recountOwn} {
		for i, id := range ids {
			rows[i] = []any{r.namespace, id}
		}
		if _, err := r.Run(ctx, q, rows); err != nil {
			return err
		}
	}
	return nil
}

// standing returns what is left of an entity.
func (r resolving) standing(ctx context.Context, id string) (standing, error) {
	return one(ctx, r.s, r, entityStanding, func(_ *Store, row Row) (e standing, err error) {
		err = row.Scan(&e.Mentions, &e.Parent, &e.Name, &e.Heir, &e.Uses)
		return e, err
	}, r.namespace, id)
}

// rename gives an entity another name, without vectors.
func (r resolving) rename(ctx context.Context, id, name string) error {
	if _, err := r.Exec(ctx, renameEntity, r.namespace, id, name, entityKeys(name)[0]); err != nil {
		return err
	}
	return r.each(ctx, id, dropVectorsOf)
}

// repoint makes parent the entity that those merged into id are merged into.
func (r resolving) repoint(ctx context.Context, id, parent string) error {
	_, err := r.Exec(ctx, repointEntity, r.namespace, id, parent)
	return err
}

// promote makes an entity the root of those whose root is another one.
func (r resolving) promote(ctx context.Context, id, root string) error {
	_, err := r.Exec(ctx, promoteEntity, r.namespace, id, root)
	return err
}

// remove deletes an entity, with its relations, merges and vectors.
func (r resolving) remove(ctx context.Context, id string) error {
	return r.each(ctx, id, removeEntity...)
}

// recount counts the mentions of the root of an entity again.
func (r resolving) recount(ctx context.Context, id string) error {
	root, err := r.rootOf(ctx, id)
	if err != nil {
		return err
	}
	return r.each(ctx, root, countRoot)
}

// Scrub implements [store.Erasures].
func (s *Store) Scrub(ctx context.Context) error {
	return s.do(ctx, "scrub", s.db.Scrub, "overwriting what was deleted")
}
