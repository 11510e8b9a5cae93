package thread

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

func TestRespondDefaults(t *testing.T) {
	for _, tc := range []struct {
		name         string
		agents       []string
		known        string
		post         signals.Post
		response     hook.Response
		wantSender   string
		wantSentType event.CreatedBy
	}{
		{"the agent that would have answered", []string{"alice", "bob"}, "", says("e1", "@bob hello"), hook.Response{}, "bob", event.Agent},
		{"the first of several", []string{"alice", "bob"}, "", says("e1", "hello"), hook.Response{}, "alice", event.Agent},
		{"the default agent, once it has a name", nil, "assistant", says("e1", "hello"), hook.Response{}, "assistant", event.Agent},
		{"the hook, while nobody knows it", nil, "", says("e1", "hello"), hook.Response{}, "guard", event.Agent},
		{"the hook, when nobody would have answered", []string{"alice"}, "assistant", signals.NewPost("e1", event.NewMessage{ThreadID: "t1", SenderID: "x", SenderType: event.System, Content: "hi"}), hook.Response{}, "guard", event.Agent},
		{"the agent that has spoken", []string{"alice"}, "", signals.NewPost("e1", event.NewMessage{ThreadID: "t1", SenderID: "bob", SenderType: event.Agent, Content: "hi"}), hook.Response{}, "bob", event.Agent},
		{"the hook, for events without an agent", []string{"alice"}, "assistant", signals.Post{ID: "e1", Type: "file.changed"}, hook.Response{}, "guard", event.Agent},
		{"explicit values", []string{"alice"}, "", says("e1", "hello"), hook.Response{SenderID: "desk", SenderType: event.System}, "desk", event.System},
		{"an explicit type alone", []string{"alice"}, "", says("e1", "hello"), hook.Response{SenderType: event.User}, "alice", event.User},
	} {
		t.Run("S0-18 "+tc.name, func(t *testing.T) {
			s := newState(tc.agents...)
			s.Default = tc.known
			arrive(t, s, tc.post)
			tc.response.Content, tc.response.Metadata = "no", map[string]any{"why": "policy"}
			s.Turn.Enter(t0, responds("guard", tc.response))
			m := s.itemMessage(s.Ordered()[0])
			require.Equal(t, tc.wantSender, m.SenderID)
			require.Equal(t, tc.wantSentType, m.SenderType)
			require.Equal(t, "no", m.Content)
			require.Equal(t, map[string]any{"why": "policy"}, m.Metadata)
			require.Equal(t, tc.wantSentType == event.Agent, m.AgentID != "")
		})
	}
	t.Run("S0-18 the agent whose calls they are", func(t *testing.T) {
		s, r := called(t, runs("c1"))
		r.ApplyCallsDecision(t0, answers("guard", "no"))
		require.Equal(t, "assistant", s.itemMessage(s.Ordered()[0]).SenderID)
	})
}

func TestMadeItem(t *testing.T) {
	s := newState("alice")
	p := says("e1", "hello")
	p.Priority, p.TraceID, p.TTL, p.ParentEventID = 4, "trace", 60_000, "cause"
	p.Agents, p.Tools = []string{"bob"}, &[]string{"clock"}
	arrive(t, s, p)
	higher := 9
	s.Turn.Enter(at(1), produces("p", hook.Message(event.User, "p", "plain"), hook.Produced{Type: "note.taken", Payload: json.RawMessage(`{"a":1}`), Priority: &higher, TTL: 500}))
	s.Turn.End(at(1))
	items := s.Ordered()
	require.Equal(t, []string{"note.taken", event.TypeMessage}, []string{items[0].Type, items[1].Type}, "S2-38")
	require.Equal(t, event.Item{
		ID: items[0].ID, ThreadID: "t1", Type: "note.taken", Payload: json.RawMessage(`{"a":1}`), Status: event.Pending, Priority: 9, TTL: 500,
		TraceID: "trace", ParentEventID: "e1", Namespace: "ns", CreatedAt: at(1), UpdatedAt: at(1),
	}, items[0], "S2-36 S2-40 S2-41")
	require.Equal(t, 4, items[1].Priority, "that of the event it was made of")
	require.Zero(t, items[1].TTL)
	require.NoError(t, signals.CheckEventID("id", items[0].ID))

	s = copied(t, s)
	_, ok := s.Next(at(1))
	require.True(t, ok)
	turn := next(t, s)
	require.Equal(t, &Origin{Root: "e1", Depth: 1, By: "p"}, turn.Origin)
	require.Equal(t, &[]string{"clock"}, turn.Tools, "what the run allows holds for all of it")
	s.Turn.Enter(at(2), pass)
	require.Equal(t, "alice", turn.Runs[0].Agent, "S0-19 it is routed like any other message, not as the event was")
}

