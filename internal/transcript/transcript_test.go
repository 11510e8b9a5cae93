package transcript_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

func undecided(m event.Message, types ...string) event.Record {
	return messageRecord(m).WithUndecided(types...)
}

func withdrawal(of string) event.Record {
	return event.NewRecord(recordid.Withdrawal(of), event.TypeHook, "", of, time.Unix(0, 0), event.Interception{EventID: of, Outcome: event.OutcomeWithdrawn})
}

func person(id, content string) event.Message {
	return event.Message{ID: id, SenderType: event.CreatedByUser, SenderID: "ann", Content: content}
}

// shown is what models are shown: id, text, and the arguments of calls, the oldest first.
func shown(t *testing.T, r transcript.Reader, limit int) []string {
	t.Helper()
	return inWindow(t, r, transcript.Window{Limit: limit})
}

func inWindow(t *testing.T, r transcript.Reader, w transcript.Window) (out []string) {
	t.Helper()
	w.Head = math.MaxInt64 - 1
	got, err := transcript.Read(t.Context(), r, key, w)
	require.NoError(t, err)
	for _, m := range slices.Backward(got) {
		line := m.Record.ID + " " + m.Content
		for _, call := range m.ToolCalls {
			line += " " + call.ID + call.Function.Arguments
		}
		out = append(out, line)
	}
	return out
}

// TestTranscriptKeepsContext: of a message's metadata, models see the context, which a window counts.
func TestTranscriptKeepsContext(t *testing.T) {
	m := person("m1", "hello")
	m.Metadata = map[string]any{"other": 1, event.MetadataContext: []event.ContextEntry{{Description: "The cart", Value: strings.Repeat("x", 2000)}}}
	wrong := person("m2", "hello")
	wrong.Metadata = map[string]any{event.MetadataContext: "text"}
	r := newReader(t, messageRecord(m), messageRecord(wrong))
	w := transcript.Window{Head: math.MaxInt64 - 1, Limit: 10}
	got, err := transcript.Read(t.Context(), r, key, w)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Nil(t, got[0].Metadata)
	require.Len(t, got[1].Metadata, 1)
	require.Equal(t, m.Metadata[event.MetadataContext], event.ContextOf(got[1].Message))
	w.Bytes = 2000
	got, err = transcript.Read(t.Context(), r, key, w)
	require.NoError(t, err)
	require.Empty(t, event.ContextOf(got[1].Message), "there is no room for it")
}

func TestTranscriptOfOneMessage(t *testing.T) {
	changed := person("m", "changed")
	on := func(o event.Outcome, m *event.Message) event.Record {
		return decision("m", event.Interception{EventType: event.TypeMessage, Outcome: o, Message: m})
	}
	stored, waiting := messageRecord(person("m", "stored")), undecided(person("m", "stored"), event.TypeMessage)
	held := person("m", "stored")
	held.Held = true
	failed := event.NewRecord("m.hook.failed", event.TypeHook, "", "m", time.Unix(0, 0), event.Interception{EventID: "m", Outcome: event.OutcomeFailed})
	for name, tc := range map[string]struct {
		records []event.Record
		want    string
	}{
		"no hook has a say":                {[]event.Record{stored}, "m stored"},
		"hooks have not decided":           {[]event.Record{waiting}, ""},
		"passed":                           {[]event.Record{waiting, on(event.OutcomePassed, nil)}, "m stored"},
		"replaced":                         {[]event.Record{waiting, on(event.OutcomeReplaced, &changed)}, "m changed"},
		"replaced by an event of its own":  {[]event.Record{waiting, on(event.OutcomeReplaced, nil)}, ""},
		"responded":                        {[]event.Record{waiting, on(event.OutcomeResponded, nil)}, ""},
		"responded, stored as passed":      {[]event.Record{stored, on(event.OutcomeResponded, nil)}, ""},
		"overwritten":                      {[]event.Record{waiting, on(event.OutcomeOverwritten, nil)}, ""},
		"dropped":                          {[]event.Record{waiting, on(event.OutcomeDropped, nil)}, ""},
		"failed":                           {[]event.Record{waiting, failed}, ""},
		"failed, then passed":              {[]event.Record{waiting, failed, on(event.OutcomePassed, nil)}, "m stored"},
		"held":                             {[]event.Record{messageRecord(held)}, ""},
		"held, passed":                     {[]event.Record{messageRecord(held), on(event.OutcomePassed, &held)}, "m stored"},
		"held, passed without a message":   {[]event.Record{messageRecord(held), on(event.OutcomePassed, nil)}, ""},
		"withdrawn":                        {[]event.Record{stored, withdrawal("m")}, ""},
		"passed, then withdrawn":           {[]event.Record{waiting, on(event.OutcomePassed, nil), withdrawal("m")}, ""},
		"a decision of another type":       {[]event.Record{waiting, event.NewRecord("m.hook", "mine", "", "", time.Unix(0, 0), 1)}, ""},
		"an outcome that nobody knows yet": {[]event.Record{stored, on("later", nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, tc.records...)
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			require.Equal(t, want, shown(t, r, 10))

			all, err := transcript.Messages(t.Context(), r, key, store.Query{})
			require.NoError(t, err)
			shown, ok := all[0].ForModels()
			require.Equal(t, tc.want != "", ok, "however it is read")
			if ok {
				require.Equal(t, tc.want, "m "+shown.Content)
			}
		})
	}
}

