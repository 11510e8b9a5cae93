package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/threadmill/threadmill/store"
)

// eraseQueries are the statements that erase what documents have of a thread, and those of Scrub.
type eraseQueries struct {
	document, documentThread, erased *sql.Stmt
	pages, page                      *sql.Stmt
}

func (q *eraseQueries) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		// thread_id has a statement of its own, since a trigger refuses the threads that are erased.
		&q.document: `UPDATE knowledge_documents SET title = ?2, metadata = ?3, status = ?4, error = ?5, revision = ?6, indexed = ?7, digest = ?8,
			indexed_digest = ?9, format = ?10, bytes = ?11, chunks = ?12, changed_by = ?13, updated_at = ?14,
			indexed_thread_id = ?15, title_thread_id = ?16, metadata_thread_id = ?17 WHERE key = ?1`,
		&q.documentThread: `UPDATE knowledge_documents SET thread_id = ?2 WHERE key = ?1`,
		&q.erased:         `SELECT 1 FROM erased_threads WHERE namespace = ? AND id = ?`,

		// The virtual table of pages looks up one page, and scans all for a range of them.
		&q.pages: `WITH RECURSIVE wanted (pgno) AS (VALUES (?1) UNION ALL SELECT pgno + 1 FROM wanted WHERE pgno < ?2)
			SELECT p.pgno, p.data FROM wanted w CROSS JOIN sqlite_dbpage p ON p.pgno = w.pgno`,
		&q.page: `UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1`,
	}
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
