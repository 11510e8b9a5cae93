package storetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

func testContent(t *testing.T, s whole) {
	for name, content := range map[string]string{
		"NUL":          "before\x00after\x00",
		"emoji":        "👩‍👩‍👧‍👦 🧵 e\u0301 שלום \u2028 \U0010FFFF",
		"control":      "\x01\x02\x1b[31m\x7f\u0085\ufeff",
		"quotes":       `'"\ $1 ? %s {} -- ; DROP TABLE records`,
		"lines":        "a\r\nb\n\n\tc",
		"1 MB":         strings.Repeat("0123456789abcdef", 1<<16),
		"1 MB of NULs": strings.Repeat("\x00", 1<<17),
	} {
		t.Run(name, func(t *testing.T) {
			k := store.Key{Namespace: "content", ThreadID: name}
			message := event.Message{ID: "m", Content: content, ToolCalls: []event.ToolCall{
				{ID: "call", Function: event.Function{Name: "x", Arguments: `{"b": 1,  "a": "` + "\x00" + `"}`}},
			}}
			log := toolLog("call")
			log.Output, _ = json.Marshal(content)
			log.Input = log.Output
			finish := log
			finish.Status = store.ToolSucceeded
			a := add(t, s, k, store.Batch{
				Records:    []event.Record{event.NewRecord("m", event.TypeMessage, "", "", start, message)},
				ToolFinish: &finish,
			})
			found := query(t, s, k, store.Query{})
			require.True(t, equal(a.Records, found), "what append returned is what is found")
			var got event.Message
			require.NoError(t, json.Unmarshal(found[0].Payload, &got))
			require.True(t, got.Content == content, "the content is kept")
			require.Equal(t, message.ToolCalls, got.ToolCalls)
			stored, err := s.ToolLog(t.Context(), k, "call")
			require.NoError(t, err)
			require.True(t, string(log.Input) == string(stored.Input) && string(log.Output) == string(stored.Output))
		})
	}
	t.Run("lone surrogate and deep nesting", func(t *testing.T) {
		k := store.Key{Namespace: "content", ThreadID: "odd"}
		r := record("r")
		r.Payload = json.RawMessage(`{"s":"\ud800 \uDFFF","deep":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`)
		add(t, s, k, store.Batch{Records: []event.Record{r}})
		require.Equal(t, string(r.Payload), string(query(t, s, k, store.Query{})[0].Payload))
	})
}

// equal keeps a megabyte of differences out of the output of a failed test.
func equal(a, b []event.Record) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func testSanitised(t *testing.T, s whole) {
	r := record("r")
	r.Payload = json.RawMessage("{\"content\":\"a\xff\xfeb\"}")
	given := string(r.Payload)
	title := "ti\x00t\xffle"
	log := toolLog("call")
	log.Input = json.RawMessage("not JSON: {\"a\": \x00 é")
	a := add(t, s, key, store.Batch{
		Records: []event.Record{r}, ToolStart: &log,
		Thread: &store.ThreadUpdate{Title: &title, Metadata: json.RawMessage("\"\xff\"")},
	})
	require.Equal(t, "a\uFFFDb", object(t, a.Records[0].Payload)["content"])
	require.Equal(t, a.Records, query(t, s, key, store.Query{}))
	require.Equal(t, given, string(r.Payload), "what was given is left alone")

	row := thread(t, s, key)
	require.Equal(t, "ti\uFFFDt\uFFFDle", row.Title)
	require.Equal(t, "\"\uFFFD\"", string(row.Metadata))

	var input string
	require.NoError(t, json.Unmarshal(stored(t, s, "call").Input, &input))
	require.Equal(t, "not JSON: {\"a\": \x00 é", input, "text that is not JSON is kept as a string")
}

func testIdentifiers(t *testing.T, s whole) {
	for _, odd := range []string{
		"with space", "ünï/cödé 🧵", "a'b\"c;--", "%_*", strings.Repeat("long", 200), "UPPER", "upper", " upper", "0", "null", "\n",
	} {
		k := store.Key{Namespace: odd, ThreadID: odd}
		r := typed(odd, odd)
		r.TraceID, r.ParentEventID, r.EventID = odd, odd, odd
		log := toolLog(odd)
		log.ToolName, log.Agent = odd, odd
		a := add(t, s, k, store.Batch{
			Records: []event.Record{r}, ToolStart: &log, Thread: &store.ThreadUpdate{Title: &odd, Agents: []string{odd, "b"}},
		})
		require.Equal(t, a.Records, query(t, s, k, store.Query{Types: []string{odd}}))
		found, err := s.RecordsByID(t.Context(), k, odd)
		require.NoError(t, err)
		require.Equal(t, a.Records, found)
		got, err := s.ToolLog(t.Context(), k, odd)
		require.NoError(t, err)
		require.Equal(t, []string{odd, odd, odd}, []string{got.ToolCallID, got.ToolName, got.Agent})
		row := thread(t, s, k)
		require.Equal(t, odd, row.ID)
		require.Equal(t, []string{odd, "b"}, row.Agents)
		threads, err := s.Threads(t.Context(), odd, store.ThreadPage{})
		require.NoError(t, err)
		require.Equal(t, []store.Thread{row}, threads)
	}
}