func TestTranscriptOfCalls(t *testing.T) {
	call := func(id, args string) event.ToolCall {
		return event.ToolCall{ID: id, Function: event.Function{Name: "f", Arguments: args}}
	}
	reply := text("m", "says")
	reply.ReplyToMessageID, reply.ToolCalls = "e1", []event.ToolCall{call("c1", `{"secret":1}`), call("c2", `{"secret":2}`)}
	onCalls := func(o event.Outcome, calls ...event.ToolCall) event.Record {
		return decision("m.calls", event.Interception{EventType: event.TypeToolCall, Outcome: o, ToolCalls: calls})
	}
	onText := decision("m", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomeResponded})
	posted := reply
	posted.ReplyToMessageID = ""
	both := undecided(reply, event.TypeMessage, event.TypeToolCall)
	for name, tc := range map[string]struct {
		records []event.Record
		want    []string
	}{
		"no hook has a say":         {[]event.Record{messageRecord(reply)}, []string{`m says c1{"secret":1} c2{"secret":2}`}},
		"hooks have not decided":    {[]event.Record{both}, []string{"m  c1{} c2{}"}},
		"passed":                    {[]event.Record{undecided(reply, event.TypeToolCall), onCalls(event.OutcomePassed)}, []string{`m says c1{"secret":1} c2{"secret":2}`}},
		"edited, and one taken out": {[]event.Record{undecided(reply, event.TypeToolCall), onCalls(event.OutcomeReplaced, call("c2", `{"edited":2}`))}, []string{`m says c1{} c2{"edited":2}`}},
		"answered instead":          {[]event.Record{undecided(reply, event.TypeToolCall), onCalls(event.OutcomeResponded)}, []string{"m says c1{} c2{}"}},
		"dropped":                   {[]event.Record{undecided(reply, event.TypeToolCall), onCalls(event.OutcomeDropped)}, []string{"m says c1{} c2{}"}},
		"the text is answered":      {[]event.Record{both, onText, onCalls(event.OutcomePassed)}, []string{`m  c1{"secret":1} c2{"secret":2}`}},
		"a posted message":          {[]event.Record{undecided(posted, event.TypeMessage)}, nil},
		"withdrawn":                 {[]event.Record{messageRecord(reply), withdrawal("m")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, shown(t, newReader(t, tc.records...), 10))
		})
	}
	t.Run("a result that is withheld", func(t *testing.T) {
		result := event.Message{ID: "c1.result", SenderType: event.CreatedByTool, ToolCallID: "c1", Content: "secret", ReplyToMessageID: "m"}
		got, err := transcript.Read(t.Context(), newReader(t, undecided(result, event.TypeMessage)), key, transcript.Window{Head: math.MaxInt64 - 1, Limit: 10})
		require.NoError(t, err)
		require.Len(t, got, 1, "its call is not left without a result")
		require.Equal(t, "The result of this call was withheld.", got[0].Content)
		require.Equal(t, "c1", got[0].ToolCallID)
		require.True(t, got[0].IsError)
	})
}

