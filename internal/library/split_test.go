package library_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// deleting deletes each document once its content was read, and counts those that are stored nevertheless.
type deleting struct {
	*sqlite.Store
	read atomic.Int64
}

func (s *deleting) KnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeContent, error) {
	content, err := s.Store.KnowledgeContent(ctx, namespace, r)
	if err == nil {
		err = s.DeleteKnowledge(ctx, namespace, r.Document)
	}
	return content, err
}

func (s *deleting) AddChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) error {
	s.read.Add(1)
	return s.Store.AddChunks(ctx, namespace, r, chunks)
}

// TestSplitDeleted: documents that were deleted while they wait for their turn, or are read, are not read to their end. They are
// so large that one is read at a time.
func TestSplitDeleted(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &deleting{Store: db}
	l := library.New(library.Config{Store: s, Start: func(context.Context, string, store.KnowledgeDocument, bool) error { return nil }})
	large := []byte(strings.Repeat("some words\n\n", 300_000))
	const documents = 8
	var all sync.WaitGroup
	for i := range documents {
		d, err := l.Add(t.Context(), namespace, library.Addition{Source: fmt.Sprintf("%d.txt", i), Content: &store.KnowledgeContent{Name: "a.txt", Bytes: large}})
		require.NoError(t, err)
		all.Go(func() {
			if _, err := l.Split(t.Context(), namespace, d.Newest()); err != nil && !errors.Is(err, store.ErrSuperseded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Less(t, s.read.Load(), int64(documents))
}