// TestRetriedMadeItem: who answers it is not who answers the event that it was made of.
func TestRetriedMadeItem(t *testing.T) {
	s := newState("alice")
	p := says("e1", "hello")
	p.Agents = []string{"bob"}
	arrive(t, s, p)
	s.Turn.Enter(t0, responds("guard", hook.Response{Content: "no", SenderType: event.System}))
	s.Turn.End(t0)
	made := next(t, s).Item.ID
	s.Turn.Enter(t0, refuses("other", "it broke"))
	s.Turn.End(t0)
	require.Equal(t, signals.TurnFailed, ended(t, s, "e1").Status)
	require.NoError(t, s.Retry(t0, signals.Control{EventID: made}))
	turn := next(t, s)
	s.Turn.Enter(t0, pass)
	require.Empty(t, turn.Runs, "S0-26 nobody answers the system")
	s.Turn.End(t0)
	require.Equal(t, signals.TurnUnanswered, ended(t, s, made).Status)
}

// TestRetriedMadeItemStaysMade: what hooks have put in the place of an event is shown to
// none again when it is retried, and how deep it lies still counts.
func TestRetriedMadeItemStaysMade(t *testing.T) {
	ends := map[string]func(*State, string) error{
		"it failed": func(s *State, made string) error {
			s.Turn.Enter(t0, refuses("p", "it broke"))
			s.Turn.End(t0)
			return s.Retry(t0, signals.Control{EventID: made})
		},
		"it was set to failed by hand": func(s *State, made string) error {
			if _, _, err := s.SetStatus(t0, setTo(made, event.Failed)); err != nil {
				return err
			}
			s.Interrupt(signals.Control{})
			s.Turn.End(t0)
			return s.Retry(t0, signals.Control{EventID: made})
		},
		"it was set to pending by hand": func(s *State, made string) error {
			_, _, err := s.SetStatus(t0, setTo(made, event.Pending))
			s.Interrupt(signals.Control{})
			s.Turn.End(t0)
			return err
		},
	}
	for name, end := range ends {
		t.Run("S2-17 "+name, func(t *testing.T) {
			s := newState()
			arrive(t, s, signals.Post{ID: "e1", Type: "deploy", Payload: json.RawMessage(`{}`)})
			s.Turn.Enter(t0, replaces("h", saying(event.System, "h", "deploy?")))
			s.Turn.End(t0)
			made := next(t, s).Item.ID
			require.True(t, s.Turn.ItemEvent().Hooked)
			require.NoError(t, end(s, made))
			s = copied(t, s)
			require.Equal(t, made, next(t, s).Item.ID)
			require.True(t, s.Turn.ItemEvent().Hooked, "hooks have seen what it was made of")
			require.Equal(t, 1, s.Turn.depth())
			s.Turn.Enter(t0, produces("p", hook.NewProduced("note.taken", 1)))
			s.Turn.End(t0)
			next(t, s)
			s.Turn.Enter(t0, pass)
			s.Turn.End(t0)
			require.Empty(t, s.Roots, "no turn is left open")
			require.False(t, s.Awaits(made))
		})
	}
}

