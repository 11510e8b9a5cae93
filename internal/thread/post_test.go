package thread

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestPostRefused(t *testing.T) {
	message := func(raw string) signals.Post { return signals.Post{ID: "e1", Payload: json.RawMessage(raw)} }
	custom := func(change func(*signals.Post)) signals.Post {
		p := signals.Post{ID: "e1", Type: "file.changed", Payload: json.RawMessage(`{}`)}
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name  string
		post  signals.Post
		field string
	}{
		{"id with a dot", says("e.1", "x"), "id"},
		{"id too long", says(strings.Repeat("a", 129), "x"), "id"},
		{"S0-03 no payload", signals.Post{ID: "e1"}, "payload"},
		{"S0-03 payload null", message(`null`), "payload.threadId"},
		{"S0-03 payload not an object", message(`"hello"`), "payload"},
		{"unknown field", message(`{"threadId":"t1","senderId":"a","senderType":"user","content":"x","contnet":"y"}`), "payload.contnet"},
		{"S0-03 no threadId", message(`{"senderId":"a","senderType":"user","content":"x"}`), "payload.threadId"},
		{"S0-03 no senderId", message(`{"threadId":"t1","senderType":"user","content":"x"}`), "payload.senderId"},
		{"S0-03 no senderType", message(`{"threadId":"t1","senderId":"a","content":"x"}`), "payload.senderType"},
		{"S0-03 no content", message(`{"threadId":"t1","senderId":"a","senderType":"user"}`), "payload.content"},
		{"another thread", message(`{"threadId":"t2","senderId":"a","senderType":"user","content":"x"}`), "payload.threadId"},
		{"too large", message(`"` + strings.Repeat("x", signals.MaxPayload) + `"`), "payload"},
		{"ttl negative", custom(func(p *signals.Post) { p.TTL = -1 }), "ttl"},
		{"ttl beyond a duration", custom(func(p *signals.Post) { p.TTL = math.MaxInt64 }), "ttl"},
		{"onBusy unknown", custom(func(p *signals.Post) { p.OnBusy = "shout" }), "onBusy"},
		{"traceId that no store takes", custom(func(p *signals.Post) { p.TraceID = "a\x00b" }), "traceId"},
		{"parentEventId that no store takes", custom(func(p *signals.Post) { p.ParentEventID = "\xff" }), "parentEventId"},
		{"type too long", custom(func(p *signals.Post) { p.Type = strings.Repeat("x", 129) }), "type"},
		{"type that no store takes", custom(func(p *signals.Post) { p.Type = "a\x00" }), "type"},
		{"payload that is not JSON", custom(func(p *signals.Post) { p.Payload = json.RawMessage(`{`) }), "payload"},
		{"S2-02 token", custom(func(p *signals.Post) { p.Type = event.TypeToken }), "type"},
		{"reserved llm_call", custom(func(p *signals.Post) { p.Type = event.TypeLLMCall }), "type"},
		{"reserved tool_call", custom(func(p *signals.Post) { p.Type = event.TypeToolCall }), "type"},
		{"reserved approval_request", custom(func(p *signals.Post) { p.Type = event.TypeApprovalRequest }), "type"},
		{"reserved approval", custom(func(p *signals.Post) { p.Type = event.TypeApproval }), "type"},
		{"reserved status", custom(func(p *signals.Post) { p.Type = event.TypeStatus }), "type"},
		{"reserved final", custom(func(p *signals.Post) { p.Type = event.TypeFinal }), "type"},
		{"reserved error", custom(func(p *signals.Post) { p.Type = event.TypeError }), "type"},
		{"reserved rejected", custom(func(p *signals.Post) { p.Type = event.TypeRejected }), "type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			before := asJSON(t, s)
			_, err := s.Post(t0, tc.post)
			requireField(t, tc.field, err)
			require.ErrorIs(t, err, event.ErrInvalid)
			require.Equal(t, before, asJSON(t, s), "a refused post changes nothing")
		})
	}
}

