package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

func testQuery(t *testing.T, s whole) {
	add(t, s, key, store.Batch{Records: []event.Record{
		typed("1", "message"), typed("2", "llm_call"), typed("3", "message"),
		typed("4", "tool_call").In("a"), typed("5", "message").In("a"), typed("6", "final").In("a"),
	}})
	for name, test := range map[string]struct {
		query store.Query
		want  []string
	}{
		"all":                    {store.Query{}, []string{"1", "2", "3", "4", "5", "6"}},
		"after":                  {store.Query{After: 4}, []string{"5", "6"}},
		"after the last":         {store.Query{After: 6}, []string{}},
		"before":                 {store.Query{Before: 3}, []string{"1", "2"}},
		"before the first":       {store.Query{Before: 1}, []string{}},
		"between":                {store.Query{After: 2, Before: 5}, []string{"3", "4"}},
		"limit":                  {store.Query{After: 1, Limit: 2}, []string{"2", "3"}},
		"newest":                 {store.Query{Newest: true}, []string{"6", "5", "4", "3", "2", "1"}},
		"newest, limit":          {store.Query{Newest: true, Limit: 2}, []string{"6", "5"}},
		"newest, before, limit":  {store.Query{Newest: true, Before: 5, Limit: 2}, []string{"4", "3"}},
		"newest, after":          {store.Query{Newest: true, After: 4}, []string{"6", "5"}},
		"types":                  {store.Query{Types: []string{"message"}}, []string{"1", "3", "5"}},
		"two types, after":       {store.Query{Types: []string{"final", "message"}, After: 3}, []string{"5", "6"}},
		"types, limit":           {store.Query{Types: []string{"message"}, Limit: 2}, []string{"1", "3"}},
		"types, newest, limit":   {store.Query{Types: []string{"message"}, Newest: true, Limit: 2}, []string{"5", "3"}},
		"event":                  {store.Query{EventID: "a"}, []string{"4", "5", "6"}},
		"event, types, newest":   {store.Query{EventID: "a", Types: []string{"final", "message"}, Newest: true, Limit: 1}, []string{"6"}},
		"event, between, bytes":  {store.Query{EventID: "a", After: 4, Before: 7, MaxBytes: 1}, []string{"5"}},
		"unknown event":          {store.Query{EventID: "x"}, []string{}},
		"event that cannot be":   {store.Query{EventID: "a\x00"}, []string{}},
		"unknown type":           {store.Query{Types: []string{"x"}}, []string{}},
		"type that cannot exist": {store.Query{Types: []string{"a\x00", "\xff", "final"}}, []string{"6"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, ids(query(t, s, key, test.query)))
		})
	}
}

func testQueryLimit(t *testing.T, s whole) {
	const total = store.MaxLimit + 5
	for batch := range slices.Chunk(series("r", total), 300) {
		add(t, s, key, store.Batch{Records: batch})
	}
	for _, limit := range []int{0, -1, store.MaxLimit, store.MaxLimit + 1} {
		require.Len(t, query(t, s, key, store.Query{Limit: limit}), store.MaxLimit, "limit %d", limit)
	}
	rest := query(t, s, key, store.Query{After: store.MaxLimit})
	require.Equal(t, ids(series("r", total))[store.MaxLimit:], ids(rest))
	require.EqualValues(t, total, query(t, s, key, store.Query{Newest: true})[0].Seq)

	wanted := ids(series("r", store.MaxLimit))
	found, err := s.RecordsByID(t.Context(), key, wanted...)
	require.NoError(t, err)
	require.Equal(t, wanted, ids(found), "as many by id as a query returns")
}

func testQueryBytes(t *testing.T, s whole) {
	var all []event.Record
	for i, size := range []int{10, 20, 3000, 10, 10} {
		all = append(all, event.NewRecord(fmt.Sprint(i+1), event.TypeMessage, "", "", start, strings.Repeat("ü", size)))
	}
	add(t, s, key, store.Batch{Records: all})
	size := func(i int) int { return len(all[i-1].Payload) }
	for name, test := range map[string]struct {
		query store.Query
		want  []string
	}{
		"no bound":              {store.Query{MaxBytes: 0}, []string{"1", "2", "3", "4", "5"}},
		"a record at least":     {store.Query{MaxBytes: 1}, []string{"1"}},
		"a large one at least":  {store.Query{After: 2, MaxBytes: 1}, []string{"3"}},
		"up to the bound":       {store.Query{MaxBytes: size(1) + size(2)}, []string{"1", "2"}},
		"beyond the bound":      {store.Query{MaxBytes: size(1) + size(2) + 1}, []string{"1", "2", "3"}},
		"above all":             {store.Query{MaxBytes: 1 << 20}, []string{"1", "2", "3", "4", "5"}},
		"with a limit":          {store.Query{MaxBytes: 1 << 20, Limit: 2}, []string{"1", "2"}},
		"newest":                {store.Query{MaxBytes: size(5) + 1, Newest: true}, []string{"5", "4"}},
		"newest, before, types": {store.Query{MaxBytes: 1, Newest: true, Before: 4, Types: []string{"message"}}, []string{"3"}},
		"between":               {store.Query{MaxBytes: size(2) + 1, After: 1, Before: 5}, []string{"2", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := query(t, s, key, test.query)
			require.Equal(t, test.want, ids(found))
			test.query.After = max(test.query.After, found[len(found)-1].Seq)
			if !test.query.Newest && test.query.Complete(found) {
				require.Empty(t, query(t, s, key, test.query), "nothing follows a complete result")
			}
		})
	}
}

