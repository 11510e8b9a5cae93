package thread

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func subCall(id string) *Call {
	return &Call{Stage: Ready, Plan: PlannedCall{ID: id, Name: "call_agent", By: ByAgent, Sub: &SubPlan{Agent: "bob", Message: "do it"}}}
}

// subTask is a call of a sub-agent that works in the background.
func subTask(id string) *Call {
	c := subCall(id)
	c.Plan.Name, c.Plan.By, c.Plan.Task = "task", ByTask, &TaskPlan{Deadline: time.Hour}
	return c
}

// delegated is a thread that waits for a sub-agent, which is in another.
func delegated(t *testing.T) (s *State, r *Run, c *Call) {
	t.Helper()
	s, r = tasking(t)
	c = of(s, subCall("c1"))
	r.Phase, r.Calls = PhaseTools, []*Call{c}
	c.Delegate()
	return s, r, c
}

// subOf is the state of a sub-agent's thread as it begins.
func subOf(t *testing.T, threadID string, start DelegateStart) *State {
	t.Helper()
	s := New("ns", threadID, start.Start, t0)
	s.Parent = start.Parent
	_, err := s.Post(t0, *start.First)
	require.NoError(t, err)
	return s
}

// wants is a sub-agent's call that waits for approval.
func wants(threadID, callID string) SubAsks {
	return SubAsks{ThreadID: threadID, Request: event.ApprovalRequest{
		ToolCallID: callID, ToolName: "shell_cmd", Arguments: `{"command":"rm"}`, Agent: "bob", RequestedAt: t0,
	}}
}

func decided(threadID, callID string, d event.Decision) SubDecided {
	return SubDecided{ThreadID: threadID, ToolCallID: callID, Approval: &event.Approval{
		ToolCallID: callID, ToolName: "shell_cmd", Agent: "bob", Decision: d, Scope: event.Once, By: "ann", DecidedAt: t0,
	}}
}

func TestDelegate(t *testing.T) {
	s, r := tasking(t)
	tools := []string{"note"}
	s.Turn.Tools = &tools
	r.MaxSteps, r.Step = 10, 3
	c := of(s, subCall("c1"))
	id, start := c.Delegate()
	require.Equal(t, "t1.s1", id)
	require.NoError(t, signals.CheckID("threadId", id))
	require.Equal(t, &Parent{
		ThreadID: "t1", Agent: "alice", ToolName: "call_agent", ToolCallID: "c1", MessageID: "e1.0.1",
		TraceID: "trace", EventID: "e1", Depth: 1, MaxSteps: 7,
	}, start.Parent)
	require.NoError(t, CheckStart(start.Start))
	require.Equal(t, []string{"bob"}, start.Agents)
	require.Equal(t, "bob for alice", start.Title)
	require.JSONEq(t, `{"parentThreadId":"t1","parentToolCallId":"c1"}`, string(start.Metadata))
	require.Equal(t, "trace", start.First.TraceID, "S1-38")
	require.Equal(t, &tools, start.First.Tools, "it may do no more than who asks it")

	sub := subOf(t, id, start)
	require.Equal(t, sub.FirstID(), start.First.ID)
	turn := next(t, sub)
	sub.Turn.Enter(t0, pass)
	require.Equal(t, []*Run{{Agent: "bob", Phase: PhaseModel, ReplyTo: sub.FirstID()}}, bare(turn.Runs))
	require.Equal(t, "do it", sub.itemMessage(turn.Item).Content)
	require.Equal(t, "alice", sub.itemMessage(turn.Item).SenderID)
	require.Equal(t, "t1", sub.View().Parent)
	require.Equal(t, start.Parent, turn.Runs[0].NextModelStep(nil).Parent, "S1-28 those who watch the thread above see what it says")

	require.Equal(t, Delegated, c.Stage)
	require.Equal(t, []Sub{{ThreadID: "t1.s1", ToolCallID: "c1"}}, s.Subs)
	r.Phase, r.Calls = PhaseTools, []*Call{c}
	state := s.View().Turn.Runs[0]
	require.Equal(t, []string{"t1.s1"}, state.Threads)
	require.Equal(t, "tools", state.Doing)
	again, _ := of(s, subCall("c2")).Delegate()
	require.Equal(t, "t1.s2", again, "no thread is asked twice")
}

// TestWhatASubAgentIsAsked: what a call may ask arrives. What does not would be waited for
// in vain.
func TestWhatASubAgentIsAsked(t *testing.T) {
	for name, message := range map[string]string{
		"plain": "do it", "long": strings.Repeat("x", 128<<10), "markup": strings.Repeat("<", 128<<10/6),
		"control characters": strings.Repeat("\x01", 128<<10/6-1) + "x", "NUL": "a\x00b", "not UTF-8": "a\xffb",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := tasking(t)
			c := of(s, subCall("c1"))
			c.Plan.Sub.Message = message
			id, start := c.Delegate()
			require.NoError(t, signals.CheckPost(id, *start.First))
		})
	}
}

