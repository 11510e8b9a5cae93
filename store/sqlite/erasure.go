package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// eraseQueries are the statements of [store.Erasures]. All run on the connection of the writer: what is counted must not be
// older than what was deleted.
type eraseQueries struct {
	mark, marks, row                              *sql.Stmt
	records, toolLogs, extractions                *sql.Stmt
	countRecords, countTools                      *sql.Stmt
	countExtractions, countMentions, countSources *sql.Stmt
	documents, subThreads, threadIDs              *sql.Stmt
	document, documentThread, erased              *sql.Stmt
	mentionPage, toolPage                         *sql.Stmt
	oldTools, pruneTools                          *sql.Stmt

	replaceRecord, replaceTool *sql.Stmt
	endExtractions, names      *sql.Stmt
	pages, page                *sql.Stmt

	mentions, descriptions, recount          *sql.Stmt
	standing, rename, repoint, promote, root *sql.Stmt
	relationsFrom, relationsTo               *sql.Stmt
	mergesFrom, mergesInto, vectors, entity  *sql.Stmt
	recountRoot                              *sql.Stmt
}

func (q *eraseQueries) queries() map[**sql.Stmt]string {
	const ofThread = ` WHERE namespace = ? AND thread_id = ?`
	const documents = `SELECT id FROM knowledge_documents WHERE namespace = ?1 AND thread_id = ?2 AND thread_id <> ''
			UNION SELECT id FROM knowledge_documents WHERE namespace = ?1 AND indexed_thread_id = ?2 AND indexed_thread_id <> ''
			UNION SELECT id FROM knowledge_documents WHERE namespace = ?1 AND title_thread_id = ?2 AND title_thread_id <> ''
			UNION SELECT id FROM knowledge_documents WHERE namespace = ?1 AND metadata_thread_id = ?2 AND metadata_thread_id <> ''`
	const ended = ` WHERE namespace = ? AND finished_at < ? AND status NOT IN ('started', 'waiting', 'pending')`
	return map[**sql.Stmt]string{
		&q.mark: `INSERT INTO erased_threads (namespace, id, erased_at, parent_id)
			VALUES (?1, ?2, ?3, coalesce((SELECT parent_id FROM threads WHERE namespace = ?1 AND id = ?2), '')) ON CONFLICT DO NOTHING`,
		&q.marks: `DELETE FROM thread_marks` + ofThread,
		&q.row:   `DELETE FROM threads WHERE namespace = ? AND id = ?`,

		&q.records:     `DELETE FROM records WHERE rowid IN (SELECT rowid FROM records` + ofThread + ` LIMIT ? + 0)`,
		&q.toolLogs:    `DELETE FROM tool_logs WHERE rowid IN (SELECT rowid FROM tool_logs` + ofThread + ` LIMIT ? + 0)`,
		&q.oldTools:    `SELECT count(*) FROM tool_logs` + ended,
		&q.pruneTools:  `DELETE FROM tool_logs WHERE rowid IN (SELECT rowid FROM tool_logs` + ended + ` LIMIT ? + 0)`,
		&q.extractions: `DELETE FROM entity_extractions` + ofThread + ` AND ended = 0`,
		&q.documents:   documents + ` ORDER BY id`,
		// thread_id has a statement of its own, since a trigger refuses the threads that are erased.
		&q.document: `UPDATE knowledge_documents SET title = ?2, metadata = ?3, status = ?4, error = ?5, revision = ?6, indexed = ?7, digest = ?8,
			indexed_digest = ?9, format = ?10, bytes = ?11, chunks = ?12, changed_by = ?13, updated_at = ?14,
			indexed_thread_id = ?15, title_thread_id = ?16, metadata_thread_id = ?17 WHERE key = ?1`,
		&q.documentThread: `UPDATE knowledge_documents SET thread_id = ?2 WHERE key = ?1`,
		&q.erased:         selectErased,

		&q.subThreads: `SELECT id FROM threads WHERE namespace = ?1 AND parent_id = ?2 AND parent_id <> ''
			UNION SELECT id FROM erased_threads WHERE namespace = ?1 AND parent_id = ?2 AND parent_id <> '' ORDER BY id`,

		&q.threadIDs: `SELECT id FROM threads WHERE namespace = ? AND id > ? ORDER BY id LIMIT ? + 0`,

		&q.mentionPage: `SELECT ` + mentionColumns + ` FROM entity_mentions m WHERE m.namespace = ? AND m.thread_id = ?
			AND (m.source_type, m.source_id, m.entity) > (?, ?, ?) ORDER BY m.source_type, m.source_id, m.entity LIMIT ? + 0`,
		&q.toolPage: selectTool + ofThread + ` AND tool_call_id > ? ORDER BY tool_call_id LIMIT ? + 0`,

		&q.countRecords:     `SELECT count(*) FROM records` + ofThread,
		&q.countTools:       `SELECT count(*) FROM tool_logs` + ofThread,
		&q.countExtractions: `SELECT count(*) FROM entity_extractions` + ofThread + ` AND ended = 0`,
		&q.countMentions:    `SELECT count(*) FROM entity_mentions` + ofThread,
		&q.countSources:     `SELECT count(*) FROM (` + documents + `)`,

		&q.replaceRecord: `UPDATE records SET payload = ?4 WHERE namespace = ?1 AND thread_id = ?2 AND id = ?3`,
		&q.replaceTool: `UPDATE tool_logs SET input = coalesce(?4, input), output = coalesce(?5, output)
			WHERE namespace = ?1 AND thread_id = ?2 AND tool_call_id = ?3`,
		&q.endExtractions: endExtraction + ` WHERE namespace = ?1 AND thread_id = ?2 AND ended = 0 AND (
				source_id IN (SELECT value FROM json_each(?3)) OR content <> '' AND event_id IN (SELECT value FROM json_each(?3)))`,
		&q.names: `WITH page AS MATERIALIZED (SELECT id, name FROM entities WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT ?3 + 0)
			SELECT id, name FROM page UNION SELECT p.id, m.name FROM page p CROSS JOIN entity_mentions m ON m.namespace = ?1 AND m.entity = p.id
			ORDER BY id`,

		// The virtual table of pages looks up one page, and scans all for a range of them.
		&q.pages: `WITH RECURSIVE wanted (pgno) AS (VALUES (?1) UNION ALL SELECT pgno + 1 FROM wanted WHERE pgno < ?2)
			SELECT p.pgno, p.data FROM wanted w CROSS JOIN sqlite_dbpage p ON p.pgno = w.pgno`,
		&q.page: `UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1`,

		&q.mentions: `DELETE FROM entity_mentions WHERE key IN (SELECT key FROM entity_mentions WHERE namespace = ?1 AND thread_id = ?2
				AND (?3 IS NULL OR source_id IN (SELECT value FROM json_each(?3))) LIMIT ?4 + 0) RETURNING entity`,
		&q.descriptions: `UPDATE entities SET descriptions = '[]' WHERE namespace = ? AND id = ?`,
		&q.recount: `UPDATE entities SET (mentions, mentioned_at) = (SELECT count(*), max(at) FROM entity_mentions WHERE namespace = ?1 AND entity = ?2)
			WHERE namespace = ?1 AND id = ?2`,
		&q.standing: `SELECT e.mentions, coalesce(e.merged_into, ''), e.name,
				coalesce((SELECT h.id FROM entities h WHERE h.namespace = ?1 AND h.merged_into = ?2 ORDER BY h.created_at, h.id LIMIT 1), ''),
				coalesce((SELECT m.name FROM entity_mentions m WHERE m.namespace = ?1 AND m.entity = ?2
					ORDER BY m.name = e.name DESC, m.at DESC, m.source_type, m.source_id LIMIT 1), '')
			FROM entities e WHERE e.namespace = ?1 AND e.id = ?2`,
		&q.rename:        `UPDATE entities SET name = ?3, name_key = ?4, embedder = '', vector = NULL WHERE namespace = ?1 AND id = ?2`,
		&q.repoint:       `UPDATE entities SET merged_into = ?3 WHERE namespace = ?1 AND merged_into = ?2`,
		&q.promote:       `UPDATE entities SET root = ?2, merged_into = CASE id WHEN ?2 THEN NULL ELSE merged_into END WHERE namespace = ?1 AND root = ?3`,
		&q.root:          `SELECT root FROM entities WHERE namespace = ? AND id = ?`,
		&q.relationsFrom: `DELETE FROM entity_relations WHERE namespace = ? AND from_entity = ?`,
		&q.relationsTo:   `DELETE FROM entity_relations WHERE namespace = ? AND to_entity = ?`,
		&q.mergesFrom:    `DELETE FROM entity_merges WHERE namespace = ? AND from_entity = ?`,
		&q.mergesInto:    `DELETE FROM entity_merges WHERE namespace = ? AND into_entity = ?`,
		&q.vectors:       `DELETE FROM entity_vectors WHERE namespace = ? AND entity = ?`,
		&q.entity:        `DELETE FROM entities WHERE namespace = ? AND id = ?`,
		&q.recountRoot: `UPDATE entities SET total = (SELECT sum(mentions) FROM entities WHERE namespace = ?1 AND root = ?2)
			WHERE namespace = ?1 AND id = ?2`,
	}
}

