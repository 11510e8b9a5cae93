package thread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// atClient is a call that a connected client runs.
func atClient(id string) PlannedCall {
	return PlannedCall{ID: id, Name: "open_file", By: ByClient, Arguments: `{"path":"a.go"}`, ClientTime: time.Minute}
}

// clientCall is a turn with a call that a client was asked to run.
func clientCall(t *testing.T) (*State, *Run, *Call) {
	t.Helper()
	s, r := waiting(t, atClient("c1"))
	s.Flushed(s.Flush())
	r.Calls[0].AskClient(at(1))
	return s, r, r.Calls[0]
}

func TestClientIsAsked(t *testing.T) {
	s, _, c := clientCall(t)
	want := event.ClientCall{
		ToolCallID: "c1", ToolName: "open_file", Arguments: `{"path":"a.go"}`, Agent: "assistant", MessageID: "e1.0.1", RequestedAt: at(1), ExpiresAt: at(61),
	}
	require.Equal(t, AtClient, c.Stage)
	require.Equal(t, []string{"c1.client"}, recordIDs(s.Pending))
	require.Equal(t, want, payload[event.ClientCall](t, s.Pending[0]))
	require.Equal(t, []event.ClientCall{want}, copied(t, s).ClientCalls(), "S4-77 survives a new run")
	require.Empty(t, s.Approvals(), "nobody has to approve it")
	require.Contains(t, s.Details(), "waits for a client: `open_file` (c1)")
	require.Equal(t, []event.ClientCall{}, newState().ClientCalls(), "a list, also when it is empty")
	due, ok := s.NextDue()
	require.True(t, ok)
	require.Equal(t, at(61), due)
}

func TestClientAnswers(t *testing.T) {
	for name, isError := range map[string]bool{"a result": false, "an error": true} {
		t.Run(name, func(t *testing.T) {
			s, r, c := clientCall(t)
			res := signals.ToolResult{ToolCallID: "c1", Output: "package a", IsError: isError, By: "editor", Agent: "ASSISTANT", ToolName: "Open_File"}
			require.Equal(t, signals.Accepted, s.ToolResult(at(9), res))
			require.Equal(t, Ran, c.Stage, "hooks see it as any result")
			require.Equal(t, isError, c.Failed)
			require.Equal(t, event.Message{
				ID: "c1.result", ThreadID: "t1", SenderID: "open_file", SenderType: event.Tool, Role: event.RoleTool, Content: "package a",
				ToolCallID: "c1", ToolName: "open_file", IsError: isError, AgentID: "assistant", ReplyToMessageID: "e1.0.1",
				Metadata: map[string]any{"by": "editor"},
			}, payload[event.Message](t, pending(s, event.TypeMessage)[0]), "S4-95 who has run it is kept")
			require.Empty(t, s.ClientCalls())

			before := asJSON(t, s)
			require.Equal(t, signals.AlreadyResolved, s.ToolResult(at(10), res), "S4-94")
			other := res
			other.Output = "package b"
			require.Equal(t, signals.Conflict, s.ToolResult(at(10), other))
			other = res
			other.IsError = !isError
			require.Equal(t, signals.Conflict, s.ToolResult(at(10), other))
			require.Equal(t, before, asJSON(t, s))
			require.Equal(t, signals.Conflict, copied(t, s).ToolResult(at(10), other), "also in another run")

			c.ApplyResultDecision(at(10), pass)
			r.ToolsDone(at(10))
			require.Equal(t, PhaseModel, r.Phase)
			_, ok := s.NextDue()
			require.False(t, ok)
		})
	}
}

func TestClientAnswersChangeNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		res  signals.ToolResult
		want signals.DecideOutcome
	}{
		"S4-91 an unknown call":        {signals.ToolResult{ToolCallID: "c9", By: "editor"}, signals.NotPending},
		"a call that waits for people": {signals.ToolResult{ToolCallID: "c2", By: "editor"}, signals.NotPending},
		"a call that runs":             {signals.ToolResult{ToolCallID: "c3", By: "editor"}, signals.NotPending},
		"S4-92 another agent's":        {signals.ToolResult{ToolCallID: "c1", By: "editor", Agent: "bob"}, signals.Mismatch},
		"S4-92 by an agent":            {signals.ToolResult{ToolCallID: "c1", By: "Assistant "}, signals.NotAllowed},
		"another tool's":               {signals.ToolResult{ToolCallID: "c1", By: "editor", ToolName: "shell_cmd"}, signals.Mismatch},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := waiting(t, atClient("c1"), asks("c2"), runs("c3"))
			r.Calls[0].AskClient(t0)
			before := asJSON(t, s)
			require.Equal(t, tc.want, s.ToolResult(t0, tc.res))
			require.Equal(t, before, asJSON(t, s))
		})
	}
	require.Equal(t, signals.NotPending, newState().ToolResult(t0, signals.ToolResult{ToolCallID: "c1"}), "no turn")
}

// TestClientDecidesNothing: a call that waits for a client waits for no approval, and the
// other way round.
func TestClientDecidesNothing(t *testing.T) {
	s, _, _ := clientCall(t)
	require.Equal(t, signals.NotPending, s.Decide(t0, decision("c1", event.Approve)))
	require.Equal(t, signals.Accepted, s.ToolResult(t0, signals.ToolResult{ToolCallID: "c1", By: "editor"}))
	require.Equal(t, signals.NotPending, s.Decide(t0, decision("c1", event.Approve)))
}

func TestNoClientAnswers(t *testing.T) {
	s, _, c := clientCall(t)
	s.Release(at(60))
	require.Equal(t, AtClient, c.Stage, "it is not due yet")
	s = copied(t, s)
	r := s.Turn.Runs[0]
	s.Release(at(61))
	require.Equal(t, map[string]string{"c1": "Error: no client has answered the call within 1m0s"}, results(t, s))
	require.Equal(t, signals.Conflict, s.ToolResult(at(62), signals.ToolResult{ToolCallID: "c1", By: "editor"}), "too late")
	r.ToolsDone(at(62))
	require.Equal(t, PhaseModel, r.Phase, "S4-71 the model goes on")
	_, ok := s.NextDue()
	require.False(t, ok)
}

func TestInterruptWhileAClientRuns(t *testing.T) {
	s, r, _ := clientCall(t)
	s.Interrupt(signals.Control{})
	require.Empty(t, s.ClientCalls(), "it is not asked any more")
	_, ok := s.NextDue()
	require.False(t, ok)
	require.Equal(t, signals.NotPending, s.ToolResult(at(2), signals.ToolResult{ToolCallID: "c1", By: "editor"}))
	r.StopRun(at(2))
	require.Equal(t, map[string]string{"c1": InterruptedText}, results(t, s), "S4-71")
}

// TestClientRunsWhatWasApproved: with the arguments that were.
func TestClientRunsWhatWasApproved(t *testing.T) {
	p := atClient("c1")
	p.NeedsApproval, p.Ask = true, &AskPlan{}
	p.Guard = &Guard{Digest: "digest", Arguments: ArgumentsSum(p.Arguments)}
	s, r := waiting(t, p)
	c := r.Calls[0]
	require.Equal(t, Waiting, c.Stage)
	require.Empty(t, s.ClientCalls(), "no client is asked before")
	s.Decide(t0, decision("c1", event.Approve))
	require.True(t, c.Guarded())
	now := atClient("c1")
	now.Arguments = `{"path":"b.go"}`
	require.True(t, c.Guard(t0, now))
	c.AskClient(t0)
	require.JSONEq(t, `{"path":"b.go"}`, s.ClientCalls()[0].Arguments)
}