func TestBoundsOnSubAgents(t *testing.T) {
	s, _ := tasking(t)
	for i := range maxSubsInTurn {
		require.Empty(t, s.Turn.CheckDelegate())
		id, _ := of(s, subCall(name(i))).Delegate()
		if len(s.Subs) == maxSubs {
			require.Equal(t, "Error: 10 sub-agents work for this thread, the limit. Wait for one of them.", s.Turn.CheckDelegate())
		}
		if i >= maxSubs-1 {
			s.ForgetSub(id)
		}
	}
	s.Subs = nil
	require.Equal(t, "Error: 50 sub-agents were asked in this turn, the limit.", s.Turn.CheckDelegate())
	require.NotEmpty(t, copied(t, s).Turn.CheckDelegate(), "also in the next run of the workflow")
	s.Turn.Delegated = 0
	require.Empty(t, s.Turn.CheckDelegate(), "another turn may ask others")

	for depth := 1; depth <= maxSubDepth; depth++ {
		require.Empty(t, s.Turn.CheckDelegate(), depth)
		id, start := of(s, subCall("c1")).Delegate()
		require.Equal(t, depth, start.Parent.Depth)
		s = subOf(t, id, start)
		next(t, s)
		s.Turn.Enter(t0, pass)
		_ = s.Turn.Runs[0]
	}
	require.Equal(t, signals.SubThreadID("ns", "t1", 51)+".s1.s1.s1.s1", s.ThreadID)
	require.Equal(t, "Error: 5 agents work for one another in a row, the limit. Do it yourself.", s.Turn.CheckDelegate())
}

// TestStepsOfSubAgents: a sub-agent has no more than is left to the one that asked it.
func TestStepsOfSubAgents(t *testing.T) {
	for _, tc := range []struct{ limit, step, own, want int }{
		{0, 0, 25, 25},  // who asks has not answered yet: its limit is not known
		{25, 1, 25, 24}, // less than its own
		{25, 1, 5, 5},   // no more than its own
		{3, 3, 25, 1},   // at least one
	} {
		s, r := tasking(t)
		r.MaxSteps, r.Step = tc.limit, tc.step
		id, start := of(s, subCall("c1")).Delegate()
		sub := subOf(t, id, start)
		next(t, sub)
		sub.Turn.Enter(t0, pass)
		run := sub.Turn.Runs[0]
		in := run.NextModelStep(nil)
		run.Replied(t0, ModelReply{Agent: "bob", MaxSteps: tc.own, Message: event.Message{ID: in.MessageID}, Calls: []PlannedCall{runs("c2")}})
		require.Equal(t, tc.want, run.MaxSteps, "%+v", tc)
	}
}

// TestSubAgentEnds: by itself, or in a run before this one, which hears of it by signal.
func TestSubAgentEnds(t *testing.T) {
	usage := event.Usage{InputTokens: 3, OutputTokens: 4}
	t.Run("it answers", func(t *testing.T) {
		s, _, c := delegated(t)
		c.SubAgentReplied(DelegateReply{Status: signals.TurnCompleted, Usage: usage})
		require.Equal(t, Ran, c.Stage)
		require.False(t, c.Failed)
		require.Equal(t, usage, s.Usage, "its tokens count")
		require.Empty(t, s.Subs)
		require.Empty(t, pending(s, event.TypeMessage), "it has stored the result itself")
		require.Equal(t, event.Tool, c.ResultEvent().CreatedBy, "hooks see it as any result")
	})
	t.Run("it fails", func(t *testing.T) {
		_, _, c := delegated(t)
		c.SubAgentReplied(DelegateReply{Failed: true})
		require.True(t, c.Failed)
	})
	t.Run("it is lost", func(t *testing.T) {
		s, _, c := delegated(t)
		c.SubLost(t0, strings.Repeat("terminated ", 1000))
		require.Equal(t, Ran, c.Stage)
		require.True(t, c.Failed)
		require.Empty(t, s.Subs)
		got := results(t, s)["c1"]
		require.True(t, strings.HasPrefix(got, "Error: the sub-agent ended without an answer: terminated"), got)
		require.Less(t, len(got), maxWhy+10)
	})
	t.Run("its report comes by signal", func(t *testing.T) {
		s, _, _ := delegated(t)
		s.SubReportRequested("t1.s1")
		s = copied(t, s)
		require.True(t, s.Subs[0].ReportRequested)
		_, _, ended := s.SubEnd("t1.s1")
		require.False(t, ended)
		s.SubEnded(t0, SubEnded{ThreadID: "t1.s1", DelegateReply: DelegateReply{Usage: usage}})
		c := s.Turn.Runs[0].Calls[0]
		require.Equal(t, Delegated, c.Stage, "the run takes it in")
		reply, _, ended := s.SubEnd("t1.s1")
		require.True(t, ended)
		c.SubAgentReplied(*reply)
		require.Equal(t, usage, s.Usage)
		s.SubEnded(t0, SubEnded{ThreadID: "t1.s1", DelegateReply: DelegateReply{Usage: usage}})
		require.Equal(t, usage, s.Usage, "once, however often it reports")
	})
	t.Run("nobody waits for it any more", func(t *testing.T) {
		s, r, c := delegated(t)
		s.Interrupt(signals.Control{Action: signals.ControlInterrupt})
		r.StopRun(t0)
		require.Equal(t, map[string]string{"c1": InterruptedText}, results(t, s), "S4-71")
		require.Equal(t, CallSettled, c.Stage)
		require.Equal(t, []string{"t1.s1"}, s.Turn.StopSubs())
		require.Empty(t, s.Turn.StopSubs())
		s.SubEnded(t0, SubEnded{ThreadID: "t1.s1", DelegateReply: DelegateReply{Usage: usage}})
		require.Empty(t, s.Subs)
		require.Equal(t, signals.TurnInterrupted, s.Turn.End(t0).Status)
	})
}

