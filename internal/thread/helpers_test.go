package thread

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newState(agents ...string) *State {
	return New("ns", "t1", signals.Start{Agents: agents}, t0)
}

// says is the post of a person's message.
func says(id, content string) signals.Post {
	return signals.NewPost(id, event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.User, Content: content})
}

func post(t *testing.T, s *State, p signals.Post) Posted {
	t.Helper()
	out, err := s.Post(t0, p)
	require.NoError(t, err)
	return out
}

// begin posts a message and begins its turn.
func begin(t *testing.T, s *State, id, content string) *Turn {
	t.Helper()
	post(t, s, says(id, content))
	item, ok := s.Next(t0)
	require.True(t, ok)
	return s.entered(t0, item)
}

// step takes the run's next model step and gives it a reply with these calls.
func step(t *testing.T, s *State, r *Run, content string, calls ...PlannedCall) ModelStep {
	t.Helper()
	in, ok := s.stepped(t0, r)
	require.True(t, ok)
	s.Flushed(in.Flush)
	name := r.Agent
	if name == "" {
		name = "assistant"
	}
	said := event.Message{SenderID: name, SenderType: event.Agent, AgentID: name, Content: content}
	s.took(t0, r, ModelReply{
		Agent: name, Model: "demo/demo", MaxSteps: 3, Calls: calls, Ended: in.Ends != "" && len(calls) == 0 && len(Answering(in.Agents, said)) == 0,
		Message: event.Message{ID: in.MessageID, ThreadID: "t1", SenderID: name, SenderType: event.Agent, Content: content, AgentID: name},
	})
	return in
}

func asks(id string) PlannedCall {
	return PlannedCall{ID: id, Name: "shell_cmd", NeedsApproval: true, Arguments: `{"command":"rm"}`, Reason: "it is a shell"}
}

func runs(id string) PlannedCall { return PlannedCall{ID: id, Name: "note"} }

// pending returns the records of a type that wait to be stored.
func pending(s *State, typ string) []event.Record {
	var out []event.Record
	for _, r := range s.Pending {
		if r.Type == typ {
			out = append(out, r)
		}
	}
	return out
}

func payload[T any](t *testing.T, r event.Record) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(r.Payload, &v))
	return v
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// copied is the state as another run of the workflow would begin with it.
func copied(t testing.TB, s *State) *State {
	t.Helper()
	var c State
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, s.Carried())), &c))
	return &c
}

func requireField(t *testing.T, field string, err error) {
	t.Helper()
	var f *event.FieldError
	require.ErrorAs(t, err, &f, "%v", err)
	require.Equal(t, field, f.Field)
	require.NotEmpty(t, f.Problem)
}

func ids(items []event.Item) []string {
	out := []string{}
	for _, it := range items {
		out = append(out, it.ID)
	}
	return out
}

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func name(i int) string { return fmt.Sprintf("e%d", i) }

var pass = Decision{Outcome: event.Passed, Silent: true, Unmatched: true}

// entered begins the turn of an item that no hook sees.
func (s *State) entered(now time.Time, q Queued) *Turn {
	t := s.Begin(now, q)
	s.Turn.Enter(now, pass)
	return t
}

// joined lets all messages join the turn that ask for it. It reports whether there
// were any.
func (s *State) joined(now time.Time) bool {
	any := false
	for q, ok := s.Turn.NextSteered(now); ok; q, ok = s.Turn.NextSteered(now) {
		s.Turn.Join(now, q, pass)
		any = true
	}
	return any
}

// stepped returns the input of a model call that no hook sees.
func (s *State) stepped(now time.Time, r *Run) (ModelStep, bool) {
	if r.AtLimit(now) {
		return ModelStep{}, false
	}
	s.joined(now)
	return r.NextModelStep(nil), true
}

// took takes in a reply that no hook sees.
func (s *State) took(now time.Time, r *Run, reply ModelReply) {
	r.Replied(now, reply)
	if r.Phase == PhaseReply {
		r.ApplyReplyDecision(now, pass)
	}
	if r.Phase == PhaseCalls {
		r.ApplyCallsDecision(now, pass)
	}
}

// ran takes in a result that no hook sees.
func (s *State) ran(now time.Time, r *Run, c *Call) {
	c.CallRan(ToolReply{ToolCallID: c.Plan.ID, Status: "succeeded"})
	c.ApplyResultDecision(now, pass)
}

// hookEvent is an environment event that a hook or processor makes.
func hookEvent(typ string) hook.Produced {
	p := hook.NewProduced(typ, 1)
	p.Metadata = &event.EnvMetadata{Source: event.SourceSystem}
	return p
}

// of makes a call one of the first run of the current turn.
func of(s *State, c *Call) *Call {
	c.run = s.Turn.Runs[0]
	return c
}

// bare are runs without their turn.
func bare(runs []*Run) (out []*Run) {
	for _, r := range runs {
		alone := *r
		alone.turn = nil
		out = append(out, &alone)
	}
	return out
}