func TestPostQueues(t *testing.T) {
	t.Run("S2-36 every field", func(t *testing.T) {
		s := newState()
		p := says("e1", "hello")
		p.Priority, p.TTL, p.ParentEventID, p.TraceID = 3, 500, "cause", "trace"
		require.Equal(t, Posted{EventID: "e1"}, post(t, s, p))
		require.Equal(t, event.Item{
			ID: "e1", ThreadID: "t1", Type: "message", Payload: p.Payload, Status: event.Pending, Priority: 3, TTL: 500,
			TraceID: "trace", ParentEventID: "cause", Namespace: "ns", CreatedAt: t0, UpdatedAt: t0,
		}, s.Queue[0].Item)
	})
	t.Run("S2-04 custom types, S2-40 the trace begins with the event", func(t *testing.T) {
		s := newState()
		for _, typ := range []string{"file.changed", "rag_ingest", "background_task.completed"} {
			post(t, s, signals.Post{ID: strings.ReplaceAll(typ, ".", "_"), Type: typ})
		}
		require.Len(t, s.Queue, 3)
		require.Equal(t, "file_changed", s.Queue[0].Item.TraceID)
	})
	t.Run("ids are derived: the same on replay, different for each post", func(t *testing.T) {
		one, two, other := newState(), newState(), New("ns", "t2", signals.Start{}, t0)
		a, b := post(t, one, says("", "x")).EventID, post(t, one, says("", "x")).EventID
		require.NotEqual(t, a, b)
		require.Len(t, a, 26)
		require.NoError(t, signals.CheckEventID("id", a))
		require.Equal(t, []string{a, b}, []string{post(t, two, says("", "x")).EventID, post(t, two, says("", "x")).EventID})
		raw := strings.ReplaceAll(string(says("", "x").Payload), `"t1"`, `"t2"`)
		require.NotEqual(t, a, post(t, other, signals.Post{Payload: json.RawMessage(raw)}).EventID)
	})
	t.Run("duplicates have no effect, even when they would be refused", func(t *testing.T) {
		s := newState()
		post(t, s, says("e1", "x"))
		before := asJSON(t, s)
		require.Equal(t, Posted{EventID: "e1", Duplicate: true}, post(t, s, says("e1", "y")))
		require.Equal(t, Posted{EventID: "e1", Duplicate: true}, post(t, s, signals.Post{ID: "e1", Type: event.TypeToken}))
		s = copied(t, s)
		require.Equal(t, Posted{EventID: "e1", Duplicate: true}, post(t, s, says("e1", "x")), "also in another run")
		require.Equal(t, before, asJSON(t, s))
	})
	t.Run("the memory of ids is bounded", func(t *testing.T) {
		s := newState()
		for i := range maxPostedIDs + 1 {
			post(t, s, says(name(i), "x"))
			_, ok := s.Next(t0)
			require.True(t, ok)
		}
		require.Len(t, s.PostedIDs, maxPostedIDs)
		require.False(t, s.WasPosted(name(0)))
		require.True(t, s.WasPosted(name(1)))
		require.True(t, s.WasPosted(name(maxPostedIDs)))
	})
}

func TestOnBusy(t *testing.T) {
	busy := func(t *testing.T) *State {
		s := newState()
		begin(t, s, "e1", "first")
		post(t, s, says("e2", "second"))
		return s
	}
	with := func(id string, b signals.OnBusy) signals.Post {
		p := says(id, "x")
		p.OnBusy = b
		return p
	}
	t.Run("enqueue", func(t *testing.T) {
		s := busy(t)
		require.Equal(t, Posted{EventID: "e3"}, post(t, s, with("e3", signals.Enqueue)))
		require.Equal(t, []string{"e2", "e3"}, ids(s.Ordered()))
	})
	t.Run("interrupt goes next", func(t *testing.T) {
		s := busy(t)
		require.Equal(t, Posted{EventID: "e3", Interrupt: true}, post(t, s, with("e3", signals.Interrupt)))
		require.Equal(t, []string{"e3", "e2"}, ids(s.Ordered()))
		item, ok := s.Next(t0)
		require.True(t, ok)
		require.Equal(t, "e3", item.Item.ID)
	})
	t.Run("interrupt of nothing waits its turn", func(t *testing.T) {
		s := newState()
		post(t, s, says("e1", "x"))
		require.Equal(t, Posted{EventID: "e2"}, post(t, s, with("e2", signals.Interrupt)))
		require.Equal(t, []string{"e1", "e2"}, ids(s.Ordered()))
	})
	t.Run("reject", func(t *testing.T) {
		s := busy(t)
		_, err := s.Post(t0, with("e3", signals.Reject))
		require.ErrorIs(t, err, ErrBusy)
		require.False(t, s.WasPosted("e3"))
		require.Equal(t, Posted{EventID: "e2", Duplicate: true}, post(t, s, with("e2", signals.Reject)), "a duplicate is not busy")
		require.NoError(t, s.CheckPost(with("e2", signals.Reject)))
		post(t, newState(), with("e3", signals.Reject))
	})
	t.Run("steer joins the turn before its next model call", func(t *testing.T) {
		s := busy(t)
		post(t, s, with("e3", signals.Steer))
		post(t, s, with("e4", signals.Steer))
		in, ok := s.stepped(t0, s.Turn.Runs[0])
		require.True(t, ok)
		require.Equal(t, []string{"e2"}, ids(s.Ordered()))
		require.Equal(t, "e4", in.ReplyTo)
		require.Equal(t, []string{"e3", "e4"}, s.Turn.Steered)
		var told []string
		for _, r := range in.Flush.Records {
			if r.Type == event.TypeMessage {
				told = append(told, r.ID)
				require.Equal(t, "e1", r.TraceID, "S2-40 one trace")
			}
		}
		require.Equal(t, []string{"e1", "e3", "e4"}, told)
		require.False(t, s.joined(t0), "there is nothing left to join")
	})
	t.Run("a steering message whose time is over does not join", func(t *testing.T) {
		s := busy(t)
		p := with("e3", signals.Steer)
		p.TTL = 1000
		post(t, s, p)
		require.False(t, s.joined(at(2)))
		out, known := s.Outcome("e3")
		require.True(t, known)
		require.Equal(t, signals.TurnExpired, out.Status, "S2-39")
	})
	t.Run("an outcome for each that joined", func(t *testing.T) {
		s := busy(t)
		post(t, s, with("e3", signals.Steer))
		step(t, s, s.Turn.Runs[0], "done")
		require.True(t, s.Awaits("e3"))
		s.Turn.End(t0)
		for _, id := range []string{"e1", "e3"} {
			out, known := s.Outcome(id)
			require.True(t, known)
			require.Equal(t, signals.TurnCompleted, out.Status)
			require.Equal(t, id, out.EventID)
			require.Equal(t, "done", out.Message.Content)
			require.False(t, s.Awaits(id))
		}
		require.True(t, s.Awaits("e2"))
	})
}

