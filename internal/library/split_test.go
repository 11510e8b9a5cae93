package library_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// deleting deletes each document once its content was read, and tells whether one is stored nevertheless.
type deleting struct {
	*sqlite.Store
	stored atomic.Bool
}

func (s *deleting) KnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeContent, error) {
	content, err := s.Store.KnowledgeContent(ctx, namespace, r)
	if err == nil {
		err = s.DeleteKnowledge(ctx, namespace, r.Document)
	}
	return content, err
}

func (s *deleting) AddChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) error {
	s.stored.Store(true)
	return s.Store.AddChunks(ctx, namespace, r, chunks)
}

// TestSplitDeleted: documents that were deleted while they are read, or wait for their turn, are not read to their end. They are
// so large that one is read at a time.
func TestSplitDeleted(t *testing.T) { //nolint:paralleltest // its documents wait for each other, and must not wait for those of a test with a clock of its own
	library.LookAgainEvery(t, time.Millisecond) // a process does not even start as fast
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &deleting{Store: db}
	l := library.New(library.Config{Store: s, Reader: formats.Reader(), Start: func(context.Context, string, store.KnowledgeDocument, bool) error { return nil }})
	large := []byte(strings.Repeat("some words\n\n", 300_000))
	var all sync.WaitGroup
	for i := range 3 {
		d, err := l.Add(t.Context(), namespace, library.Addition{Source: fmt.Sprintf("%d.txt", i), Content: &store.KnowledgeContent{Name: "a.txt", Bytes: large}})
		require.NoError(t, err)
		all.Go(func() {
			if _, err := l.Split(t.Context(), namespace, d.Newest()); !errors.Is(err, store.ErrSuperseded) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	all.Wait()
	require.False(t, s.stored.Load())
}
