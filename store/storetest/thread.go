package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

func testThreadRow(t *testing.T, s whole) {
	before := time.Now().Add(-time.Minute)
	add(t, s, key, store.Batch{Records: records("a")})
	row := thread(t, s, key)
	require.Equal(t, key.Namespace, row.Namespace)
	require.Equal(t, key.ThreadID, row.ID)
	require.Equal(t, store.ThreadOpen, row.Status)
	require.Empty(t, row.Title)
	require.Equal(t, []string{}, row.Agents, "no agents are an empty list, in JSON too")
	require.Nil(t, row.Metadata)
	require.EqualValues(t, 1, row.Head)
	require.Equal(t, time.UTC, row.CreatedAt.Location())
	require.WithinRange(t, row.CreatedAt, before, time.Now().Add(time.Minute))
	require.Equal(t, row.CreatedAt, row.UpdatedAt)

	add(t, s, key, store.Batch{Records: records("b")})
	later := thread(t, s, key)
	require.Equal(t, row.CreatedAt, later.CreatedAt)
	require.True(t, later.UpdatedAt.After(row.UpdatedAt), "a record makes the thread active")
}

func testThreadUpdate(t *testing.T, s whole) {
	title := "A title 🧵"
	full := store.ThreadUpdate{
		Title: &title, Status: store.ThreadClosed, Agents: []string{"writer", "critic"},
		Metadata: json.RawMessage(`{"owner": "somebody", "n": 1.0}`),
	}
	add(t, s, key, store.Batch{Thread: &full})
	row := thread(t, s, key)
	require.Equal(t, title, row.Title)
	require.Equal(t, store.ThreadClosed, row.Status)
	require.Equal(t, full.Agents, row.Agents)
	require.Equal(t, string(full.Metadata), string(row.Metadata))

	add(t, s, key, store.Batch{Thread: &store.ThreadUpdate{}})
	require.Equal(t, row, thread(t, s, key), "an empty update changes nothing")
	add(t, s, key, store.Batch{Thread: &full})
	require.Equal(t, row, thread(t, s, key), "an update to what is there changes nothing")

	none := ""
	for name, test := range map[string]struct {
		update store.ThreadUpdate
		change func(*store.Thread)
	}{
		"title":    {store.ThreadUpdate{Title: &none}, func(r *store.Thread) { r.Title = "" }},
		"status":   {store.ThreadUpdate{Status: store.ThreadOpen}, func(r *store.Thread) { r.Status, r.Activity = store.ThreadOpen, store.ActivityIdle }},
		"agents":   {store.ThreadUpdate{Agents: []string{"critic"}}, func(r *store.Thread) { r.Agents = []string{"critic"} }},
		"metadata": {store.ThreadUpdate{Metadata: json.RawMessage(`[]`)}, func(r *store.Thread) { r.Metadata = json.RawMessage(`[]`) }},
	} {
		t.Run(name, func(t *testing.T) {
			want := thread(t, s, key)
			a := add(t, s, key, store.Batch{Thread: &test.update})
			require.Zero(t, a.Head)
			got := thread(t, s, key)
			require.True(t, got.UpdatedAt.After(want.UpdatedAt))
			test.change(&want)
			want.UpdatedAt = got.UpdatedAt
			require.Equal(t, want, got, "the other fields stay")
		})
	}
}

// testThreadUpdateOrder stores numbered updates late and repeatedly.
func testThreadUpdateOrder(t *testing.T, s whole) {
	type update struct {
		number int64
		title  string
	}
	for name, test := range map[string]struct {
		updates []update
		want    string
	}{
		"in order":                     {[]update{{1, "a"}, {2, "b"}, {10, "c"}}, "c"},
		"an older one comes late":      {[]update{{1, "a"}, {2, "b"}, {1, "a"}}, "b"},
		"the oldest comes last":        {[]update{{3, "c"}, {2, "b"}, {1, "a"}}, "c"},
		"the same again":               {[]update{{1, "a"}, {1, "b"}}, "a"},
		"none has a number":            {[]update{{0, "a"}, {0, "b"}, {0, "a"}}, "a"},
		"a number after none":          {[]update{{0, "a"}, {1, "b"}}, "b"},
		"none after a number":          {[]update{{5, "a"}, {0, "b"}}, "b"},
		"none does not reset the rest": {[]update{{5, "a"}, {0, "b"}, {4, "c"}}, "b"},
		"the greatest that there is":   {[]update{{math.MaxInt64, "a"}, {math.MaxInt64 - 1, "b"}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			k := store.Key{Namespace: "default", ThreadID: name}
			for _, u := range test.updates {
				add(t, s, k, store.Batch{Thread: &store.ThreadUpdate{Number: u.number, Title: &u.title}})
			}
			require.Equal(t, test.want, thread(t, s, k).Title)
		})
	}
	t.Run("only the update is passed over", func(t *testing.T) {
		title, log := "old", toolLog("call")
		add(t, s, key, store.Batch{Thread: &store.ThreadUpdate{
			Number: 2, Status: store.ThreadClosed, Agents: []string{"writer"}, Metadata: json.RawMessage(`{"n":2}`),
		}})
		want := thread(t, s, key)
		late := store.ThreadUpdate{
			Number: 1, Title: &title, Status: store.ThreadOpen, Agents: []string{"critic"}, Metadata: json.RawMessage(`{"n":1}`),
		}
		add(t, s, key, store.Batch{Thread: &late})
		require.Equal(t, want, thread(t, s, key), "nothing has happened to the thread")
		a := add(t, s, key, store.Batch{Records: records("a"), Thread: &late, ToolStart: &log})
		require.True(t, a.Started)
		got := thread(t, s, key)
		require.True(t, got.UpdatedAt.After(want.UpdatedAt))
		want.Head, want.UpdatedAt = 1, got.UpdatedAt
		require.Equal(t, want, got)
	})
	t.Run("what was the same to see counts", func(t *testing.T) {
		k, title := store.Key{Namespace: "default", ThreadID: "same"}, "old"
		add(t, s, k, store.Batch{})
		add(t, s, k, store.Batch{Thread: &store.ThreadUpdate{Number: 2, Status: store.ThreadOpen}})
		add(t, s, k, store.Batch{Thread: &store.ThreadUpdate{Number: 1, Title: &title}})
		require.Empty(t, thread(t, s, k).Title)
	})
}