func TestSubAgentInTheBackground(t *testing.T) {
	s, r := tasking(t)
	r.MaxSteps, r.Step = 10, 9
	c := of(s, subTask("c1"))
	in, start := c.DelegateTask(at(5))
	task := event.Task{
		ID: "t1~t1", Title: "bob for alice", State: event.TaskRunning, Agent: "alice", ToolCallID: "c1", TraceID: "trace",
		SubAgent: "bob", ThreadID: "t1.s1", StartedAt: at(5), Deadline: at(3605),
	}
	require.Equal(t, task, in.Task)
	require.Equal(t, &task, start.Parent.Background)
	require.Zero(t, start.Parent.MaxSteps, "it has its own limit: nobody waits for it")
	require.Equal(t, []Sub{{ThreadID: "t1.s1", TaskID: "t1~t1"}}, s.Subs)
	c.TaskStarted(at(5), in.Task)
	s.Flushed(s.Flush())

	require.Empty(t, s.Turn.StopSubs(), "it goes on when the turn is interrupted")
	s = copied(t, s)
	for range 2 {
		s.SubEnded(at(60), SubEnded{ThreadID: "t1.s1", DelegateReply: DelegateReply{Result: json.RawMessage(`"done"`), Usage: event.Usage{InputTokens: 3}}})
	}
	require.Empty(t, s.Subs)
	require.Empty(t, s.Tasks)
	require.Equal(t, event.TaskCompleted, s.TasksEnded[0].State)
	require.Equal(t, 3, s.Usage.InputTokens)
	require.Len(t, s.Queue, 1, "S3-02 its agent is told once")
	require.JSONEq(t, `{"taskId":"t1~t1","title":"bob for alice","result":"done"}`, string(envs(s)[0].Payload))

	s, _ = tasking(t)
	of(s, subTask("c1")).DelegateTask(t0)
	s.SubEnded(t0, SubEnded{ThreadID: "t1.s1", DelegateReply: DelegateReply{Error: "no"}})
	require.Equal(t, event.TaskFailed, s.TasksEnded[0].State)
}

// TestSubAgentThatCouldNotBeStarted: it takes no place from others.
func TestSubAgentThatCouldNotBeStarted(t *testing.T) {
	s, _ := tasking(t)
	c := of(s, subTask("c1"))
	in, _ := c.DelegateTask(t0)
	c.TaskNotStarted(t0, in.Task, "there is such a thread already")
	require.Empty(t, s.Subs)
	require.Empty(t, s.Tasks)
}

