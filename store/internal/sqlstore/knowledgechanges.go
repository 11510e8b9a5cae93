package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/threadmill/threadmill/store"
)

// eraseDocuments erases what documents have of a thread. The index is compacted in the transaction of the last one, so that an erasure
// that was stopped before still finds a document, and repeats it.
func (s *Store) eraseDocuments(ctx context.Context, key store.Key) error {
	ids, err := s.ThreadDocuments(ctx, key)
	if err != nil {
		return err
	}
	for i, id := range ids {
		err := s.learning(ctx, key.Namespace, id, func(l learning) error {
			err := l.erase(ctx, key.ThreadID)
			if err != nil && !errors.Is(err, store.ErrNotFound) || i < len(ids)-1 {
				return err
			}
			return s.db.Knowledge.Compact(ctx, l.Querier, key.Namespace)
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// learning is a transaction that changes a document.
type learning struct {
	Querier
	s             *Store
	namespace, id string
}

func (s *Store) learning(ctx context.Context, namespace, id string, do func(learning) error) error {
	return s.db.Transaction(ctx, "", func(tx Querier) error { return do(learning{tx, s, namespace, id}) })
}

func (l learning) run(ctx context.Context, q *Query, args ...any) error {
	_, err := l.Exec(ctx, q, append([]any{l.namespace, l.id}, args...)...)
	return err
}

func (l learning) document(ctx context.Context, q *Query) (store.KnowledgeDocument, error) {
	return one(ctx, l.s, l, q, (*Store).scanKnowledge, l.namespace, l.id)
}

// newest reads the document of a revision that must be its newest, or returns [store.ErrSuperseded].
func (l learning) newest(ctx context.Context, q *Query, r store.KnowledgeRevision) (store.KnowledgeDocument, error) {
	d, err := l.document(ctx, q)
	if errors.Is(err, store.ErrNotFound) || err == nil && d.Revision != r.Number {
		err = store.ErrSuperseded
	}
	return d, err
}

func (l learning) begin(ctx context.Context, d store.KnowledgeDocument, begin store.KnowledgeBegin) (store.KnowledgeDocument, error) {
	if err := l.run(ctx, reserveKnowledge); err != nil {
		return d, err
	}
	before, err := l.document(ctx, lockReserved)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return d, err
	}
	if before.Status == "" {
		before = store.KnowledgeDocument{Revision: before.Revision} // new, or deleted
	}
	d, begins := nextKnowledge(d, begin, before, time.Now())
	if !begins {
		return d, nil
	}
	if err := l.save(ctx, d); err != nil {
		return d, err
	}
	if err := l.keepOnly(ctx, d.Indexed); err != nil {
		return d, err
	}
	if begin.Content != nil {
		_, err = l.addContent(ctx, d.Revision, *begin.Content)
		return d, err
	}
	return d, nil
}

func (l learning) save(ctx context.Context, d store.KnowledgeDocument) error {
	if err := l.run(ctx, saveKnowledge[0]); err != nil {
		return err
	}
	return l.run(ctx, saveKnowledge[1], d.Collection, d.Source, d.Title, TextOrNull(d.Metadata), string(d.Status), d.Error, d.Revision, d.Indexed, d.Digest,
		d.IndexedDigest, d.Format, d.Bytes, d.Chunks, d.ThreadID, d.By, d.CreatedAt, d.UpdatedAt, d.IndexedThreadID, d.TitleThreadID, d.MetadataThreadID)
}

// addContent stores the content of a revision, and reports whether it had none.
func (l learning) addContent(ctx context.Context, revision int, c store.KnowledgeContent) (bool, error) {
	if c.Bytes == nil {
		c.Bytes = []byte{}
	}
	added, err := l.Exec(ctx, addContent, l.namespace, l.id, revision, c.Name, c.MediaType, c.Bytes)
	return added > 0, err
}

// keepOnly deletes the contents and the chunks of all revisions but one.
func (l learning) keepOnly(ctx context.Context, revision int) error {
	if err := l.run(ctx, dropContents, revision); err != nil {
		return err
	}
	return l.keepChunks(ctx, revision)
}

// keepChunks deletes the chunks of all revisions but one, with what finds them.
func (l learning) keepChunks(ctx context.Context, revision int) error {
	return l.s.db.Knowledge.DropChunks(ctx, l.Querier, l.namespace, l.id, revision, func() (int64, error) {
		return l.Exec(ctx, dropChunks, l.namespace, l.id, revision)
	})
}

func (l learning) finish(ctx context.Context, r store.KnowledgeRevision, finish store.KnowledgeFinish) (store.KnowledgeDocument, error) {
	d, err := l.newest(ctx, lockKnowledge, r)
	if err != nil || d.Status != store.KnowledgeProcessing {
		return d, err
	}
	if finish.Error != "" {
		d = knowledgeFinished(d, finish, 0, time.Now())
		if err := l.save(ctx, d); err != nil {
			return d, err
		}
		return d, l.keepChunks(ctx, d.Indexed)
	}
	if finish.Unchanged {
		d = knowledgeFinished(d, finish, 0, time.Now())
		if err := l.save(ctx, d); err != nil {
			return d, err
		}
		return d, l.keepOnly(ctx, d.Indexed)
	}
	chunks, err := l.s.db.Knowledge.Show(ctx, l.Querier, l.namespace, d)
	if err != nil {
		return d, err
	}
	finished := knowledgeFinished(d, finish, chunks, time.Now())
	return finished, l.s.db.Knowledge.Count(ctx, l.Querier, l.namespace, d.ID, d.Revision, func() error {
		if err := l.keepOnly(ctx, d.Revision); err != nil {
			return err
		}
		return l.save(ctx, finished)
	})
}

// remove deletes the document.
func (l learning) remove(ctx context.Context) error {
	return l.s.db.Knowledge.Count(ctx, l.Querier, l.namespace, l.id, noRevision, func() error {
		if err := l.keepOnly(ctx, noRevision); err != nil {
			return err
		}
		for _, q := range deleteKnowledge {
			if err := l.run(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
}

// erase erases what the document has of a thread.
func (l learning) erase(ctx context.Context, threadID string) error {
	before, err := l.document(ctx, lockKnowledge)
	if err != nil {
		return err
	}
	d, keep, ok := knowledgeWithout(before, threadID, time.Now())
	if ok && d.ThreadID != before.ThreadID {
		// The revision before may be that of a thread that is erased too.
		erased, err := exists(ctx, l.s, l, erasedThread, l.namespace, d.ThreadID)
		if err != nil {
			return err
		}
		ok = !erased
	}
	if !ok {
		return l.remove(ctx)
	}
	change := func() error {
		if keep > 0 {
			if err := l.keepOnly(ctx, keep); err != nil {
				return err
			}
		}
		err := l.run(ctx, eraseFromKnowledge, d.Title, TextOrNull(d.Metadata), string(d.Status), d.Error, d.Revision, d.Indexed, d.Digest, d.IndexedDigest,
			d.Format, d.Bytes, d.Chunks, d.By, d.UpdatedAt, d.IndexedThreadID, d.TitleThreadID, d.MetadataThreadID)
		if err == nil && d.ThreadID != before.ThreadID {
			err = l.run(ctx, setKnowledgeThread, d.ThreadID)
		}
		return err
	}
	if d.Indexed == 0 && before.Indexed > 0 {
		return l.s.db.Knowledge.Count(ctx, l.Querier, l.namespace, l.id, noRevision, change)
	}
	return change()
}