// TestTranscriptOfLateDecisions: what is passed late stands where it was passed.
func TestTranscriptOfLateDecisions(t *testing.T) {
	records := []event.Record{undecided(person("m0", "retried"), event.TypeMessage), undecided(person("never", "blocked"), event.TypeMessage)}
	for i := 1; i <= 5; i++ {
		records = append(records, messageRecord(person(fmt.Sprint("m", i), "plain")))
	}
	records = append(records, decision("m0", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomePassed}), messageRecord(person("m6", "plain")))
	r := newReader(t, records...)
	require.Equal(t, []string{"m1 plain", "m2 plain", "m3 plain", "m4 plain", "m5 plain", "m0 retried", "m6 plain"}, shown(t, r, 10))
	require.Equal(t, []string{"m5 plain", "m0 retried", "m6 plain"}, shown(t, r, 3), "also when its record is out of reach")
	require.Equal(t, []string{"m1 plain", "m0 retried", "m6 plain"}, inWindow(t, r, transcript.Window{Limit: 2, Also: "m1"}), "what is asked for is there")
	for _, id := range []string{"never", "gone"} {
		require.Equal(t, []string{"m0 retried", "m6 plain"}, inWindow(t, r, transcript.Window{Limit: 2, Also: id}), "if it was passed")
	}
}

// TestTranscriptOfAFlood: what is not shown takes no place.
func TestTranscriptOfAFlood(t *testing.T) {
	records := []event.Record{messageRecord(person("a", "first")), messageRecord(person("b", "second"))}
	for i := range 250 {
		records = append(records, undecided(person(fmt.Sprint("x", i), "blocked"), event.TypeMessage))
	}
	r := newReader(t, records...)
	require.Equal(t, []string{"a first", "b second"}, shown(t, r, 100))
	r.queries = 0
	require.Equal(t, []string{"b second"}, shown(t, newReader(t, records[:2]...), 1))
	plain := newReader(t, records[:2]...)
	shown(t, plain, 2)
	require.Equal(t, 1, plain.queries, "one query where nothing was blocked")
}

// TestTranscriptAtARecord: what comes later changes nothing.
func TestTranscriptAtARecord(t *testing.T) {
	changed := person("m2", "changed")
	records := []event.Record{
		messageRecord(person("m1", "one")), undecided(person("m2", "two"), event.TypeMessage).In("m2"), messageRecord(person("m3", "three")).In("m2"),
		decision("m2", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomeReplaced, Message: &changed}),
		messageRecord(person("m4", "four")), withdrawal("m2"), withdrawal("m1"), messageRecord(person("m5", "five")),
	}
	whole := newReader(t, records...)
	for head := range len(records) {
		for _, limit := range []int{1, 2, 10} {
			for _, also := range []string{"", "m2", "m5"} {
				w := transcript.Window{Head: int64(head + 1), Limit: limit, EventID: "m2", Also: also}
				then, err := transcript.Read(t.Context(), newReader(t, records[:head+1]...), key, w)
				require.NoError(t, err)
				now, err := transcript.Read(t.Context(), whole, key, w)
				require.NoError(t, err)
				require.Equal(t, contentOf(then), contentOf(now), "head %d, limit %d, also %s", head+1, limit, also)
			}
		}
	}
}

