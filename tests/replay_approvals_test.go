package tests

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// approvalLives are threads with decisions of people, and with several agents.
var approvalLives = map[string]func(l lived){
	"grants": liveGrants, "edited": liveEdited, "quorum": liveQuorum, "expires": liveExpires, "asksagain": liveAsksAgain,
	"client": liveClient, "parked": liveParked, "parkedmoved": liveParkedMoved, "debate": liveDebate, "participants": liveParticipants,
}

// newApprovalWorld builds the world of these lives.
func newApprovalWorld(t *testing.T, o harness.Options) *harness.Harness {
	t.Helper()
	o.Tools = []tool.Tool{tool.ClientSide(tool.Definition{Name: "confirm", Description: "Asks in the browser.", Deadline: time.Hour})}
	all := []string{"shell_cmd", "note", "confirm"}
	terms := func(name string, t approval.Terms) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: all, ApprovalTerms: t}
	}
	o.Agents = []agent.Agent{
		terms("assistant", approval.Terms{}),
		terms("careful", approval.Terms{Approvers: []string{"ann", "ben", "cleo"}, Quorum: 2}),
		terms("brief", approval.Terms{Remind: time.Second, Expires: 1500 * time.Millisecond}),
		terms("pro", approval.Terms{}), terms("con", approval.Terms{}),
	}
	o.Provider.Script = func(req llm.Request) string {
		for _, name := range []string{"pro", "con"} {
			if strings.Contains(req.Messages[len(req.Messages)-1].Content, "argue "+name) {
				return "say @" + name + " argue " + map[string]string{"pro": "con", "con": "pro"}[name]
			}
		}
		return ""
	}
	o.Configure = func(c *threadmill.Config) {
		c.TitleModel = "openai/stand-in"
		c.ApprovalRules = []approval.Rule{{
			Name: "never-delete", Tools: []string{"shell_cmd"}, When: `args.command.contains("rm ")`, Effect: approval.EffectDeny, Reason: "nothing is deleted",
		}}
	}
	return harness.New(t, o)
}

// recordApprovals runs these lives and stores their histories.
func recordApprovals(t *testing.T, o harness.Options) {
	for name, live := range approvalLives {
		w := newApprovalWorld(t, o)
		agents := []string{"assistant"}
		switch name {
		case "quorum":
			agents = []string{"careful"}
		case "expires":
			agents = []string{"brief"}
		case "debate":
			agents = []string{"pro", "con"}
		}
		id := w.Open(agents...)
		first := check.CurrentRun(w, id)
		live(lived{w, id})
		check.Settle(w, id)
		storeRuns(t, w, id, first, name)
	}
}

func (l lived) decide(want signals.DecideOutcome, d signals.Decide) {
	l.T.Helper()
	if d.By == "" {
		d.By = "ann"
	}
	out, err := l.Threads.Decide(l.Ctx(), l.id, d)
	require.NoError(l.T, check.Unrefused(err))
	require.Equal(l.T, want, out.Result)
}

const echo = `use shell_cmd {"command":"echo hello"}`

// liveGrants grants a call for the session, which covers a pending call and the next ones until it
// is revoked. A rule denies one call.
func liveGrants(l lived) {
	posted := l.Post(l.id, echo+"\n"+echo+"\n"+`use shell_cmd {"command":"rm -r x"}`)
	call := l.AwaitApproval(l.id, 2)[0]
	l.decide(signals.DecideAccepted, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, Scope: event.ScopeSession})
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
	l.say(echo)
	_, err := l.Threads.Revoke(l.Ctx(), l.id, signals.Revoke{ToolCallID: call.ToolCallID, By: "ann"})
	require.NoError(l.T, err)
	posted = l.Post(l.id, echo)
	call = l.AwaitApproval(l.id, 1)[0]
	require.NoError(l.T, l.Temporal.SignalWorkflow(l.Ctx(), signals.WorkflowID(l.TaskQueue, l.id), "", signals.SignalDecide,
		signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, Scope: event.ScopePattern, Pattern: map[string]string{"command": "echo *"}, By: "ann"}))
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
	l.say(`use shell_cmd {"command":"echo more"}`)
}

