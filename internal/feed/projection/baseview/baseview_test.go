package baseview_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/feed/projection/baseview"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
)

type item = projection.Item[event.AgentEvent]

func newThread(t *testing.T) *feedtest.Projected[event.AgentEvent] {
	w := feedtest.New(t, feedtest.Options{Stream: feedtest.NewMarking, Heartbeat: testenv.Tick})
	return &feedtest.Projected[event.AgentEvent]{Thread: w, Projection: baseview.New(w.Feed, w.Store)}
}

// same returns the events as they are on the wire.
func same(items []item) []string {
	var out []string
	for _, i := range items {
		raw, err := json.Marshal(i.Event)
		if err != nil {
			panic(err)
		}
		out = append(out, string(raw))
	}
	return out
}

// turn has an event of each type.
func turn() feedtest.Script {
	return feedtest.Script{
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.Record(event.TypeStatus, event.StatusChange{Status: event.StatusOpened, Agents: []string{"bot"}}), feedtest.Said("hi"))
		},
		func(w *feedtest.Thread) { w.Publish(feedtest.Thought(2, "m1", "hm")) },
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.CallOf("m1", 1), feedtest.WithCalls("m1", "", "c1"), feedtest.Calls("c1"))
		},
		func(w *feedtest.Thread) { w.Publish(feedtest.Progress(5, "c1", "half")) },
		func(w *feedtest.Thread) { w.StoreAll(feedtest.Result("c1", "out")) },
		func(w *feedtest.Thread) { w.Piece(6, "m2", 1, "it is ") },
		func(w *feedtest.Thread) { w.Piece(6, "m2", 1, "done") },
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.CallOf("m2", 1), feedtest.Message("m2", "it is done"), feedtest.Record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m2"}))
		},
		func(w *feedtest.Thread) {
			w.StoreAll(feedtest.Record(event.TypeError, event.Failure{Agent: "eve", EventID: "e2", Error: "no key", Class: "refused"}))
		},
	}
}

func TestBaseView(t *testing.T) {
	w := newThread(t)
	r := w.Open(projection.From{})
	var live []item
	w.Run(turn(), func() {
		for len(live) == 0 || live[len(live)-1].Event.Type != event.EventError {
			live = append(live, w.Next(r))
		}
	})
	told := []string{
		`{"type":"thought","content":"hm"}`,
		`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}"}`,
		`{"type":"tool_progress","toolName":"shell_cmd","data":"half"}`,
		`{"type":"tool_result","toolName":"shell_cmd","output":"out"}`,
		`{"type":"stream","content":"it is "}`, `{"type":"stream","content":"done"}`,
		`{"type":"final"}`,
		`{"type":"error","error":"no key"}`,
	}
	t.Run("S1-01 S1-02 S1-03 S1-04 S1-05 S1-06 S1-07 S1-08 seven types, with their own fields and no others", func(t *testing.T) {
		assert.Equal(t, told, same(live))
		types := map[event.AgentEventType]bool{}
		for _, i := range live {
			types[i.Event.Type] = true
		}
		assert.Len(t, types, len(event.BaseEventTypes))
	})
	t.Run("cut at every position", func(t *testing.T) { w.CheckCuts(live, same) })
	t.Run("S1-24 what is stored comes whole", func(t *testing.T) {
		want := slices.DeleteFunc(slices.Clone(told), func(e string) bool {
			return strings.Contains(e, "thought") || strings.Contains(e, "progress") || strings.Contains(e, `"done"`)
		})
		want[2] = `{"type":"stream","content":"it is done"}`
		assert.Equal(t, want, same(w.Pages(100)))
		assert.Equal(t, want, same(w.Pages(1)))
	})
	t.Run("the reader of a thread that is closed ends", func(t *testing.T) {
		w.StoreAll(feedtest.Closed())
		assert.Empty(t, w.ToEnd(r))
		assert.Equal(t, told[len(told)-1:], same(w.Rest(live[len(live)-2].Cursor)))
	})
}

func TestBaseViewOfDecisions(t *testing.T) {
	w := newThread(t)
	r := w.Open(projection.From{})
	var live []item
	w.Run(feedtest.Intercepted(), func() { live = w.ToEnd(r) })
	assert.Equal(t, []string{
		`{"type":"stream","content":"a sec"}`, `{"type":"stream","content":"ret"}`,
		`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}"}`, `{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}"}`,
		`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{\"dry\":true}"}`, `{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{}"}`,
		`{"type":"tool_progress","toolName":"shell_cmd","data":"half"}`,
		`{"type":"tool_result","toolName":"shell_cmd","output":"a secret"}`, `{"type":"tool_result","toolName":"shell_cmd","output":"[redacted]"}`,
		`{"type":"tool_result","toolName":"shell_cmd","output":"out"}`,
		`{"type":"stream","content":"let out"}`,
		`{"type":"final"}`,
	}, same(live), "what is held back comes to nobody, and what was shown as text is not taken back")
	w.CheckCuts(live, same)
}

func TestBaseViewOfEnds(t *testing.T) {
	ended := func(status signals.TurnStatus) event.Record {
		return feedtest.Record(event.TypeTurnEnded, event.TurnEnded{EventID: "e1", Status: string(status)})
	}
	w := newThread(t)
	w.StoreAll(feedtest.Said("@nobody hi"), ended(signals.TurnUnanswered))
	w.StoreAll(feedtest.CallOf("m1", 1), feedtest.Message("m1", "hey"), feedtest.Record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m1"}), ended(signals.TurnCompleted))
	assert.Equal(t, []string{`{"type":"final"}`, `{"type":"stream","content":"hey"}`, `{"type":"final"}`}, same(w.Pages(100)),
		"S1-23 each turn ends once")
}

func TestBaseViewAfterLoss(t *testing.T) {
	w := newThread(t)
	head := w.StoreAll(feedtest.Said("hi"))
	r := w.Open(projection.From{})
	w.Piece(head, "m1", 1, "it is ")
	assert.Equal(t, `{"type":"stream","content":"it is "}`, same([]item{w.Next(r)})[0])
	t.Run("a retried reply begins anew, without a word", func(t *testing.T) {
		w.Publish(feedtest.Reset(head, "m1", 2))
		w.Piece(head, "m1", 2, "it was ")
		assert.Equal(t, `{"type":"stream","content":"it was "}`, same([]item{w.Next(r)})[0])
	})
	t.Run("a reply of which pieces were lost follows whole", func(t *testing.T) {
		gap := event.AgentEvent{Type: event.EventGap, Detail: "lost"}
		w.Publish(stream.Entry{After: head, Event: &gap})
		w.StoreAll(feedtest.CallOf("m1", 2), feedtest.Message("m1", "it was done"))
		assert.Equal(t, `{"type":"stream","content":"it was done"}`, same([]item{w.Next(r)})[0])
	})
}