// TestTranscriptOfATurn: the messages of the turn are in its transcript, however old, as hooks left
// them.
func TestTranscriptOfATurn(t *testing.T) {
	changed := person("turn.2", "changed")
	records := []event.Record{
		messageRecord(person("before", "earlier")),
		messageRecord(person("turn", "question")).In("turn"), undecided(person("turn.1", "blocked"), event.TypeMessage).In("turn"),
		undecided(person("turn.2", "raw"), event.TypeMessage).In("turn"),
		decision("turn.2", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomeReplaced, Message: &changed}).In("turn"),
	}
	for i := range store.MaxLimit + 200 {
		records = append(records, messageRecord(person(fmt.Sprint("turn.result", i), "result")).In("turn"))
	}
	for i := range 101 {
		records = append(records, messageRecord(person(fmt.Sprint("x", i), "other")).In(fmt.Sprint("x", i)))
	}
	r := newReader(t, records...)
	want := []string{"turn question"}
	for i := range store.MaxLimit + 200 {
		want = append(want, fmt.Sprintf("turn.result%d result", i))
	}
	want = append(want, "turn.2 changed", "x99 other", "x100 other")
	require.ElementsMatch(t, want, inWindow(t, r, transcript.Window{Limit: 2, EventID: "turn"}))
	require.Equal(t, want[len(want)-2:], inWindow(t, r, transcript.Window{Limit: 2}))
	require.Equal(t, want[len(want)-2:], inWindow(t, r, transcript.Window{Limit: 2, EventID: "none"}))

	r.queries = 0
	inWindow(t, r, transcript.Window{Limit: 2, EventID: "x99"})
	require.Equal(t, 1, r.queries, "one query where the turn is within the newest messages")
}

func contentOf(messages []*transcript.Message) (out []string) {
	for _, m := range messages {
		out = append(out, m.Content)
	}
	return out
}

// pagesReader remembers the size of the largest page.
type pagesReader struct {
	transcript.Reader
	largest int
}

func (r *pagesReader) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	page, err := r.Reader.Records(ctx, key, q)
	bytes := 0
	for _, rec := range page {
		bytes += len(rec.Payload)
	}
	r.largest = max(r.largest, bytes)
	return page, err
}

// requireCut checks a result of so many "r" that was cut to a limit.
func requireCut(t *testing.T, m *transcript.Message, whole, limit int) {
	t.Helper()
	require.True(t, m.Cut())
	require.LessOrEqual(t, len(m.Content), limit)
	require.Greater(t, len(m.Content), limit-16)
	start, rest, _ := strings.Cut(m.Content, "\n[… ")
	note, end, _ := strings.Cut(rest, " …]\n")
	require.Equal(t, fmt.Sprintf("%d of %d bytes are left out. To read them, call %s with {\"call\":\"c0\",\"offset\":%d}; with \"find\", it searches them",
		whole-len(start)-len(end), whole, builtin.ReadResult, len(start)), note)
	require.Equal(t, strings.Repeat("r", len(start)), start)
	require.Equal(t, strings.Repeat("r", len(start)), end)
}

