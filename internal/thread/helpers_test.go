package thread

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newState(agents ...string) *State {
	return New("ns", "t1", signals.Start{Agents: agents}, t0, t0)
}

// says is the post of a person's message.
func says(id, content string) signals.Post {
	return signals.NewPost(id, event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: content})
}

// postAt reads a post and adds it to the queue.
func postAt(s *State, now time.Time, p signals.Post) (Posted, error) {
	read, err := s.ReadPost(p)
	if err != nil {
		return Posted{}, err
	}
	return s.Post(now, read)
}

func post(t *testing.T, s *State, p signals.Post) Posted {
	t.Helper()
	out, err := postAt(s, t0, p)
	require.NoError(t, err)
	return out
}

// begin posts a message and begins its turn.
func begin(t *testing.T, s *State, id, content string) *Turn {
	t.Helper()
	post(t, s, says(id, content))
	item, ok := s.next(t0)
	require.True(t, ok)
	return s.entered(t0, item)
}

// step takes the run's next model step and gives it a reply with these calls.
func takeStep(t *testing.T, s *State, r *AgentRun, content string, calls ...step.PlannedCall) step.Model {
	t.Helper()
	in, ok := s.stepped(t0, r)
	require.True(t, ok)
	s.Outbox.Flushed(in.Flush)
	name := r.Agent
	if name == "" {
		name = "assistant"
	}
	said := event.Message{SenderID: name, SenderType: event.CreatedByAgent, AgentID: name, Content: content}
	s.took(t0, r, step.ModelReply{
		Agent: name, Model: "demo/demo", MaxSteps: 3, Calls: calls, EndStored: in.Ends != "" && len(calls) == 0 && len(addressing.Answering(in.Agents, said)) == 0,
		Message: event.Message{ID: in.MessageID, ThreadID: "t1", SenderID: name, SenderType: event.CreatedByAgent, Content: content, AgentID: name},
	})
	return in
}

func asks(id string) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "shell_cmd", NeedsApproval: true, Arguments: `{"command":"rm"}`, Reason: "it is a shell"}
}

func runs(id string) step.PlannedCall { return step.PlannedCall{ID: id, Name: "note"} }