// MarkErased implements [store.Erasures].
func (s *Store) MarkErased(ctx context.Context, key store.Key) error {
	err := s.writing(ctx, func(w writing) error { return s.mark(ctx, w, key) })
	return eraseError("marking as erased", key, err)
}

func (s *Store) mark(ctx context.Context, w writing, key store.Key) error {
	if _, err := w.exec(ctx, s.erasures.mark, key.Namespace, key.ThreadID, time.Now().UnixMicro()); err != nil {
		return err
	}
	for _, stmt := range []*sql.Stmt{s.erasures.marks, s.erasures.row} {
		if _, err := w.exec(ctx, stmt, key.Namespace, key.ThreadID); err != nil {
			return err
		}
	}
	return nil
}

// EraseThread implements [store.Erasures].
func (s *Store) EraseThread(ctx context.Context, key store.Key) error {
	err := s.MarkErased(ctx, key)
	for _, stmt := range []*sql.Stmt{s.erasures.records, s.erasures.toolLogs} {
		if err == nil {
			err = store.EraseInBatches(func() (deleted int64, err error) {
				err = s.writing(ctx, func(w writing) (err error) {
					deleted, err = w.exec(ctx, stmt, key.Namespace, key.ThreadID, store.EraseBatch)
					return err
				})
				return deleted, err
			})
		}
	}
	if err == nil {
		_, err = s.erasures.extractions.ExecContext(ctx, key.Namespace, key.ThreadID)
	}
	if err == nil {
		err = s.forgetMentions(ctx, key, nil)
	}
	if err == nil {
		err = s.eraseDocuments(ctx, key)
	}
	return eraseError("erasing", key, err)
}

