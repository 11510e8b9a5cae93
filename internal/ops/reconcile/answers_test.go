package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// answering is a state with a turn of event e, which waits for call "waits", and whose other calls are on.
func answering() *thread.State {
	call := func(id string, stage thread.CallStage, votes ...event.Vote) *thread.Call {
		return &thread.Call{Plan: step.PlannedCall{ID: id}, Stage: stage, Votes: votes}
	}
	s := knows("e")
	s.Turns.Current = turnOf("e",
		call("waits", thread.CallWaiting, event.Vote{By: "bob"}), call("ready", thread.CallReady), call("client", thread.CallAtClient),
		call("delegated", thread.CallDelegated), call("again", thread.CallWaiting),
	)
	s.Turns.Parked = []*thread.Turn{turnOf("p", call("parked", thread.CallSettled))}
	s.Decisions.Settled = []thread.Settled{{Key: "settled"}, {Key: "again"}}
	s.Decisions.Early = []signals.Decide{{ToolCallID: "early", By: "ann"}}
	s.Decisions.ToCheck = []signals.Decide{{ToolCallID: "toCheck", By: "ann", Round: 2}}
	s.Decisions.Restored = &thread.Restored{
		Decisions: []signals.Decide{{ToolCallID: "told", By: "ann"}}, Results: []signals.ToolResult{{ToolCallID: "told"}},
		Inputs: []signals.InputAnswers{{ToolCallID: "told"}}, SubAgents: []signals.RestoredSubAgent{{ToolCallID: "told"}},
	}
	s.Children.SubAgents = []thread.SubAgent{{ThreadID: "t.s1"}}
	return s
}

// TestDecided: a decision that the workflow does not have is told again, and no decision is told twice: a second one would apply to
// the next request of the same call.
func TestDecided(t *testing.T) {
	tests := map[string]struct {
		made event.Approval
		want bool
	}{
		"a call that still waits":              {event.Approval{ToolCallID: "waits", By: "ann"}, false},
		"a vote that counts":                   {event.Approval{ToolCallID: "waits", By: "bob"}, true},
		"the vote counts for its round":        {event.Approval{ToolCallID: "waits", By: "bob", Round: 2}, false},
		"the first round has no number":        {event.Approval{ToolCallID: "waits", By: "bob", Round: 1}, true},
		"a call that goes on":                  {event.Approval{ToolCallID: "ready", By: "ann"}, true},
		"a call of a turn that waits":          {event.Approval{ToolCallID: "parked", By: "ann"}, true},
		"a call that was settled":              {event.Approval{ToolCallID: "settled", By: "ann"}, true},
		"settled once, and it waits again":     {event.Approval{ToolCallID: "again", By: "ann"}, false},
		"an early decision":                    {event.Approval{ToolCallID: "early", By: "ann"}, true},
		"an early one of somebody else":        {event.Approval{ToolCallID: "early", By: "bob"}, false},
		"one that is still checked":            {event.Approval{ToolCallID: "toCheck", By: "ann", Round: 2}, true},
		"one that an earlier repair told":      {event.Approval{ToolCallID: "told", By: "ann"}, true},
		"an unknown call":                      {event.Approval{ToolCallID: "new", By: "ann"}, false},
		"what expired was decided by nobody":   {event.Approval{ToolCallID: "new", Decision: event.DecisionExpired}, false},
		"what expired, of a call that goes on": {event.Approval{ToolCallID: "ready", Decision: event.DecisionExpired}, true},
	}
	known := answersOf(answering())
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, known.decided(tt.made)) })
	}
	t.Run("an expiry that an earlier repair told as its own denial", func(t *testing.T) {
		s := answering()
		s.Decisions.Early = []signals.Decide{{ToolCallID: "waits", By: repairer}}
		require.True(t, answersOf(s).decided(event.Approval{ToolCallID: "waits", Decision: event.DecisionExpired}))
		require.False(t, answersOf(s).decided(event.Approval{ToolCallID: "waits", Decision: event.DecisionApprove}))
	})
	t.Run("no workflow knows nothing", func(t *testing.T) {
		require.False(t, answersOf(nil).decided(event.Approval{ToolCallID: "waits", By: "bob"}))
	})
}

// TestLacks: what is told of a call depends on its stage or, of a call that the workflow has not made, on the step of its reply.
func TestLacks(t *testing.T) {
	known := answersOf(answering())
	t.Run("results of clients", func(t *testing.T) {
		for _, tt := range []struct {
			call, reply string
			want        bool
		}{
			{"client", "e.0.1", true},
			{"ready", "e.0.1", false},
			{"waits", "e.0.1", false},
			{"parked", "p.0.1", false},
			{"new", "e.0.1", false}, // the reply is known, and the call is no longer
			{"new", "e.0.2", true},
			{"new", "p.0.2", true},
			{"new", "other.0.1", true},
			{"new", "", true},
			{"new", "e.0.x", true},
		} {
			require.Equal(t, tt.want, known.lacksResult(event.Message{ToolCallID: tt.call, ReplyToMessageID: tt.reply}), "%+v", tt)
		}
	})
	t.Run("sub-agents", func(t *testing.T) {
		for _, tt := range []struct {
			call, reply string
			want        bool
		}{
			{"waits", "e.0.1", true},
			{"ready", "e.0.1", true},
			{"delegated", "e.0.1", false},
			{"parked", "p.0.1", false},
			{"told", "e.0.9", false},
			{"new", "e.0.1", false},
			{"new", "e.0.2", true},
		} {
			require.Equal(t, tt.want, known.lacksSub(tt.call, tt.reply), "%+v", tt)
		}
	})
	t.Run("no workflow lacks all", func(t *testing.T) {
		nothing := answersOf(nil)
		require.True(t, nothing.lacksResult(event.Message{ToolCallID: "client", ReplyToMessageID: "e.0.1"}))
		require.True(t, nothing.lacksSub("ready", "e.0.1"))
	})
}

func TestCutStep(t *testing.T) {
	for id, want := range map[string]struct {
		run  string
		step int
		ok   bool
	}{
		"e.0.1": {"e.0.0", 1, true}, "e~2.1.12": {"e~2.1.0", 12, true},
		"e": {}, "": {}, "e.0.x": {run: "e.0.0"}, "e.0.": {run: "e.0.0"},
	} {
		run, step, ok := cutStep(id)
		require.Equal(t, want.ok, ok, id)
		require.Equal(t, want.step, step, id)
		require.Equal(t, want.run, run, id)
	}
}