// TestRetryKeepsOptions: who may answer, and with which tools, holds for a retry, too.
func TestRetryKeepsOptions(t *testing.T) {
	by := func(st event.Status) func(*State) {
		return func(s *State) {
			_, interrupt, err := s.SetStatus(t0, setTo("e1", st))
			require.NoError(t, err)
			if interrupt {
				s.Interrupt(signals.Control{})
				s.Turn.Runs[0].StopRun(t0)
				s.Turn.End(t0)
			}
		}
	}
	fails := func(s *State) {
		s.Turn.Runs[0].Fail(t0, "it broke", true)
		s.Turn.End(t0)
	}
	for name, ways := range map[string][]func(*State){
		"S2-17 S2-25 it failed":                            {fails, by(event.Pending)},
		"S2-17 S2-25 it was set to failed":                 {by(event.Failed), by(event.Pending)},
		"S2-17 S2-25 it was set to pending":                {by(event.Pending)},
		"S2-17 S2-25 it was set to failed while it waited": {by(event.Pending), by(event.Failed), by(event.Pending)},
		"S2-17 S2-25 it failed twice":                      {fails, by(event.Pending), func(s *State) { next(t, s); s.Turn.Enter(t0, pass); fails(s) }, by(event.Pending)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			p := says("e1", "hello")
			p.Agents, p.Tools = []string{"bob"}, &[]string{"note"}
			arrive(t, s, p)
			s.Turn.Enter(t0, replaces("h", saying(event.User, "ann", "good day")))
			for _, way := range ways {
				way(s)
				s = copied(t, s)
			}
			turn := next(t, s)
			require.Equal(t, "e1", turn.Item.ID)
			require.Equal(t, Options{Agents: []string{"bob"}, Tools: &[]string{"note"}}, turn.Options)
			d, seen := turn.DecidedBefore()
			require.True(t, seen, "S0-24 what hooks have decided stands")
			require.Equal(t, event.Replaced, d.Outcome)
			s.Turn.Enter(t0, d)
			require.Equal(t, "bob", turn.Runs[0].Agent)
			require.Equal(t, &[]string{"note"}, turn.Runs[0].NextModelStep(nil).Tools)
		})
	}
	t.Run("S2-25 a message failed that was to join a turn", func(t *testing.T) {
		s := newState()
		begin(t, s, "e1", "hello")
		p := says("e2", "and mind the gap")
		p.OnBusy = signals.Steer
		post(t, s, p)
		q, _ := s.Turn.NextSteered(t0)
		s.Turn.Join(t0, q, refuses("h", "no"))
		require.Equal(t, "e2", s.Failed[0].Item.ID)
		require.False(t, s.Failed[0].Hooked, "hooks are asked anew")
	})
}

// TestParentOfMadeItems: what was made of a reply or a result follows from that.
func TestParentOfMadeItems(t *testing.T) {
	s, r := called(t, runs("c1"))
	r.ApplyCallsDecision(t0, pass)
	r.Calls[0].CallRan(ToolReply{ToolCallID: "c1", Status: "succeeded"})
	r.Calls[0].ApplyResultDecision(t0, produces("p", hook.NewProduced("note.taken", 1)))
	require.Equal(t, "c1.result", s.Queue[0].Item.ParentEventID, "S2-41")

	s = newState()
	r = begin(t, s, "e1", "hello").Runs[0]
	reply(t, s, r, watch, "hi")
	r.ApplyReplyDecision(t0, answers("guard", "instead"))
	require.Equal(t, "e1.0.1", s.Queue[0].Item.ParentEventID, "S2-41")
	require.Equal(t, "e1", s.Queue[0].Item.TraceID, "S2-40")
}

func TestLifeOfMadeItem(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "hello"))
	s.Turn.Enter(t0, produces("p", hook.Produced{Type: "note.taken", Payload: json.RawMessage(`1`), TTL: math.MaxInt64}))
	s.Turn.End(t0)
	require.Equal(t, "note.taken", next(t, s).Item.Type, "a limit that no clock reaches is none")
}