func (s *Store) forgetMentions(ctx context.Context, key store.Key, sources []string) error {
	return store.EraseInBatches(func() (deleted int64, err error) {
		err = s.resolving(ctx, key.Namespace, func(r *resolving) (err error) {
			deleted, err = store.ForgetMentions(ctx, forgetting{r, &s.erasures}, key.ThreadID, sources)
			return err
		})
		return deleted, err
	})
}

// ReplaceRecords implements [store.Erasures].
func (s *Store) ReplaceRecords(ctx context.Context, key store.Key, records ...event.Record) error {
	records, err := store.NormalizeReplacedRecords(records)
	if err == nil {
		err = replace(ctx, s, s.erasures.replaceRecord, records, func(r event.Record) []any {
			return []any{key.Namespace, key.ThreadID, r.ID, string(r.Payload)}
		})
	}
	return eraseError("replacing records of", key, err)
}

// ReplaceToolLogs implements [store.Erasures].
func (s *Store) ReplaceToolLogs(ctx context.Context, key store.Key, logs ...store.ToolLog) error {
	err := replace(ctx, s, s.erasures.replaceTool, store.NormalizeReplacedToolLogs(logs), func(l store.ToolLog) []any {
		return []any{key.Namespace, key.ThreadID, l.ToolCallID, text(l.Input), text(l.Output)}
	})
	return eraseError("replacing tool logs of", key, err)
}