func testThreadUpdateConcurrent(t *testing.T, s whole) {
	errs := make(chan error, appenders)
	for n := range appenders {
		go func() {
			var err error
			for i := range rounds {
				number := int64(i*appenders + n + 1)
				title := fmt.Sprint(number)
				_, e := s.Append(t.Context(), key, store.Batch{Thread: &store.ThreadUpdate{Number: number, Title: &title}})
				err = errors.Join(err, e)
			}
			errs <- err
		}()
	}
	for range appenders {
		require.NoError(t, <-errs)
	}
	require.Equal(t, fmt.Sprint(appenders*rounds), thread(t, s, key).Title)
}

func testThreadPages(t *testing.T, s whole) {
	const total = 7
	var made []string
	for i := range total {
		// The order of names differs from the order of creation.
		id := fmt.Sprintf("%c%d", 'Z'-i%3, i)
		b := store.Batch{Records: records("a")}
		if i%2 == 1 {
			b.Thread = &store.ThreadUpdate{Status: store.ThreadClosed}
		}
		add(t, s, store.Key{Namespace: "n", ThreadID: id}, b)
		made = append([]string{id}, made...)
	}
	require.Equal(t, made, walk(t, s, store.ThreadPage{Limit: 3}), "the last active first, each once")
	require.Equal(t, made, walk(t, s, store.ThreadPage{Limit: 1}))
	require.Equal(t, made, walk(t, s, store.ThreadPage{}))
	require.Equal(t, []string{made[1], made[3], made[5]}, walk(t, s, store.ThreadPage{Limit: 2, Status: store.ThreadClosed}))

	oldest := made[total-1]
	add(t, s, store.Key{Namespace: "n", ThreadID: oldest}, store.Batch{Records: records("b")})
	require.Equal(t, append([]string{oldest}, made[:total-1]...), walk(t, s, store.ThreadPage{Limit: 2}))
	first, err := s.Threads(t.Context(), "n", store.ThreadPage{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, thread(t, s, store.Key{Namespace: "n", ThreadID: oldest}), first[0], "a listed thread is whole")
}

// walk reads all pages and returns the ids of the threads.
func walk(t *testing.T, s whole, page store.ThreadPage) []string {
	t.Helper()
	var found []string
	for {
		threads, err := s.Threads(t.Context(), "n", page)
		require.NoError(t, err)
		if len(threads) == 0 {
			return found
		}
		if page.Limit > 0 {
			require.LessOrEqual(t, len(threads), page.Limit)
		}
		for _, row := range threads {
			require.False(t, slices.Contains(found, row.ID), "thread %s comes twice", row.ID)
			found = append(found, row.ID)
		}
		last := threads[len(threads)-1]
		page.CursorUpdatedAt, page.CursorID = last.UpdatedAt, last.ID
	}
}

func testThreadPageLimits(t *testing.T, s whole) {
	for i := range store.MaxThreads + 1 {
		add(t, s, store.Key{Namespace: "n", ThreadID: fmt.Sprint(i)}, store.Batch{})
	}
	for limit, want := range map[int]int{
		0: store.DefaultThreads, -1: store.DefaultThreads, 3: 3, store.MaxThreads + 1: store.MaxThreads,
	} {
		threads, err := s.Threads(t.Context(), "n", store.ThreadPage{Limit: limit})
		require.NoError(t, err)
		require.Len(t, threads, want, "limit %d", limit)
	}
	require.Len(t, walk(t, s, store.ThreadPage{}), store.MaxThreads+1)
}

func testNamespaces(t *testing.T, s whole) {
	here, there := store.Key{Namespace: "here", ThreadID: "t"}, store.Key{Namespace: "there", ThreadID: "t"}
	log := toolLog("call")
	add(t, s, here, store.Batch{Records: records("a", "b"), ToolStart: &log})
	requireNoThread(t, s, there)
	found, err := s.RecordsByID(t.Context(), there, "a")
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = s.ToolLog(t.Context(), there, "call")
	require.ErrorIs(t, err, store.ErrNotFound)
	logs, err := s.ToolLogs(t.Context(), there)
	require.NoError(t, err)
	require.Empty(t, logs)

	a := add(t, s, there, store.Batch{Records: records("b"), ToolStart: &log})
	require.EqualValues(t, 1, a.Records[0].Seq, "each namespace counts for itself")
	require.True(t, a.Started, "the same call id in another namespace is another call")
	title := "there"
	add(t, s, there, store.Batch{Thread: &store.ThreadUpdate{Title: &title}})
	require.Empty(t, thread(t, s, here).Title)
	for _, ns := range []string{"here", "there"} {
		threads, err := s.Threads(t.Context(), ns, store.ThreadPage{})
		require.NoError(t, err)
		require.Len(t, threads, 1)
		require.Equal(t, ns, threads[0].Namespace)
	}

	// Parts with a separator must not make two keys equal.
	add(t, s, store.Key{Namespace: "a/b", ThreadID: "c"}, store.Batch{Records: records("x")})
	requireNoThread(t, s, store.Key{Namespace: "a", ThreadID: "b/c"})
	require.EqualValues(t, 2, thread(t, s, here).Head)
}
