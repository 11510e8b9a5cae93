package knowledge

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestDocumentsOfProgram adds, awaits and finds documents as a Go program does.
func TestDocumentsOfProgram(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	docs := w.Runtime.Documents()
	t.Run("S2-55 a document is added, awaited and found", func(t *testing.T) {
		added, err := docs.Add(w.Ctx(), threadmill.NewDocument{
			Source: "handbook.md", Content: []byte(documents.Handbook), Collection: "guides", Metadata: json.RawMessage(`{"title":"The handbook"}`), By: "ann",
		})
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeProcessing, added.Status)
		doc, err := docs.Await(w.Ctx(), added.ID)
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeIndexed, doc.Status)
		require.Equal(t, "The handbook", doc.Title)
		require.Equal(t, "Markdown", doc.Format)
		require.Equal(t, "ann", doc.By)

		found, err := docs.Search(w.Ctx(), "vacation", threadmill.DocumentSearch{Limit: 1})
		require.NoError(t, err)
		require.Len(t, found.Passages, 1)
		require.Equal(t, "handbook.md", found.Passages[0].Source)
		require.Contains(t, found.Passages[0].Text, "thirty days")
		found, err = docs.Search(w.Ctx(), "vacation", threadmill.DocumentSearch{Collections: []string{"other"}})
		require.NoError(t, err)
		require.Empty(t, found.Passages)
	})
	t.Run("S2-58 what has not changed is not indexed again, unless it is asked for", func(t *testing.T) {
		same := threadmill.NewDocument{Source: "handbook.md", Content: []byte(documents.Handbook), Collection: "guides"}
		doc, err := docs.Add(w.Ctx(), same)
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeIndexed, doc.Status)
		require.Equal(t, 1, doc.Revision)
		same.ForceReindex = true
		doc, err = docs.Add(w.Ctx(), same)
		require.NoError(t, err)
		doc, err = docs.Await(w.Ctx(), doc.ID)
		require.NoError(t, err)
		require.Equal(t, 2, doc.Indexed)
		_, err = docs.Reindex(w.Ctx(), doc.ID, "bob")
		require.NoError(t, err)
		doc, err = docs.Await(w.Ctx(), doc.ID)
		require.NoError(t, err)
		require.Equal(t, 3, doc.Indexed)
		require.Equal(t, "bob", doc.By)
	})
	t.Run("S2-59 waiting says why a document failed", func(t *testing.T) {
		added, err := docs.Add(w.Ctx(), threadmill.NewDocument{Source: "empty.md", Content: []byte{}})
		require.NoError(t, err)
		doc, err := docs.Await(w.Ctx(), added.ID)
		var failed *threadmill.DocumentError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, threadmill.DocumentError{ID: added.ID, Source: "empty.md", Reason: doc.Error}, *failed)
		require.ErrorContains(t, err, `the document "empty.md" failed`)
		require.ErrorContains(t, err, "no text")
		require.Equal(t, store.KnowledgeFailed, doc.Status)
	})
	t.Run("S2-61 a thread is told", func(t *testing.T) {
		id := w.Open()
		_, err := docs.Add(w.Ctx(), threadmill.NewDocument{Source: "told.md", Content: []byte("text"), ThreadID: id})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			for _, m := range w.Messages(id) {
				if m.SenderID == signals.RAGSender {
					return true
				}
			}
			return false
		}, testenv.Patience, testenv.Tick)
	})
	t.Run("S2-62 other namespaces have their own", func(t *testing.T) {
		other := docs.In(w.TaskQueue + "-other")
		found, err := other.Search(w.Ctx(), "vacation", threadmill.DocumentSearch{})
		require.NoError(t, err)
		require.Empty(t, found.Passages)
		added, err := other.Add(w.Ctx(), threadmill.NewDocument{Source: "own.md", Content: []byte("our own vacation")})
		require.NoError(t, err)
		_, err = docs.Await(w.Ctx(), added.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = other.Await(w.Ctx(), added.ID)
		require.NoError(t, err)
		found, err = other.Search(w.Ctx(), "vacation", threadmill.DocumentSearch{})
		require.NoError(t, err)
		require.Len(t, found.Passages, 1)
		_, err = docs.In("a/b").Add(w.Ctx(), threadmill.NewDocument{Source: "own.md", Content: []byte("text")})
		require.ErrorContains(t, err, "namespace")
	})
	t.Run("wrong fields", func(t *testing.T) {
		text := []byte("text")
		for field, d := range map[string]threadmill.NewDocument{
			"source":     {Content: text},
			"collection": {Source: "a", Content: text, Collection: "a b"},
			"metadata":   {Source: "a", Content: text, Metadata: json.RawMessage(`[1]`)},
			"threadId":   {Source: "a", Content: text, ThreadID: "a/b"},
		} {
			_, err := docs.Add(w.Ctx(), d)
			var wrong *event.FieldError
			require.ErrorAs(t, err, &wrong, field)
			require.Equal(t, field, wrong.Field)
		}
		_, err := docs.Add(w.Ctx(), threadmill.NewDocument{Source: "no-address.md"})
		require.ErrorContains(t, err, "give the content")
		_, err = docs.Add(w.Ctx(), threadmill.NewDocument{Source: "a", Content: text, Title: strings.Repeat("x", 1000)})
		require.ErrorIs(t, err, store.ErrInvalid)
		_, err = docs.Search(w.Ctx(), "a\x00", threadmill.DocumentSearch{})
		require.ErrorContains(t, err, "NUL")
		for _, err := range []error{
			func() error { _, err := docs.Await(w.Ctx(), "none"); return err }(),
			func() error { _, err := docs.Reindex(w.Ctx(), "none", ""); return err }(),
		} {
			require.ErrorIs(t, err, store.ErrNotFound)
		}
	})
	t.Run("waiting ends with its context", func(t *testing.T) {
		unserved := w.Beside(func(cfg *threadmill.Config) { cfg.TaskQueue = w.TaskQueue + "-unserved" }).Documents()
		added, err := unserved.Add(w.Ctx(), threadmill.NewDocument{Source: "waits.md", Content: []byte("text")})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(w.Ctx())
		cancel()
		_, err = unserved.Await(ctx, added.ID)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// TestDocumentsOfAnotherStore: a store that was replaced, or restored from a backup, gets the documents again whose ingestions
// Temporal remembers.
func TestDocumentsOfAnotherStore(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	d := threadmill.NewDocument{Source: "handbook.md", Content: []byte(documents.Handbook)}
	added, err := w.Runtime.Documents().Add(w.Ctx(), d)
	require.NoError(t, err)
	_, err = w.Runtime.Documents().Await(w.Ctx(), added.ID)
	require.NoError(t, err)

	other, err := sqlite.Open(w.Ctx(), sqlite.Config{Path: filepath.Join(t.TempDir(), "other.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	runtime := w.Beside(func(cfg *threadmill.Config) { cfg.Store, cfg.TaskQueue = other, w.TaskQueue+"-other" })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	again, err := runtime.Documents().Add(w.Ctx(), d)
	require.NoError(t, err)
	require.Equal(t, added.ID, again.ID)
	require.Equal(t, added.Revision, again.Revision)
	doc, err := runtime.Documents().Await(w.Ctx(), again.ID)
	require.NoError(t, err)
	require.Equal(t, 1, doc.Indexed)
}