func replace[T any](ctx context.Context, s *Store, stmt *sql.Stmt, rows []T, args func(T) []any) error {
	for batch := range slices.Chunk(rows, store.EraseBatch) {
		err := s.writing(ctx, func(w writing) error {
			for _, row := range batch {
				if _, err := w.exec(ctx, stmt, args(row)...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetMessages implements [store.Erasures].
func (s *Store) ForgetMessages(ctx context.Context, key store.Key, ids ...string) error {
	for batch := range slices.Chunk(ids, store.EraseBatch) {
		_, err := s.erasures.endExtractions.ExecContext(ctx, key.Namespace, key.ThreadID, list(batch))
		if err == nil {
			err = s.forgetMentions(ctx, key, batch)
		}
		if err != nil {
			return eraseError("forgetting messages of", key, err)
		}
	}
	return nil
}

// ForgetEntities implements [store.Erasures].
func (s *Store) ForgetEntities(ctx context.Context, namespace string, match func(name string) bool) (int, error) {
	n, err := store.ForgetNamed(ctx, match, func(ctx context.Context, after string) ([]store.EntityVector, error) {
		return collect(ctx, s.erasures.names, scanName, namespace, after, store.MaxEntityPage)
	}, func(ctx context.Context, id string) error {
		return s.resolving(ctx, namespace, func(r *resolving) error {
			root, err := r.RootOf(ctx, id)
			if err != nil {
				return err
			}
			return r.deleteRoot(ctx, root)
		})
	})
	return n, entityError("forgetting entities", namespace, "*", err)
}

// eraseDocuments deletes what documents have of a thread, and their words from the full-text index: a deleted
// row of an index without content only hides them, until its parts are merged.
func (s *Store) eraseDocuments(ctx context.Context, key store.Key) error {
	ids, err := s.ThreadDocuments(ctx, key)
	if err != nil || len(ids) == 0 {
		return err
	}
	return s.learning(ctx, key.Namespace, func(l *learning) error {
		for _, id := range ids {
			if err := s.eraseDocument(ctx, l, id, key.ThreadID); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		text, err := l.text(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // no document of the namespace is left
		}
		if err == nil {
			_, err = l.ExecContext(ctx, text.optimize())
		}
		return err
	})
}

func (s *Store) eraseDocument(ctx context.Context, l *learning, id, threadID string) error {
	before, err := l.document(ctx, id)
	if err != nil {
		return notFound(err)
	}
	d, keep, ok := before.Without(threadID, time.Now())
	if ok && d.ThreadID != before.ThreadID {
		// The revision before may be that of a thread that is erased too.
		err := l.row(ctx, s.erasures.erased, l.namespace, d.ThreadID).Scan(new(int))
		if ok = errors.Is(err, sql.ErrNoRows); err != nil && !ok {
			return err
		}
	}
	if !ok {
		return l.remove(ctx, id)
	}
	if keep > 0 {
		if err := l.keepOnly(ctx, keep); err != nil {
			return err
		}
	}
	_, err = l.exec(ctx, s.erasures.document, l.key, d.Title, text(d.Metadata), string(d.Status), d.Error, d.Revision, d.Indexed, d.Digest, d.IndexedDigest,
		d.Format, d.Bytes, d.Chunks, d.By, d.UpdatedAt.UnixMicro(), d.IndexedThreadID, d.TitleThreadID, d.MetadataThreadID)
	if err == nil && d.ThreadID != before.ThreadID {
		_, err = l.exec(ctx, s.erasures.documentThread, l.key, d.ThreadID)
	}
	return err
}

// ThreadDocuments implements [store.Erasures].
func (s *Store) ThreadDocuments(ctx context.Context, key store.Key) ([]string, error) {
	ids, err := collect(ctx, s.erasures.documents, scanText, key.Namespace, key.ThreadID)
	return ids, eraseError("reading the documents of", key, err)
}

// SubThreads implements [store.Erasures].
func (s *Store) SubThreads(ctx context.Context, key store.Key) ([]string, error) {
	ids, err := collect(ctx, s.erasures.subThreads, scanText, key.Namespace, key.ThreadID)
	return ids, eraseError("reading the sub-agents of", key, err)
}

// ThreadIDs implements [store.Erasures].
func (s *Store) ThreadIDs(ctx context.Context, namespace, after string, limit int) ([]string, error) {
	ids, err := collect(ctx, s.erasures.threadIDs, scanText, namespace, after, min(limit, store.MaxLimit))
	if err != nil {
		return nil, fmt.Errorf("sqlite: listing the threads of namespace %q: %w", namespace, classify(err))
	}
	return ids, nil
}

// ThreadMentions implements [store.Erasures].
func (s *Store) ThreadMentions(ctx context.Context, key store.Key, after store.Mention, limit int) ([]store.Mention, error) {
	found, err := collect(ctx, s.erasures.mentionPage, scanMention, key.Namespace, key.ThreadID, after.SourceType, after.SourceID, after.EntityID, min(limit, store.MaxLimit))
	return found, eraseError("reading the mentions of", key, err)
}

// ToolLogPage implements [store.Erasures].
func (s *Store) ToolLogPage(ctx context.Context, key store.Key, after string, limit int) ([]store.ToolLog, error) {
	found, err := collect(ctx, s.erasures.toolPage, scanTool, key.Namespace, key.ThreadID, after, min(limit, store.MaxLimit))
	return found, eraseError("reading tool logs of", key, err)
}

// ThreadContents implements [store.Erasures].
func (s *Store) ThreadContents(ctx context.Context, key store.Key) (store.ThreadContents, error) {
	var c store.ThreadContents
	for stmt, n := range map[*sql.Stmt]*int{
		s.erasures.countRecords: &c.Records, s.erasures.countTools: &c.ToolLogs, s.erasures.countExtractions: &c.Extractions,
		s.erasures.countMentions: &c.Mentions, s.erasures.countSources: &c.Documents,
	} {
		if err := stmt.QueryRowContext(ctx, key.Namespace, key.ThreadID).Scan(n); err != nil {
			return store.ThreadContents{}, eraseError("counting", key, err)
		}
	}
	return c, nil
}

func eraseError(doing string, key store.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s %s: %w", doing, key, classify(err))
}

// forgetting implements [store.Forgetting].
type forgetting struct {
	*resolving
	q *eraseQueries
}

func (f forgetting) each(ctx context.Context, id string, steps ...*sql.Stmt) error {
	for _, step := range steps {
		if _, err := f.exec(ctx, step, f.namespace, id); err != nil {
			return err
		}
	}
	return nil
}

// DropMentions implements [store.Forgetting].
func (f forgetting) DropMentions(ctx context.Context, threadID string, sources []string) ([]string, error) {
	return collect(ctx, f.StmtContext(ctx, f.q.mentions), scanText, f.namespace, threadID, listOrNull(sources), store.EraseBatch)
}

// DropDerived implements [store.Forgetting].
func (f forgetting) DropDerived(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := f.each(ctx, id, f.q.descriptions, f.q.relationsFrom, f.q.relationsTo, f.q.recount); err != nil {
			return err
		}
	}
	return nil
}

// Standing implements [store.Forgetting].
func (f forgetting) Standing(ctx context.Context, id string) (e store.EntityStanding, err error) {
	err = f.row(ctx, f.q.standing, f.namespace, id).Scan(&e.Mentions, &e.Parent, &e.Name, &e.Heir, &e.Uses)
	return e, err
}

// Rename implements [store.Forgetting].
func (f forgetting) Rename(ctx context.Context, id, name string) error {
	if _, err := f.exec(ctx, f.q.rename, f.namespace, id, name, store.EntityKeys(name)[0]); err != nil {
		return err
	}
	return f.each(ctx, id, f.q.vectors)
}

// Repoint implements [store.Forgetting].
func (f forgetting) Repoint(ctx context.Context, id, parent string) error {
	_, err := f.exec(ctx, f.q.repoint, f.namespace, id, parent)
	return err
}

// Promote implements [store.Forgetting].
func (f forgetting) Promote(ctx context.Context, id, root string) error {
	_, err := f.exec(ctx, f.q.promote, f.namespace, id, root)
	return err
}

// Remove implements [store.Forgetting].
func (f forgetting) Remove(ctx context.Context, id string) error {
	return f.each(ctx, id, f.q.relationsFrom, f.q.relationsTo, f.q.mergesFrom, f.q.mergesInto, f.q.vectors, f.q.entity)
}

// Recount implements [store.Forgetting].
func (f forgetting) Recount(ctx context.Context, id string) error {
	var root string
	if err := f.row(ctx, f.q.root, f.namespace, id).Scan(&root); err != nil {
		return err
	}
	return f.each(ctx, root, f.q.recountRoot)
}

// OldToolLogs implements [store.Erasures].
func (s *Store) OldToolLogs(ctx context.Context, namespace string, before time.Time) (n int, err error) {
	if err := s.erasures.oldTools.QueryRowContext(ctx, namespace, before.UnixMicro()).Scan(&n); err != nil {
		return 0, fmt.Errorf("sqlite: counting old tool logs: %w", classify(err))
	}
	return n, nil
}

// PruneToolLogs implements [store.Erasures].
func (s *Store) PruneToolLogs(ctx context.Context, namespace string, before time.Time) (int, error) {
	n := int64(0)
	err := s.writing(ctx, func(w writing) (err error) {
		n, err = w.exec(ctx, s.erasures.pruneTools, namespace, before.UnixMicro(), store.EraseBatch)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sqlite: deleting old tool logs: %w", classify(err))
	}
	return int(n), nil
}