// pending returns the records of a type that wait to be stored.
func pending(s *State, typ string) []event.Record {
	var out []event.Record
	for _, r := range s.Outbox.Pending {
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

var pass = step.HookDecision{Outcome: event.OutcomePassed, Silent: true, Unmatched: true}

// entered begins the turn of an item that no hook sees.
func (s *State) entered(now time.Time, q Queued) *Turn {
	t := s.begin(now, q)
	s.Turns.Current.Enter(now, pass)
	return t
}

// joined lets all messages join the turn that ask for it. It reports whether there
// were any.
func (s *State) joined(now time.Time) bool {
	any := false
	for q, ok := s.Turns.Current.NextSteered(now); ok; q, ok = s.Turns.Current.NextSteered(now) {
		s.Turns.Current.Join(now, q, pass)
		any = true
	}
	return any
}

// stepped returns the input of a model call that no hook sees.
func (s *State) stepped(now time.Time, r *AgentRun) (step.Model, bool) {
	if r.AtLimit(now) {
		return step.Model{}, false
	}
	s.joined(now)
	return r.NextModelStep(nil), true
}

// took takes in a reply that no hook sees.
func (s *State) took(now time.Time, r *AgentRun, reply step.ModelReply) {
	r.Replied(now, reply)
	if r.Phase == PhaseReply {
		r.ApplyReplyDecision(now, pass)
	}
	if r.Phase == PhaseCalls {
		r.ApplyCallsDecision(now, pass)
	}
}

// ran takes in a result that no hook sees.
func (s *State) ran(now time.Time, r *AgentRun, c *Call) {
	c.CallRan(step.ToolReply{ToolCallID: c.Plan.ID, Status: "succeeded"})
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
	c.run = s.Turns.Current.Runs[0]
	return c
}

// careful is a call that people are asked about in these terms, and that is known by all
// that an approval is of.
func careful(id, command string, terms step.ApprovalPlan) step.PlannedCall {
	args := fmt.Sprintf(`{"command":%q}`, command)
	return step.PlannedCall{
		ID: id, Name: "shell_cmd", NeedsApproval: true, Arguments: args, Reason: "it is a shell", Approval: &terms,
		Guard: &step.Guard{Digest: "digest of " + command, Definition: "definition", WorkingDirectory: "/desk", Arguments: step.ArgumentsDigest(args)},
	}
}

// happens is the post of an environment event.
func happens(id, typ, payload string) signals.Post {
	return signals.EnvPost(event.EnvEvent{ID: id, Type: typ, Timestamp: happened, Payload: json.RawMessage(payload)})
}

func recordIDs(records []event.Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}

// saidBy is the post of somebody's message.
func saidBy(id string, by event.CreatedBy, sender, content string) signals.Post {
	return signals.NewPost(id, event.NewMessage{ThreadID: "t1", SenderID: sender, SenderType: by, Content: content})
}

func subCall(id string) *Call {
	return &Call{Stage: CallReady, Plan: step.PlannedCall{ID: id, Name: "call_agent", By: step.ByAgent, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it"}}}
}

// tasking is a thread whose agent is in its turn, with nothing left to store.
func tasking(t *testing.T) (*State, *AgentRun) {
	t.Helper()
	s := newState("alice")
	p := says("e1", "go")
	p.TraceID = "trace"
	arrive(t, s, p)
	s.Turns.Current.Enter(t0, pass)
	s.Outbox.Flushed(s.Outbox.Flush())
	r := s.Turns.Current.Runs[0]
	r.MessageID = "e1.0.1"
	return s, r
}

// atClient is a call that a connected client runs.
func atClient(id string) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "open_file", By: step.ByClient, Arguments: `{"path":"a.go"}`, ClientTime: time.Minute}
}

// covered is how a call is planned that was approved before, with another.
func covered(id, command, by string) step.PlannedCall {
	p := careful(id, command, step.ApprovalPlan{})
	p.NeedsApproval, p.Approval, p.Grant = false, nil, &step.GrantedCall{ID: by, Scope: event.ScopeSession, By: "ann"}
	return p
}

func decided(threadID, callID string, d event.Decision) step.SubAgentDecision {
	return step.SubAgentDecision{ThreadID: threadID, ToolCallID: callID, Approval: &event.Approval{
		ToolCallID: callID, ToolName: "shell_cmd", Agent: "bob", Decision: d, Scope: event.ScopeOnce, By: "ann", DecidedAt: t0,
	}}
}

// wants is a sub-agent's call that waits for approval.
func wants(threadID, callID string) step.SubAgentRequest {
	return step.SubAgentRequest{ThreadID: threadID, Request: event.ApprovalRequest{
		ToolCallID: callID, ToolName: "shell_cmd", Arguments: `{"command":"rm"}`, Agent: "bob", RequestedAt: t0,
	}}
}

func decision(id string, d event.Decision) signals.Decide {
	return signals.Decide{ToolCallID: id, Decision: d, By: "ann"}
}

func withEvent(outcomes []signals.TurnResult, id string) (out []signals.TurnResult) {
	for _, o := range outcomes {
		if o.EventID == id {
			out = append(out, o)
		}
	}
	return out
}

// woken is a rule that wakes an agent.
func woken(name string, events ...string) rule.Spec {
	return rule.Spec{Name: name, Events: events, Agent: &rule.Agent{}}
}

// routed posts an event and lets its rule begin to handle it.
func routed(t *testing.T, s *State, p signals.Post, rules ...rule.Spec) *Turn {
	t.Helper()
	turn := arrive(t, s, p)
	s.Turns.Current.Enter(t0, pass, rules...)
	return turn
}

// votes is a decision of somebody.
func votes(by string, d event.Decision) signals.Decide {
	return signals.Decide{ToolCallID: "c1", Decision: d, By: by, Reason: by + " says so"}
}

func waiting(t *testing.T, calls ...step.PlannedCall) (*State, *AgentRun) {
	t.Helper()
	s := newState()
	r := begin(t, s, "e1", "go").Runs[0]
	takeStep(t, s, r, "", calls...)
	return s, r
}

// wakes is a rule that has the thread's agent handle what happens.
var wakes = rule.Spec{Name: "w", Events: []string{"file.*"}, Agent: &rule.Agent{}}

// defaults are the rules that there are unless others come before them.
var defaults = (*rule.Set)(nil).Specs()

// happened is the time of the events of these tests, in milliseconds.
const happened = 1_700_000_000_000

// decideUnchecked applies a decision that needs no validation.
func (s *State) decideUnchecked(now time.Time, d signals.Decide) signals.DecideOutcome {
	return s.ReadDecision(d).Apply(now, step.CheckReply{}).Result
}
