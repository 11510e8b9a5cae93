package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// decides is the decision of one hook.
func decides(name string, o event.Outcome) step.HookDecision {
	return step.HookDecision{Outcome: o, By: name, Hooks: []event.HookOutcome{{Name: name, Outcome: o, Attempts: 1}}}
}

func responds(name string, responses ...hook.Response) step.HookDecision {
	d := decides(name, event.OutcomeResponded)
	d.Responses = responses
	return d
}

// answers is a response that only says something.
func answers(name, content string) step.HookDecision {
	return responds(name, hook.Response{Content: content})
}

func produces(name string, produced ...hook.Produced) step.HookDecision {
	d := decides(name, event.OutcomeOverwritten)
	d.Produced = produced
	return d
}

func replaces(name string, e event.Event) step.HookDecision {
	d := decides(name, event.OutcomeReplaced)
	d.By, d.Event = "", rawJSON(e)
	return d
}

func refuses(name, why string) step.HookDecision {
	d := decides(name, event.OutcomeFailed)
	d.Error = why
	return d
}

// swallows is a processor in place of the default that makes nothing.
func swallows(name string) step.HookDecision {
	d := decides(name, event.OutcomePassed)
	d.NoDefault = true
	return d
}

// saying is a message as hooks see it.
func saying(by event.CreatedBy, sender, content string) event.MessageEvent {
	return event.MessageEvent{CreatedBy: by, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: sender, SenderType: by, Content: content}}
}

// calling are tool calls as hooks see them.
func calling(agent string, ids ...string) event.ToolCallEvent {
	e := event.ToolCallEvent{ThreadID: "t1", AgentName: agent, ToolCalls: []event.ToolCall{}}
	for _, id := range ids {
		e.ToolCalls = append(e.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "note", Arguments: `{"text":"edited"}`}})
	}
	return e
}

// arrive posts an event and begins its turn, which hooks have still to decide on.
func arrive(t *testing.T, s *State, p signals.Post) *Turn {
	t.Helper()
	post(t, s, p)
	return next(t, s)
}

// next begins the turn of the next event.
func next(t *testing.T, s *State) *Turn {
	t.Helper()
	q, ok := s.Inbox.Next(t0)
	require.True(t, ok, "nothing waits")
	return s.Turns.Begin(t0, q)
}

// watch is a hook that may see everything.
var watch = []hook.Spec{{Name: "watch", Kind: hook.KindFunc}}

// reply gives the run a reply on which hooks have still to decide.
func reply(t *testing.T, s *State, r *AgentRun, specs []hook.Spec, content string, calls ...step.PlannedCall) step.Model {
	t.Helper()
	require.False(t, r.AtLimit(t0))
	in := r.NextModelStep(specs)
	s.Outbox.Flushed(in.Flush)
	r.Replied(t0, step.ModelReply{
		Agent: "assistant", Model: "demo/demo", MaxSteps: 3, Calls: calls,
		Message: event.Message{
			ID: in.MessageID, ThreadID: "t1", SenderID: "assistant", SenderType: event.CreatedByAgent, Role: event.RoleAssistant,
			Content: content, AgentID: "assistant", ReplyToMessageID: in.ReplyTo,
		},
	})
	return in
}

// called is a run with calls on which hooks have still to decide.
func called(t *testing.T, calls ...step.PlannedCall) (*State, *AgentRun) {
	t.Helper()
	s := newState()
	r := begin(t, s, "e1", "go").Runs[0]
	reply(t, s, r, watch, "", calls...)
	require.Equal(t, PhaseCalls, r.Phase)
	s.Outbox.Flushed(s.Outbox.Flush())
	return s, r
}

// results are the results that wait to be stored, by their calls.
func results(t *testing.T, s *State) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, rec := range pending(s, event.TypeMessage) {
		if m := payload[event.Message](t, rec); m.ToolCallID != "" {
			require.NotContains(t, out, m.ToolCallID, "S4-71 one result for each call")
			require.True(t, m.IsError)
			require.Equal(t, recordid.Result(m.ToolCallID), rec.ID)
			out[m.ToolCallID] = m.Content
		}
	}
	return out
}

// heardOn is the record of a decision.
func heardOn(t *testing.T, s *State, id string) event.Interception {
	t.Helper()
	for _, rec := range pending(s, event.TypeHook) {
		if rec.ID == id {
			require.Equal(t, s.Turns.Current.Item.TraceID, rec.TraceID, "S2-40")
			return payload[event.Interception](t, rec)
		}
	}
	require.Fail(t, "there is no record "+id, "%v", recordIDs(s.Outbox.Pending))
	return event.Interception{}
}

// ended is how the turn of an event ended.
func ended(t *testing.T, s *State, id string) signals.TurnResult {
	t.Helper()
	out, known := s.Turns.Outcome(id)
	require.True(t, known, "the turn of %s has not ended", id)
	require.False(t, s.Turns.Awaits(id))
	return out
}

// terminals are the records that tell viewers of an end.
func terminals(s *State) []string {
	out := []string{}
	for _, r := range s.Outbox.Pending {
		if r.Type == event.TypeFinal || r.Type == event.TypeError {
			out = append(out, r.ID)
		}
	}
	return out
}