func TestOrderOfMadeItems(t *testing.T) {
	t.Run("S0-20 in the order of the calls, ahead of equals from outside", func(t *testing.T) {
		s := newState()
		arrive(t, s, says("e1", "hello"))
		post(t, s, says("e2", "waits"))
		urgent := says("e3", "urgent")
		urgent.Priority = 1
		post(t, s, urgent)
		s.Turn.Enter(t0, responds("guard", hook.Response{Content: "1"}, hook.Response{Content: "2"}, hook.Response{Content: "3"}))
		require.Equal(t, []string{"urgent", "1", "2", "3", "waits"}, contents(t, s))
		s.Turn.End(t0)
		require.Equal(t, []string{"urgent", "1", "2", "3", "waits"}, contents(t, copied(t, s)))
	})
	t.Run("S0-20 of several events of one turn, in the order of the decisions", func(t *testing.T) {
		s, r := called(t, runs("c1"), runs("c2"))
		post(t, s, says("e2", "waits"))
		r.ApplyCallsDecision(t0, pass)
		for i, c := range r.Calls {
			c.CallRan(ToolReply{Status: "succeeded"})
			c.ApplyResultDecision(t0, answers("guard", fmt.Sprint(i+1)))
		}
		r.ToolsDone(t0)
		require.Equal(t, []string{"1", "2", "waits"}, contents(t, s))
	})
	t.Run("of what was made itself: behind what was made before, ahead of equals", func(t *testing.T) {
		s := newState()
		arrive(t, s, says("e1", "hello"))
		s.Turn.Enter(t0, responds("guard", hook.Response{Content: "1"}, hook.Response{Content: "2"}))
		s.Turn.End(t0)
		post(t, s, says("e2", "waits"))
		next(t, s)
		s.Turn.Enter(t0, answers("guard", "1.1"))
		s.Turn.End(t0)
		require.Equal(t, []string{"2", "1.1", "waits"}, contents(t, s))
	})
	t.Run("S2-65 the background waits for people", func(t *testing.T) {
		s := newState()
		for _, id := range []string{"e1", "e2"} {
			arrive(t, s, says(id, "hello"))
			s.Turn.Enter(t0, produces("p", hook.NewProduced(event.TypeEntityExtract, id), hook.Message(event.System, "p", id+" taken")))
			s.Turn.End(t0)
			next(t, s)
			s.Turn.Enter(t0, pass)
			s.Turn.End(t0)
		}
		post(t, s, says("e3", "urgent"))
		require.Equal(t, []string{"urgent", event.TypeEntityExtract, event.TypeEntityExtract}, contents(t, s))
		require.JSONEq(t, `"e1"`, string(s.Ordered()[1].Payload), "S2-38 ties in order of arrival")
	})
}

// TestBackgroundHoldsNobodyUp: a turn does not wait for it, and what follows from it is a
// turn of its own.
func TestBackgroundHoldsNobodyUp(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "hello"))
	s.Turn.Enter(t0, produces("p", hook.NewProduced(event.TypeEntityExtract, 1)))
	s.Turn.End(t0)
	require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status, "S2-15")
	require.Equal(t, []string{"e1.final"}, terminals(s))
	extract := next(t, s)
	s.Turn.Enter(t0, produces("q", hook.Message(event.System, "q", "found")))
	s.Turn.End(t0)
	require.True(t, s.Awaits(extract.Item.ID))
	require.False(t, s.Awaits("e1"))
	next(t, s)
	s.Turn.Enter(t0, pass)
	s.Turn.End(t0)
	require.Equal(t, signals.TurnCompleted, ended(t, s, extract.Item.ID).Status)
	require.Empty(t, s.Roots)
	require.Equal(t, 1, len(pending(s, event.TypeFinal))-1, "the background has an end of its own")
}

func TestDepthOfMadeItems(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "hello"))
	for depth := range 100 {
		s.Turn.Enter(t0, answers("echo", "again"))
		s.Turn.End(t0)
		if len(s.Queue) == 0 {
			require.Equal(t, maxDepth, depth)
			break
		}
		next(t, s)
	}
	out := ended(t, s, "e1")
	require.Equal(t, signals.TurnFailed, out.Status, "a hook that answers itself comes to an end")
	require.Contains(t, out.Error, "hook echo answers what hooks have made themselves")
	last := pending(s, event.TypeHook)
	rec := payload[event.Interception](t, last[len(last)-1])
	require.Equal(t, event.HookFailed, rec.Outcome)
	require.Equal(t, out.Error, rec.Error)
	require.Len(t, s.Failed, 1, "it can be retried")
	require.Empty(t, s.Roots)
}

func TestNumberOfMadeItems(t *testing.T) {
	many := make([]hook.Produced, maxDerived)
	for i := range many {
		many[i] = hook.NewProduced("note.taken", i)
	}
	s := newState()
	arrive(t, s, says("e1", "hello"))
	s.Turn.Enter(t0, produces("p", many...))
	s.Turn.End(t0)
	require.Len(t, s.Queue, maxDerived)
	next(t, s)
	s.Turn.Enter(t0, produces("p", many[0]))
	require.Len(t, s.Queue, maxDerived-1, "not one more, by whatever it was made of")
	s.Turn.End(t0)
	require.Contains(t, s.Failed[0].Item.Error, "have made 101 events of one")

	s = newState()
	arrive(t, s, says("e1", "hello"))
	s.Turn.Enter(t0, produces("p", append(many, many[0])...))
	require.Empty(t, s.Queue, "all or nothing")
	require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)
}

