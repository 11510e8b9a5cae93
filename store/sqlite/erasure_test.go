package sqlite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// TestErasedFile: the words of an erased thread are in no file, whether they were in records that fill several pages, in the
// write-ahead log, or in the full-text index, which stores words apart from the texts.
func TestErasedFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "store.db"))
	words := func(word string) int {
		files, err := filepath.Glob(filepath.Join(dir, "store.db*"))
		require.NoError(t, err)
		n := 0
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			n += bytes.Count(content, []byte(word))
		}
		return n
	}
	for thread, word := range map[string]string{"t1": "zqxorbitu", "t2": "zqxholdu"} {
		key := store.Key{Namespace: "n", ThreadID: thread}
		long := strings.Repeat(word+" and more, ", 2000)
		now := time.Now()
		log := &store.ToolLog{ToolCallID: "c", ToolName: "t", Input: json.RawMessage(`"` + word + `"`), Output: json.RawMessage(`"` + long + `"`), Status: store.ToolSucceeded, StartedAt: now, FinishedAt: &now}
		_, err := s.Append(t.Context(), key, store.Batch{
			Records:    []event.Record{event.NewRecord("r", event.TypeMessage, "", "", now, map[string]string{"content": long})},
			Thread:     &store.ThreadUpdate{Title: &word},
			ToolFinish: log,
			Extract:    []store.Extraction{{ID: "x" + thread, SourceType: "message", SourceID: "r", Content: long}},
		})
		require.NoError(t, err)
		d, err := s.BeginKnowledge(t.Context(), "n", store.KnowledgeDocument{Source: thread, ThreadID: thread},
			store.KnowledgeBegin{Digest: word, Content: &store.KnowledgeContent{Bytes: []byte(long)}})
		require.NoError(t, err)
		require.NoError(t, s.AddChunks(t.Context(), "n", d.Newest(), []store.KnowledgeChunk{{Text: "about " + word}}))
		_, err = s.FinishKnowledge(t.Context(), "n", d.Newest(), store.KnowledgeFinish{})
		require.NoError(t, err)
	}
	// The index merges what it has of several documents.
	for i := range 40 {
		learn(t, s, "n", fmt.Sprint("s", i), "apple", "pear")
	}
	require.NoError(t, s.Scrub(t.Context()))
	require.Greater(t, words("zqxorbitu"), 7000)
	require.NoError(t, s.EraseThread(t.Context(), store.Key{Namespace: "n", ThreadID: "t1"}))
	require.NoError(t, s.Scrub(t.Context()))
	require.Zero(t, words("zqxorbitu"))
	require.Greater(t, words("zqxholdu"), 7000)
	hits, err := s.SearchText(t.Context(), "n", "zqxholdu", store.KnowledgeScope{})
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.Zero(t, words("orbitu"), "FTS5 stores the rest of a word that begins like another one")
}