// TestTranscriptWithinBytes: older messages are left out, and large ones are cut. The turn and its question remain, as far as there is
// room.
func TestTranscriptWithinBytes(t *testing.T) {
	const bound = 64 << 10
	question, small := person("turn", strings.Repeat("?", 4<<10)), strings.Repeat("x", 1<<10)
	arguments := fmt.Sprintf(`{"text":%q}`, strings.Repeat("<", 100<<10))
	calls := text("turn.1", "I look")
	calls.ToolCalls = []event.ToolCall{{ID: "c0", Function: event.Function{Name: "look", Arguments: arguments}}}
	turn := []event.Record{messageRecord(question).In("turn"), messageRecord(calls).In("turn")}
	for i := range 60 {
		m := event.Message{ID: fmt.Sprint("turn.r", i), SenderType: event.CreatedByTool, ToolCallID: "c0", Content: strings.Repeat("r", 128<<10), Metadata: map[string]any{"a": "b"}}
		turn = append(turn, messageRecord(m).In("turn"))
	}
	var old []event.Record
	for i := range 200 {
		old = append(old, messageRecord(person(fmt.Sprint("old", i), small)))
	}
	for name, tc := range map[string]struct {
		records []event.Record
		w       transcript.Window
		check   func(t *testing.T, newest []*transcript.Message)
	}{
		"older messages are left out": {old, transcript.Window{}, func(t *testing.T, newest []*transcript.Message) {
			require.Len(t, newest, bound/(1<<10+256))
			require.Equal(t, small, newest[0].Content)
			require.Equal(t, "old199", newest[0].ID)
		}},
		"a large message is cut, and says so": {turn[:3], transcript.Window{}, func(t *testing.T, newest []*transcript.Message) {
			require.Len(t, newest, 3)
			require.Len(t, newest[0].Content, bound/4)
			require.Contains(t, newest[0].Content, "[… cut: this is only the beginning of 131072 bytes …]")
			require.False(t, newest[0].Intact())
			require.True(t, newest[2].Intact())
			var cut struct {
				Truncated bool
				Bytes     int
				Start     string
			}
			got := newest[1].ToolCalls[0].Function.Arguments
			require.LessOrEqual(t, len(got), bound/8)
			require.NoError(t, json.Unmarshal([]byte(got), &cut))
			require.True(t, cut.Truncated)
			require.Equal(t, len(arguments), cut.Bytes)
			require.True(t, strings.HasPrefix(arguments, cut.Start))
		}},
		"a large turn keeps its question and the beginnings of its messages": {slices.Concat(old, turn), transcript.Window{EventID: "turn", Also: "turn"}, func(t *testing.T, newest []*transcript.Message) {
			require.Equal(t, question.Content, newest[len(newest)-1].Content)
			require.Len(t, newest[2].Content, bound/4)
			require.Len(t, newest[10].Content, 512)
			require.Contains(t, newest[10].Content, "[… cut")
			require.LessOrEqual(t, len(newest), 3+bound/4/512+1)
		}},
		"a long turn that goes on while others post": {slices.Concat(turn, old), transcript.Window{Limit: 10, EventID: "turn", Also: "turn"}, func(t *testing.T, newest []*transcript.Message) {
			require.Equal(t, "old199", newest[0].ID)
			require.Equal(t, "turn.r59", newest[10].ID)
			require.Equal(t, question.Content, newest[len(newest)-1].Content)
		}},
		"a large result keeps its beginning and its end": {turn[:3], transcript.Window{Result: 4 << 10}, func(t *testing.T, newest []*transcript.Message) {
			requireCut(t, newest[0], 128<<10, 4<<10)
			require.False(t, newest[1].Cut(), "a call is no result")
			require.Len(t, newest[2].Content, 4<<10)
		}},
		"a bound of results does not raise that of messages": {turn[:3], transcript.Window{Result: 1 << 20}, func(t *testing.T, newest []*transcript.Message) {
			requireCut(t, newest[0], 128<<10, bound/4)
		}},
		"results without room say how to read them": {turn, transcript.Window{EventID: "turn", Result: 4 << 10}, func(t *testing.T, newest []*transcript.Message) {
			requireCut(t, newest[0], 128<<10, 4<<10)
			requireCut(t, newest[20], 128<<10, 512)
		}},
		"a bound of results only": {turn[:3], transcript.Window{Bytes: -1, Result: 1 << 10}, func(t *testing.T, newest []*transcript.Message) {
			requireCut(t, newest[0], 128<<10, 1<<10)
			require.True(t, newest[1].Intact())
		}},
		"no bound": {turn[:3], transcript.Window{Bytes: -1}, func(t *testing.T, newest []*transcript.Message) {
			require.Len(t, newest[0].Content, 128<<10)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.w
			w.Head, w.Limit, w.Bytes = math.MaxInt64-1, cmp.Or(w.Limit, 1000), max(cmp.Or(w.Bytes, bound), 0)
			r := &pagesReader{Reader: newReader(t, tc.records...)}
			newest, err := transcript.Read(t.Context(), r, key, w)
			require.NoError(t, err)
			tc.check(t, newest)
			texts := 0
			for _, m := range newest {
				texts += 256 + len(m.Content)
				require.Empty(t, m.Record.Payload)
				require.Empty(t, m.Metadata)
			}
			require.LessOrEqual(t, r.largest, 2<<20+1<<20, "it is read in pages")
			if w.Bytes > 0 {
				require.LessOrEqual(t, texts, bound+bound/4+4<<10+256)
			}
			if len(tc.records) > 100 {
				_, err = transcript.NewRecent().Read(t.Context(), r, key, 0, w, 100<<10)
				require.ErrorIs(t, err, transcript.ErrTooLarge)
			}
		})
	}
}