// TestNumberOfDeferredItems counts responses too that wait for the results of other calls.
func TestNumberOfDeferredItems(t *testing.T) {
	many := make([]hook.Response, maxDerived/2+1)
	for i := range many {
		many[i] = hook.Response{Content: "no"}
	}
	_, r := called(t, runs("c1"), runs("c2"))
	r.ApplyCallsDecision(t0, pass)
	for i, c := range r.Calls {
		c.CallRan(ToolReply{ToolCallID: c.Plan.ID, Status: "succeeded"})
		c.ApplyResultDecision(t0, responds("guard", many...))
		require.Len(t, r.Deferred, len(many), "after call %d", i)
	}
	require.Contains(t, r.Refused, "have made 102 events of one")
}

func TestSizeOfMadeItems(t *testing.T) {
	large := hook.NewProduced("note.taken", strings.Repeat("x", 200<<10))
	t.Run("the queue is bounded", func(t *testing.T) {
		s := newState()
		for s.queued()+len(large.Payload) < maxQueueBytes {
			arrive(t, s, says("", "hello"))
			s.Turn.Enter(t0, produces("p", large))
			require.Empty(t, s.Turn.Error)
			s.Turn.End(t0)
			s.Queue[0].Item.Priority = -len(s.Queue) // let it wait
		}
		arrive(t, s, says("e1", "hello"))
		s.Turn.Enter(t0, produces("p", large))
		require.Contains(t, s.Turn.End(t0).Error, "does not fit into the queue, which takes 768 KiB")
	})
	t.Run("so is what waits for tool results", func(t *testing.T) {
		s, r := called(t, runs("c1"), runs("c2"), runs("c3"), runs("c4"), runs("c5"))
		r.ApplyCallsDecision(t0, pass)
		for _, c := range r.Calls {
			c.CallRan(ToolReply{Status: "succeeded"})
			c.ApplyResultDecision(t0, answers("guard", strings.Repeat("x", 200<<10)))
		}
		require.Len(t, r.Deferred, 3)
		require.Contains(t, r.Refused, "does not fit into the queue")
		r.ToolsDone(t0)
		require.Len(t, s.Queue, 3)
		require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)
	})
	t.Run("and what is kept about turns that go on", func(t *testing.T) {
		s := newState()
		var err error
		for n := 0; err == nil && n < 10_000; n++ {
			var p Posted
			if p, err = s.Post(t0, says("", "hello")); err != nil {
				break
			}
			low := -1
			q, _ := s.Next(t0)
			require.Equal(t, p.EventID, q.Item.ID)
			s.Begin(t0, q)
			s.Turn.Enter(t0, produces("p", hook.Produced{Type: "note.taken", Payload: json.RawMessage(`1`), Priority: &low}))
			s.Turn.End(t0)
			s.Flushed(s.Flush())
		}
		require.ErrorIs(t, err, ErrFull)
		require.Less(t, len(asJSON(t, s.Carried())), 1<<20)
	})
}

// TestUnstorableEvents: what no store takes as a type would keep the thread from storing
// anything for ever.
func TestUnstorableEvents(t *testing.T) {
	for _, typ := range []string{"a\x00b", strings.Repeat("x", maxType+1)} {
		for name, d := range map[string]Decision{
			"produced": produces("p", hook.NewProduced(typ, 1)),
			"replaced": replaces("p", event.CustomEvent{Type: typ, ThreadID: "t1", Payload: json.RawMessage(`1`)}),
		} {
			t.Run(name, func(t *testing.T) {
				s := newState()
				arrive(t, s, says("e1", "hello"))
				s.Turn.Enter(t0, d)
				require.Empty(t, s.Queue)
				out := s.Turn.End(t0)
				require.Equal(t, signals.TurnFailed, out.Status)
				require.Contains(t, out.Error, "p has made an event of type")
				for _, r := range s.Pending {
					require.NotContains(t, r.Type, "\x00")
				}
			})
		}
	}
}
