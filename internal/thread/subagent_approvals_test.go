package thread

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// asksAbove is a thread that is asked about a call of its sub-agent.
func asksAbove(t *testing.T, change func(*event.ApprovalRequest)) *State {
	t.Helper()
	s, _, _ := delegated(t)
	ask := wants("t1.s1", "x1")
	if change != nil {
		change(&ask.Request)
	}
	s.SubAsked(ask)
	s.Flushed(s.Flush())
	return s
}

func below(by string, d event.Decision) signals.Decide {
	return signals.Decide{ToolCallID: "x1", Decision: d, By: by}
}

func passDown(t *testing.T, s *State, d signals.Decide) signals.DecideOutcome {
	t.Helper()
	return passDownAt(t, s, t0, d)
}

func passDownAt(t *testing.T, s *State, now time.Time, d signals.Decide) signals.DecideOutcome {
	t.Helper()
	id, out, err := s.ForwardDecision(now, d)
	require.NoError(t, err)
	require.Equal(t, "t1.s1", id)
	return out
}

func TestDecisionsArePassedDown(t *testing.T) {
	s := asksAbove(t, nil)
	require.Equal(t, signals.Accepted, passDown(t, s, below("ann", event.Approve)))
	require.Equal(t, signals.AlreadyResolved, passDown(t, s, below("bea", event.Approve)), "the first one is the only one that goes there")
	require.Equal(t, signals.Conflict, passDown(t, copied(t, s), below("bea", event.Deny)))
	_, out, err := s.ForwardDecision(t0, signals.Decide{ToolCallID: "x9", Decision: event.Deny, By: "ann"})
	require.NoError(t, err)
	require.Equal(t, signals.NotPending, out)

	s.DecisionNotForwarded("t1.s1", "x1")
	s.DecisionNotForwarded("t1.s9", "x1")
	require.Equal(t, signals.Accepted, passDown(t, s, below("bea", event.Deny)), "it did not get there")
}

// TestWrongDecisionsAreNotPassedDown: nobody there could tell who has made them, and the
// call waits for a right one.
// TestLongArgumentsBelow: what is kept cut here is compared where it is known whole.
func TestLongArgumentsBelow(t *testing.T) {
	long := `{"command":"` + strings.Repeat("x", maxRequestArguments) + `"}`
	s := asksAbove(t, func(q *event.ApprovalRequest) { q.Arguments = long })
	d := below("ann", event.Approve)
	d.ToolArgs = json.RawMessage(long)
	require.Equal(t, signals.Accepted, passDown(t, s, d))
}