func TestQueueOrder(t *testing.T) {
	s := newState()
	for i, priority := range []int{0, 5, -1, 5, 0, 7} {
		p := says(name(i), "x")
		p.Priority = priority
		post(t, s, p)
	}
	want := []string{"e5", "e1", "e3", "e0", "e4", "e2"}
	require.Equal(t, want, ids(s.Ordered()), "S2-38")
	var got []string
	for {
		item, ok := s.Next(at(1))
		if !ok {
			break
		}
		require.Equal(t, event.Processing, item.Item.Status)
		require.Equal(t, at(1), item.Item.UpdatedAt)
		got = append(got, item.Item.ID)
	}
	require.Equal(t, want, got, "S2-38")
	require.Empty(t, s.Ordered())
}

func TestExpiry(t *testing.T) {
	s := newState()
	short, long, none := says("short", "x"), says("long", "x"), says("none", "x")
	short.TTL, long.TTL = 1000, 3000
	short.Priority = 9
	for _, p := range []signals.Post{short, long, none} {
		post(t, s, p)
	}
	item, ok := s.Next(at(2))
	require.True(t, ok)
	require.Equal(t, "long", item.Item.ID, "S2-39 the expired item is never processed, whatever its priority")
	records := pending(s, event.TypeStatus)
	last := payload[event.StatusChange](t, records[len(records)-1])
	require.Equal(t, "expired", last.Status)
	require.Contains(t, last.Detail, "short")
	out, known := s.Outcome("short")
	require.True(t, known)
	require.Equal(t, signals.TurnExpired, out.Status)
	require.Equal(t, []string{"none"}, ids(s.Ordered()))
	require.Empty(t, pending(s, event.TypeMessage), "S2-39 no agent is shown it")
}

func TestReject(t *testing.T) {
	s := newState()
	input := strings.Repeat("ü", maxAudit)
	s.Reject(t0, "post", input, errors.New(strings.Repeat("y", 5000)))
	s.Reject(t0, "post", make(chan int), errors.New("no JSON form"))
	records := pending(s, event.TypeRejected)
	require.Len(t, records, 2)
	require.NotEqual(t, records[0].ID, records[1].ID)
	audit := payload[event.Rejected](t, records[0])
	require.Equal(t, "post", audit.Signal)
	require.LessOrEqual(t, len(audit.Input), maxAudit)
	require.LessOrEqual(t, len(audit.Problem), maxAudit)
	require.True(t, utf8.ValidString(audit.Input))
	require.NotContains(t, audit.Input, "\ufffd")
}

func TestCheckStart(t *testing.T) {
	require.NoError(t, CheckStart(signals.Start{}))
	require.NoError(t, CheckStart(signals.Start{Agents: []string{"alice", "bob-2"}, Title: "A title", Metadata: json.RawMessage(`{}`)}))
	for field, start := range map[string]signals.Start{
		"agents[1]": {Agents: []string{"alice", ""}},
		"agents[0]": {Agents: []string{"a\x00"}},
		"agents":    {Agents: make([]string, signals.MaxAgents+1)},
		"title":     {Title: strings.Repeat("x", signals.MaxTitle+1)},
		"metadata":  {Metadata: json.RawMessage(`"` + strings.Repeat("x", signals.MaxPayload) + `"`)},
	} {
		requireField(t, field, CheckStart(start))
	}
}