// liveEdited approves calls with other arguments, one of them invalid.
func liveEdited(l lived) {
	posted := l.Post(l.id, echo)
	call := l.AwaitApproval(l.id, 1)[0]
	_, err := l.Threads.Decide(l.Ctx(), l.id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, Args: json.RawMessage(`{"nonsense":1}`), By: "ann"})
	require.Error(l.T, err)
	l.decide(signals.DecideAccepted, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, Args: json.RawMessage(`{"command":"echo other"}`)})
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
}

func liveQuorum(l lived) {
	posted := l.Post(l.id, echo)
	call := l.AwaitApproval(l.id, 1)[0]
	for _, by := range []string{"ann", "ben"} {
		l.decide(signals.DecideAccepted, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: by})
	}
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
}

func liveExpires(l lived) {
	require.Equal(l.T, signals.TurnCompleted, l.Say(l.id, echo).Status)
}

// liveAsksAgain revokes an approval before its call runs, if that is in time.
func liveAsksAgain(l lived) {
	posted := l.Post(l.id, echo)
	call := l.AwaitApproval(l.id, 1)[0]
	settled := func() bool {
		out, err := l.Threads.State(l.Ctx(), l.id)
		return err == nil && out.Status == signals.ThreadIdle
	}
	workflowID := signals.WorkflowID(l.TaskQueue, l.id)
	for name, payload := range map[string]any{
		signals.SignalDecide: signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"},
		signals.SignalRevoke: signals.Revoke{ToolCallID: call.ToolCallID, By: "ann"},
	} {
		require.NoError(l.T, l.Temporal.SignalWorkflow(l.Ctx(), workflowID, "", name, payload))
	}
	require.Eventually(l.T, func() bool {
		out, err := l.Threads.Approvals(l.Ctx(), l.id)
		for _, q := range out.Approvals {
			_, _ = l.Threads.Decide(l.Ctx(), l.id, signals.Decide{ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, By: "ann", Round: q.Round})
		}
		return err == nil && settled()
	}, testenv.Patience, testenv.Tick)
	l.Await(l.id, posted)
}

func liveClient(l lived) {
	posted := l.Post(l.id, "use confirm {}")
	require.Eventually(l.T, func() bool {
		out, err := l.Threads.Approvals(l.Ctx(), l.id)
		if err != nil || len(out.ClientCalls) != 1 {
			return false
		}
		return l.Temporal.SignalWorkflow(l.Ctx(), signals.WorkflowID(l.TaskQueue, l.id), "", signals.SignalToolResult,
			signals.ToolResult{ToolCallID: out.ClientCalls[0].ToolCallID, Output: "yes", By: "browser"}) == nil
	}, testenv.Patience, testenv.Tick)
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
}

// liveParked handles an event while a call waits.
func liveParked(l lived) {
	posted := l.Post(l.id, echo)
	call := l.AwaitApproval(l.id, 1)[0]
	require.Equal(l.T, signals.TurnCompleted, l.turn("e1", "file.changed", `{"path":"a.go"}`).Status)
	l.decide(signals.DecideAccepted, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove})
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
}

// liveParkedMoved continues as new while a turn is set aside.
func liveParkedMoved(l lived) {
	posted := l.Post(l.id, echo)
	call := l.AwaitApproval(l.id, 1)[0]
	first := check.CurrentRun(l.Harness, l.id)
	for n := 0; check.CurrentRun(l.Harness, l.id) == first; n++ {
		l.turn("e"+strings.Repeat("x", n), "file.changed", `{}`)
	}
	l.decide(signals.DecideAccepted, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionDeny})
	l.Await(l.id, posted)
}

// liveDebate lets two agents talk up to the turn limit.
func liveDebate(l lived) {
	l.say("@pro argue pro")
	l.say("@con hello")
}

func liveParticipants(l lived) {
	for _, c := range []signals.ThreadChange{
		{AddAgents: []string{"pro", "con"}, TurnLimit: 2, By: "ann"}, {RemoveAgents: []string{"con"}, By: "ann"},
	} {
		_, err := l.Threads.Update(l.Ctx(), l.id, c)
		require.NoError(l.T, err)
		l.say("@pro hello")
	}
}