// testUnavailable: an expired deadline simulates a server that does not respond.
func testUnavailable(t *testing.T, s whole) {
	add(t, s, key, store.Batch{Records: records("a")})
	late, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, call := range calls(s) {
		require.ErrorIs(t, call(late), store.ErrUnavailable, name)
		require.ErrorIs(t, call(late), context.DeadlineExceeded, name)
		require.NotErrorIs(t, call(gone), store.ErrUnavailable, name+": the caller has gone")
		require.NotErrorIs(t, call(t.Context()), store.ErrUnavailable, name)
	}
}

// calls are the calls of a store that need its server.
func calls(s whole) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error {
			_, err := s.Append(ctx, key, store.Batch{Records: records("b")})
			return err
		},
		"Records":     func(ctx context.Context) error { _, err := s.Records(ctx, key, store.Query{}); return err },
		"RecordsByID": func(ctx context.Context) error { _, err := s.RecordsByID(ctx, key, "a"); return err },
		"Thread":      func(ctx context.Context) error { _, err := s.Thread(ctx, key); return err },
		"Threads": func(ctx context.Context) error {
			_, err := s.Threads(ctx, key.Namespace, store.ThreadPage{})
			return err
		},
		"ToolLog":  func(ctx context.Context) error { _, err := s.ToolLog(ctx, key, "call"); return err },
		"ToolLogs": func(ctx context.Context) error { _, err := s.ToolLogs(ctx, key); return err },
		"SaveAgent": func(ctx context.Context) error {
			_, err := s.SaveAgent(ctx, key.Namespace, store.AgentVersion{Name: "a", Change: store.AgentCreated, Definition: []byte(`{}`)}, 0)
			return err
		},
		"Agent":         func(ctx context.Context) error { _, err := s.Agent(ctx, key.Namespace, "a"); return err },
		"Agents":        func(ctx context.Context) error { _, err := s.Agents(ctx, key.Namespace, "", 0); return err },
		"AgentVersions": func(ctx context.Context) error { _, err := s.AgentVersions(ctx, key.Namespace, "a", 0, 0); return err },
		"AgentChanges":  func(ctx context.Context) error { _, err := s.AgentChanges(ctx, key.Namespace, 0, 0); return err },
		"CreateAPIKey": func(ctx context.Context) error {
			_, err := s.CreateAPIKey(ctx, store.APIKey{ID: "k", Namespace: key.Namespace, Name: "k", Hash: "h", Roles: []string{"read"}})
			return err
		},
		"APIKeys":    func(ctx context.Context) error { _, err := s.APIKeys(ctx, key.Namespace); return err },
		"APIKey":     func(ctx context.Context) error { _, err := s.APIKey(ctx, "k"); return err },
		"HasAPIKeys": func(ctx context.Context) error { _, err := s.HasAPIKeys(ctx); return err },
		"Ping":       s.Ping,
	}
}

func testQueryNothing(t *testing.T, s whole) {
	requireNoThread(t, s, key)
	found, err := s.RecordsByID(t.Context(), key, "a")
	require.NoError(t, err)
	require.Empty(t, found)
	threads, err := s.Threads(t.Context(), key.Namespace, store.ThreadPage{})
	require.NoError(t, err)
	require.Empty(t, threads)
	_, err = s.ToolLog(t.Context(), key, "call")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorContains(t, err, key.String())
	logs, err := s.ToolLogs(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, logs)
	_, err = s.Thread(t.Context(), key)
	require.ErrorContains(t, err, key.String())
}

func testRecordsByID(t *testing.T, s whole) {
	a := add(t, s, key, store.Batch{Records: records("a", "b", "c", "d")})
	found, err := s.RecordsByID(t.Context(), key, "d", "nobody", "b", "b", "x\x00", "\xff")
	require.NoError(t, err)
	require.Equal(t, []event.Record{a.Records[1], a.Records[3]}, found, "those that exist, once, by seq")
	found, err = s.RecordsByID(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, found)
}
