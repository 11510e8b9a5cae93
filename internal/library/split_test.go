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

	"github.com/threadmill/threadmill/document"
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

// reader reads each document as its title and its words, which it counts as tokens.
type reader struct{}

func (reader) Read(_ context.Context, f document.File) (document.Text, error) {
	if string(f.Content) == "blank" {
		return document.Text{}, &document.UnreadableError{Reason: "nothing is on the page"}
	}
	return document.Text{Title: f.Name, Blocks: []document.Block{{Text: string(f.Content), Page: 7}}}, nil
}

func (reader) Tokens(text string) int { return len(strings.Fields(text)) }

// TestReaders: a library reads by its reader, which also counts; without one, a document fails and says why.
func TestReaders(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	split := func(r document.Reader, source, text string) ([]store.KnowledgeChunk, error) {
		l := library.New(library.Config{Store: db, Reader: r, ChunkTokens: 16, OverlapTokens: -1, Start: func(context.Context, string, store.KnowledgeDocument, bool) error { return nil }})
		d, err := l.Add(t.Context(), namespace, library.Addition{Source: source, Content: &store.KnowledgeContent{Name: "scan.tiff", Bytes: []byte(text)}})
		require.NoError(t, err)
		if _, err := l.Split(t.Context(), namespace, d.Newest()); err != nil {
			return nil, err
		}
		chunks, err := db.Chunks(t.Context(), namespace, d.Newest(), 0, 0)
		require.NoError(t, err)
		return chunks, nil
	}
	chunks, err := split(reader{}, "own", strings.Repeat("word ", 40))
	require.NoError(t, err)
	require.Len(t, chunks, 3)
	require.Equal(t, []int{16, 7}, []int{chunks[0].Tokens, chunks[0].Page})

	_, err = split(reader{}, "blank", "blank")
	require.ErrorAs(t, err, new(*library.Error))
	require.ErrorContains(t, err, "nothing is on the page")

	_, err = split(nil, "none", "some words")
	require.ErrorAs(t, err, new(*library.Error))
	require.ErrorContains(t, err, "Config.Knowledge.Reader")
}