// TestSubAgentAsksPeople: who decides does so in the thread above, or above that.
func TestSubAgentAsksPeople(t *testing.T) {
	s, _, _ := delegated(t)
	s.Flushed(s.Flush())
	for range 2 {
		s.SubAsked(wants("t1.s1", "x1"))
	}
	require.Equal(t, []string{"x1.request"}, recordIDs(s.Pending), "once, however often it is told")
	require.Equal(t, "trace", s.Pending[0].TraceID)
	require.Equal(t, "c1", s.Pending[0].ParentEventID)
	require.Equal(t, []event.ApprovalRequest{wants("t1.s1", "x1").Request}, s.Approvals())
	require.Equal(t, signals.WaitingApproval, s.View().Status)
	s = copied(t, s)
	id, ask, ok := s.ChildRequest("x1")
	require.True(t, ok)
	require.Equal(t, "t1.s1", id)
	require.Equal(t, "bob", ask.Agent)
	_, _, ok = s.ChildRequest("c1")
	require.False(t, ok)
	require.Equal(t, signals.NotPending, s.ForwardedOutcome(signals.Decide{ToolCallID: "x1", Decision: event.Approve}))

	for range 2 {
		s.SubDecided(at(9), decided("t1.s1", "x1", event.Approve))
	}
	require.Equal(t, []string{"x1.request", "x1.decision"}, recordIDs(s.Pending))
	require.Empty(t, s.Approvals())
	require.Equal(t, signals.Accepted, s.ForwardedOutcome(signals.Decide{ToolCallID: "x1", Decision: event.Approve}))
	require.Equal(t, signals.Conflict, s.ForwardedOutcome(signals.Decide{ToolCallID: "x1", Decision: event.Deny}))
	require.Empty(t, s.Notices, "there is nobody above")

	s.SubAsked(wants("t1.s1", "x2"))
	s.SubDecided(at(9), SubDecided{ThreadID: "t1.s1", ToolCallID: "x2"})
	require.Empty(t, s.Approvals())
	require.Len(t, pending(s, event.TypeApproval), 1, "nobody has decided")
	require.Equal(t, signals.Conflict, s.ForwardedOutcome(signals.Decide{ToolCallID: "x2", Decision: event.Deny}))

	s.SubAsked(wants("t1.s9", "x3"))
	s.SubDecided(at(9), decided("t1.s9", "x3", event.Deny))
	require.Empty(t, s.Approvals(), "it is no sub-agent of this thread")
}

func TestNotesForTheThreadAbove(t *testing.T) {
	s, _, c := delegated(t)
	s.Parent = &Parent{ThreadID: "t0", Depth: 1}
	other := of(s, subCall("c2"))
	other.Delegate()
	s.SubAsked(wants("t1.s1", "x1"))
	s.SubAsked(wants("t1.s2", "x2"))
	s.SubAsked(wants("t1.s1", "x3"))
	s.SubDecided(t0, decided("t1.s1", "x1", event.Deny))
	c.SubAgentReplied(DelegateReply{})
	s = copied(t, s)
	tell := func(asks, decides string) string { return asks + "/" + decides }
	var got []string
	for len(s.Notices) > 0 {
		n := s.Notices[0]
		if n.Asks != nil {
			require.Equal(t, "t1", n.Asks.ThreadID, "each thread speaks of what is below as of its own")
			got = append(got, tell(n.Asks.Request.ToolCallID, ""))
		} else {
			require.Equal(t, "t1", n.Decided.ThreadID)
			got = append(got, tell("", n.Decided.ToolCallID))
			require.Equal(t, n.Decided.ToolCallID == "x1", n.Decided.Approval != nil)
		}
		s.NoticeSent()
	}
	require.Equal(t, []string{"x1/", "x2/", "x3/", "/x1", "/x3"}, got, "in order; and what an agent has asked that has ended waits no more")
	require.Equal(t, "x2", s.Approvals()[0].ToolCallID)
}

// TestOwnApprovalsAreToldAbove: also when they end without a decision.
func TestOwnApprovalsAreToldAbove(t *testing.T) {
	for name, end := range map[string]func(*State, *Run){
		"approved":    func(s *State, _ *Run) { s.Decide(t0, decision("c1", event.Approve)) },
		"denied":      func(s *State, _ *Run) { s.Decide(t0, decision("c1", event.Deny)) },
		"interrupted": func(s *State, r *Run) { r.StopRun(t0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, r := called(t, asks("c1"))
			s.Parent = &Parent{ThreadID: "t0", Depth: 1}
			r.ApplyCallsDecision(t0, pass)
			r.Planned(t0, PlanReply{Agent: "assistant", MaxSteps: 5, Calls: []PlannedCall{asks("c1")}})
			require.Len(t, s.Notices, 1)
			require.Equal(t, "c1", s.Notices[0].Asks.Request.ToolCallID)
			require.JSONEq(t, `{"command":"rm"}`, s.Notices[0].Asks.Request.Arguments, "people are shown what it is about")
			end(s, r)
			require.Len(t, s.Notices, 2)
			require.Equal(t, "c1", s.Notices[1].Decided.ToolCallID)
			require.Equal(t, name == "interrupted", s.Notices[1].Decided.Approval == nil)
		})
	}
}
