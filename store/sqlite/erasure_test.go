package sqlite_test

import (
	"bytes"
	"database/sql"
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
	words := func(word string) int { return words(t, dir, word) }
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

// words returns how often the files of a store have a word.
func words(t *testing.T, dir, word string) int {
	t.Helper()
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

// TestReplacedFile: what was replaced or forgotten in a thread that stays is in no file, whether the new text is shorter, as long or
// longer, and whether a text fills a part of a page or several pages.
func TestReplacedFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "store.db"))
	const word, other, threads, each = "zqxorbitu", "zqxholdu", 4, 120
	texts := []string{"", word, "[erased]", "a mark that is longer than the text that it replaces"}
	keyOf := func(i int) store.Key { return store.Key{Namespace: "n", ThreadID: fmt.Sprint("t", i)} }
	record := func(i int, text string) event.Record {
		return event.NewRecord(fmt.Sprint("r", i), event.TypeMessage, "", "", time.Unix(0, 0), map[string]string{"content": strings.Repeat(text+" and more, ", 1+i*i%400)})
	}
	log := func(i int, text string) store.ToolLog {
		r := record(i, text)
		return store.ToolLog{ToolCallID: fmt.Sprint("c", i), ToolName: "t", Input: r.Payload, Output: r.Payload, Status: store.ToolSucceeded}
	}
	for i := range threads * each {
		one, key := log(i, word), keyOf(i%threads)
		_, err := s.Append(t.Context(), key, store.Batch{
			Records: []event.Record{record(i, word)}, ToolFinish: &one,
			Extract: []store.Extraction{{ID: fmt.Sprint("q", i), SourceType: "message", SourceID: fmt.Sprint("r", i), Content: word}},
		})
		require.NoError(t, err)
		x, id := store.Extraction{ID: fmt.Sprint("x", i), ThreadID: key.ThreadID, SourceType: "message", SourceID: fmt.Sprint("r", i)}, fmt.Sprint("e", i)
		require.NoError(t, s.QueueExtraction(t.Context(), "n", x))
		mention := store.Mention{EntityID: id, Name: word, ThreadID: key.ThreadID, SourceType: "message", SourceID: x.SourceID, Text: strings.Repeat(word, i%50)}
		kept := store.Mention{EntityID: id, Name: "Kept", ThreadID: key.ThreadID, SourceType: "message", SourceID: "kept"}
		_, err = s.EndExtraction(t.Context(), "n", x.ID, store.EntitiesFound{
			New:       []store.NewEntity{{ID: id, Name: word + id, Type: "person", Description: word}, {ID: "of-" + id, Name: other + id, Type: "person"}},
			Mentions:  []store.Mention{mention, kept},
			Relations: []store.Relation{{From: id, To: "of-" + id, Type: "knows", Reason: word}},
		})
		require.NoError(t, err)
	}
	require.NoError(t, s.Scrub(t.Context()))
	require.Greater(t, words(t, dir, word), 3*threads*each)
	for n := range threads {
		var records []event.Record
		var logs []store.ToolLog
		var ids []string
		for i := n; i < threads*each; i += threads {
			text := texts[i%len(texts)]
			if text == word {
				text = strings.ToUpper(word)
			}
			records, logs, ids = append(records, record(i, text)), append(logs, log(i, text)), append(ids, fmt.Sprint("r", i))
		}
		require.NoError(t, s.ReplaceRecords(t.Context(), keyOf(n), records...))
		require.NoError(t, s.ReplaceToolLogs(t.Context(), keyOf(n), logs...))
		require.NoError(t, s.ForgetMessages(t.Context(), keyOf(n), ids...))
	}
	require.NoError(t, s.Scrub(t.Context()))
	require.Zero(t, words(t, dir, word))
	forgotten, err := s.ForgetEntities(t.Context(), "n", func(name string) bool { return strings.HasPrefix(name, other) })
	require.NoError(t, err)
	require.Equal(t, threads*each, forgotten)
	require.NoError(t, s.Scrub(t.Context()))
	require.Zero(t, words(t, dir, other))
	left, err := s.EntitiesNamed(t.Context(), "n", []string{"Kept"})
	require.NoError(t, err)
	require.Len(t, left, store.MaxEntityPage)
	pages, sound := inspect(t, filepath.Join(dir, "store.db"))
	require.Greater(t, pages, 1000, "Scrub reads several times")
	require.Equal(t, "ok", sound)
}

// inspect returns the number of pages of a database, and what SQLite says of its integrity.
func inspect(t *testing.T, path string) (pages int, sound string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&sound))
	return pages, sound
}