func TestWrongDecisionsAreNotPassedDown(t *testing.T) {
	for name, tc := range map[string]struct {
		d    func(*signals.Decide)
		want signals.DecideOutcome
	}{
		"S4-92 another agent":           {func(d *signals.Decide) { d.Agent = "carol" }, signals.Mismatch},
		"another tool":                  {func(d *signals.Decide) { d.ToolName = "note" }, signals.Mismatch},
		"another round":                 {func(d *signals.Decide) { d.Round = 2 }, signals.Mismatch},
		"S4-93 other arguments":         {func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{"command":"ls"}`) }, signals.Mismatch},
		"arguments that cannot be read": {func(d *signals.Decide) { d.ToolArgs = json.RawMessage(`{`) }, signals.Mismatch},
		"the sub-agent":                 {func(d *signals.Decide) { d.By = "Bob" }, signals.NotAllowed},
		"the agent that asked it":       {func(d *signals.Decide) { d.By = "alice" }, signals.NotAllowed},
		"one who is not asked":          {func(d *signals.Decide) { d.By = "eve" }, signals.NotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			s := asksAbove(t, func(q *event.ApprovalRequest) { q.Approvers = []string{"ann", "Bob", "alice"} })
			before := asJSON(t, s)
			d := below("ann", event.Approve)
			tc.d(&d)
			require.Equal(t, tc.want, passDown(t, s, d))
			require.Equal(t, before, asJSON(t, s))
			d = below("ann", event.Approve)
			d.ToolArgs = json.RawMessage(` {"command":"rm"}`)
			require.Equal(t, signals.Accepted, passDown(t, s, d))
		})
	}
	for field, change := range map[string]func(*signals.Decide){
		"args":    func(d *signals.Decide) { d.Args = json.RawMessage(`{"command":"ls"}`) },
		"pattern": func(d *signals.Decide) { d.Scope, d.Pattern = event.Pattern, map[string]string{"command": "*"} },
	} {
		t.Run(field+" are decided on in the sub-agent's thread", func(t *testing.T) {
			s := asksAbove(t, nil)
			before := asJSON(t, s)
			d := below("ann", event.Approve)
			change(&d)
			_, _, err := s.ForwardDecision(t0, d)
			requireField(t, field, err)
			require.ErrorContains(t, err, "t1.s1", "it says where")
			require.Equal(t, before, asJSON(t, s))
		})
	}
}

// TestSeveralDecideBelow: each approval is passed on, once.
func TestSeveralDecideBelow(t *testing.T) {
	s := asksAbove(t, func(q *event.ApprovalRequest) { q.Quorum = 2 })
	require.True(t, s.NeedsSeveral("x1"))
	require.False(t, s.NeedsSeveral("x9"))
	require.Equal(t, signals.Accepted, passDown(t, s, below("ann", event.Approve)))
	require.Equal(t, signals.AlreadyResolved, passDown(t, s, below("ann", event.Approve)))
	require.Equal(t, signals.Accepted, passDown(t, s, below("bea", event.Approve)))
	s.DecisionNotForwarded("t1.s1", "x1")
	require.Equal(t, signals.Accepted, passDown(t, s, below("ann", event.Approve)), "it did not get there")
	require.Equal(t, signals.Accepted, passDown(t, s, below("cas", event.Deny)), "one denial denies")
	require.Equal(t, signals.AlreadyResolved, passDown(t, s, below("dan", event.Deny)))
	wide := below("eve", event.Approve)
	wide.Scope = event.Session
	_, _, err := s.ForwardDecision(t0, wide)
	requireField(t, "scope", err)
	s.SubDecided(t0, decided("t1.s1", "x1", event.Deny))
	require.False(t, s.NeedsSeveral("x1"))
}

// TestRoundsBelow: a call of a sub-agent may be asked about again, and people are reminded.
func TestRoundsBelow(t *testing.T) {
	s := asksAbove(t, nil)
	require.Equal(t, signals.Accepted, passDown(t, s, below("ann", event.Approve)))
	s.SubDecided(t0, decided("t1.s1", "x1", event.Approve))
	again := wants("t1.s1", "x1")
	again.Request.Round = 2
	s.SubAsked(again)
	s = copied(t, s)
	require.Equal(t, []string{"x1.decision", "x1.request.2"}, recordIDs(s.Pending))
	require.Equal(t, 2, s.Approvals()[0].Round)
	require.Equal(t, signals.Mismatch, passDown(t, s, below("ann", event.Approve)), "S4-94 the first decision once more")
	second := below("ann", event.Deny)
	second.Round = 2
	require.Equal(t, signals.Accepted, passDown(t, s, second), "what was passed on before is no matter")
	made := decided("t1.s1", "x1", event.Deny)
	made.Approval.Round = 2
	s.SubDecided(t0, made)
	require.Equal(t, []string{"x1.decision", "x1.request.2", "x1.decision.2"}, recordIDs(s.Pending))
	require.Equal(t, signals.Accepted, s.ForwardedOutcome(second))
	require.Equal(t, signals.Conflict, s.ForwardedOutcome(below("ann", event.Approve)))
}

func TestRemindersBelow(t *testing.T) {
	s := asksAbove(t, nil)
	s.Parent = &Parent{ThreadID: "t0", Depth: 1}
	remind := wants("t1.s1", "x1")
	remind.Request.Reminder = 1
	s.SubAsked(remind)
	require.Equal(t, []string{"x1.reminder.1"}, recordIDs(s.Pending))
	require.Len(t, s.Approvals(), 1, "it is one request")
	require.Len(t, s.Notices, 1, "also above")
	require.Equal(t, 1, s.Notices[0].Asks.Request.Reminder)
	remind.Request.ToolCallID = "x2"
	s.SubAsked(remind)
	require.Len(t, s.Pending, 1, "nobody is reminded of what does not wait")

	expired := decided("t1.s1", "x1", event.ApprovalExpired)
	s.SubDecided(t0, expired)
	require.Empty(t, s.Approvals())
	require.Equal(t, event.ApprovalExpired, approvals(t, s)["x1.decision"].Decision)
	require.Equal(t, signals.Conflict, s.ForwardedOutcome(below("ann", event.Approve)))
}

// TestRequestsAreToldAbove: each round and each reminder, with what they are to be listed by.
func TestRequestsAreToldAbove(t *testing.T) {
	s := newState("bob")
	s.Parent = &Parent{ThreadID: "t0", Depth: 1}
	r := begin(t, s, "e1", "go").Runs[0]
	step(t, s, r, "", careful("c1", "rm", AskPlan{Remind: 60e9, Listed: true}))
	s.Release(at(60))
	s.Decide(at(61), decision("c1", event.Approve))
	r.Calls[0].AskAgain(at(62), careful("c1", "rm", AskPlan{Expires: 60e9}))
	s.Release(at(122))
	var told []string
	for _, n := range s.Notices {
		if n.Asks != nil {
			told = append(told, event.RequestID(n.Asks.Request))
			require.Equal(t, n.Asks.Request.Round != 2, n.Asks.Listed)
			require.JSONEq(t, `{"command":"rm"}`, n.Asks.Request.Arguments, "people are shown what it is about")
			continue
		}
		told = append(told, event.DecisionID(n.Decided.ToolCallID, n.Decided.Approval.Round)+" "+string(n.Decided.Approval.Decision))
	}
	require.Equal(t, []string{"c1.request", "c1.reminder.1", "c1.decision approve", "c1.request.2", "c1.decision.2 expired"}, told)
}

// TestAgentsBelowDecideNothing: the thread above refuses those whom a thread below would,
// which could tell nobody.
func TestAgentsBelowDecideNothing(t *testing.T) {
	root, _, _ := delegated(t)
	root.Flushed(root.Flush())
	// s1 works for the root, and s1.s1 for s1.
	s1 := newState("bob", "Dora")
	begin(t, s1, "e1", "go").Runs[0].Agent = "eve"
	s1.ThreadID, s1.Parent = "t1.s1", &Parent{ThreadID: "t1", Agent: "alice", Depth: 1}
	s1.Subs = []Sub{{ThreadID: "t1.s1.s1"}}
	leaf := newState("carol")
	r := begin(t, leaf, "e1", "go").Runs[0]
	leaf.ThreadID, leaf.Parent = "t1.s1.s1", &Parent{ThreadID: "t1.s1", Agent: "bob", Depth: 2}
	step(t, leaf, r, "", careful("x1", "rm", AskPlan{}))

	s1.SubAsked(*copied(t, leaf).Notices[0].Asks)
	root.SubAsked(*copied(t, s1).Notices[0].Asks)
	root = copied(t, root)
	names := root.Subs[0].Agents
	require.Equal(t, []string{"carol", "bob", "Dora", "alice", "eve"}, names)
	before := asJSON(t, root)
	for _, by := range append(slices.Clone(names), " BOB", "dora") {
		t.Run("S4-92 "+by, func(t *testing.T) {
			require.True(t, s1.isAgent(by) || leaf.isAgent(by), "it is refused below")
			require.Equal(t, signals.NotAllowed, passDown(t, root, below(by, event.Deny)))
			require.Equal(t, before, asJSON(t, root))
		})
	}
	require.Equal(t, signals.Accepted, passDown(t, copied(t, root), below("ann", event.Approve)))
}

// TestRefusedBelow: what was refused there settles nothing, and does not keep others out for
// good.
func TestRefusedBelow(t *testing.T) {
	s := asksAbove(t, nil)
	require.Equal(t, signals.Accepted, passDown(t, s, below("dave", event.Approve)))
	require.Equal(t, signals.AlreadyResolved, passDownAt(t, s, at(9), below("ann", event.Approve)))
	require.Equal(t, signals.Conflict, passDownAt(t, s, at(9), below("ann", event.Deny)), "it may be on its way yet")
	s = copied(t, s)

	require.Equal(t, signals.Accepted, passDownAt(t, s, at(10), below("ann", event.Deny)))
	require.Equal(t, signals.AlreadyResolved, passDownAt(t, s, at(19), below("ann", event.Deny)), "counted from the last one")
	s.SubDecided(at(19), decided("t1.s1", "x1", event.Deny))
	require.Empty(t, s.Subs[0].ForwardedAt)

	s = asksAbove(t, func(q *event.ApprovalRequest) { q.Quorum = 2 })
	require.Equal(t, signals.Accepted, passDown(t, s, below("ann", event.Approve)))
	require.Equal(t, signals.Accepted, passDown(t, s, below("dave", event.Deny)))
	require.Equal(t, signals.AlreadyResolved, passDownAt(t, s, at(10), below("ann", event.Approve)), "a vote counts once, however long the others take")
	require.Equal(t, signals.Accepted, passDownAt(t, s, at(10), below("bea", event.Deny)))
}

// TestNamesOfAgentsBelow: only so many are kept.
func TestNamesOfAgentsBelow(t *testing.T) {
	s := asksAbove(t, nil)
	for n := range 3 * maxChildAgents {
		ask := wants("t1.s1", "x1")
		ask.Request.Reminder, ask.Agents = n+1, []string{"", name(n), name(n)}
		s.SubAsked(ask)
	}
	require.Len(t, s.Subs[0].Agents, maxChildAgents)
}
