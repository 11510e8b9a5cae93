package thread

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Limits on sub-agents.
const (
	// maxSubDepth is the maximum depth of nested child threads.
	maxSubDepth = 5
	// maxSubs is the maximum number of sub-agents that work for a thread at the same time, and
	// maxSubsInTurn the maximum number in one turn.
	maxSubs       = 10
	maxSubsInTurn = 50
	// maxChildAgents is the maximum number of agents of child threads whose names the thread keeps.
	maxChildAgents = 100
	// maxRequestArguments is the maximum size of the arguments kept for a sub-agent's call that waits
	// for approval, in bytes, and maxRequestTotal that of all such arguments, and of all their questions.
	maxRequestArguments = 4 << 10
	maxRequestTotal     = 64 << 10
)

// Children contains the sub-agents that work for the thread. Count is the number of the last
// one.
type Children struct {
	SubAgents []SubAgent `json:"subAgents,omitempty"`
	Count     int        `json:"count,omitempty"`
}

// SubAgent is a sub-agent that works for the thread.
type SubAgent struct {
	ThreadID string `json:"threadId"`

	// ToolCallID is the call that waits for the sub-agent, unless it works on the task TaskID.
	// ReportRequested means that it was asked to report by signal, because the thread continues as
	// new. Reply is its report. Lost says why it will never report.
	ToolCallID      string              `json:"toolCallId,omitempty"`
	TaskID          string              `json:"taskId,omitempty"`
	ReportRequested bool                `json:"reportRequested,omitempty"`
	Reply           *step.DelegateReply `json:"reply,omitempty"`
	Lost            string              `json:"lost,omitempty"`

	// Approvals are the pending approval requests of the sub-agent and of its own sub-agents. Listed
	// reports whether they list the parent thread as waiting for approval. Forwarded maps the keys
	// of requests to the decisions that were forwarded to the child thread, ForwardedAt to the times;
	// Voted identifies the approvals that were forwarded for calls that need several.
	Approvals   []event.ApprovalRequest   `json:"approvals,omitempty"`
	Listed      bool                      `json:"listed,omitempty"`
	Forwarded   map[string]event.Decision `json:"forwarded,omitempty"`
	ForwardedAt map[string]time.Time      `json:"forwardedAt,omitempty"`
	Voted       []string                  `json:"voted,omitempty"`

	// Inputs are the pending requests for input of the sub-agent and of its own sub-agents.
	Inputs []event.InputRequest `json:"inputs,omitempty"`

	// Agents are the agents of the child threads, which may not decide.
	Agents []string `json:"agents,omitempty"`
}

// CheckDelegate returns the reason why the turn cannot delegate to another sub-agent, or "".
func (t *Turn) CheckDelegate() string {
	s := t.thread
	depth := 0
	if s.ParentLink.Parent != nil {
		depth = s.ParentLink.Parent.Depth
	}
	switch {
	case depth >= maxSubDepth:
		return fmt.Sprintf("Error: %d agents work for one another in a row, the limit. Do it yourself.", maxSubDepth)
	case len(s.Children.SubAgents) >= maxSubs:
		return fmt.Sprintf("Error: %d sub-agents work for this thread, the limit. Wait for one of them.", maxSubs)
	case t.Delegated >= maxSubsInTurn:
		return fmt.Sprintf("Error: %d sub-agents were started in this turn, which is the limit.", maxSubsInTurn)
	}
	return ""
}

// Delegate creates the thread of the sub-agent that a call delegates to. specs are the registered
// hooks.
func (c *Call) Delegate(specs ...hook.Spec) (threadID string, start step.Delegate) {
	s := c.run.turn.thread
	c.Undecided = len(c.decidingOnResult(specs)) > 0
	threadID, start = c.newSubAgent()
	s.Children.add(SubAgent{ThreadID: threadID, ToolCallID: c.Plan.ID})
	c.Stage, c.SubAgent = CallDelegated, threadID
	return threadID, start
}

func (c *Call) newSubAgent() (threadID string, start step.Delegate) {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	t.Delegated++
	t, plan := t, c.Plan.SubAgent
	again := s.Decisions.restoredSub(c.Plan.ID)
	if again != nil {
		threadID = again.ThreadID
	} else {
		threadID = signals.SubThreadID(s.Namespace, s.ThreadID, s.Children.next())
	}
	parent := step.Parent{
		ThreadID: s.ThreadID, Agent: r.Agent, User: r.User, ToolName: c.Plan.Name, ToolCallID: c.Plan.ID, MessageID: r.MessageID,
		TraceID: t.Item.TraceID, EventID: t.Item.ID, Root: t.rootIfOther(), Depth: 1, EditedPrefix: c.editedPrefix(), Undecided: c.Undecided,
	}
	if s.ParentLink.Parent != nil {
		parent.Depth = s.ParentLink.Parent.Depth + 1
	}
	if r.MaxSteps > 0 {
		parent.MaxSteps = max(r.MaxSteps-r.Step, 1)
	}
	post := signals.NewPost(firstID(s.Namespace, threadID, parent), event.NewMessage{
		ThreadID: threadID, SenderID: cmp.Or(r.Agent, "agent"), SenderType: event.CreatedByUser, Content: plan.Message,
	})
	post.TraceID, post.Agents, post.Tools = t.Item.TraceID, []string{plan.Agent}, t.Tools
	start = step.Delegate{Parent: &parent, Start: signals.Start{
		Agents: []string{plan.Agent}, Title: cmp.Or(plan.Title, fmt.Sprintf("%s for %s", plan.Agent, cmp.Or(r.Agent, s.ThreadID))),
		Metadata: rawJSON(map[string]string{signals.MetadataParent: s.ThreadID, signals.MetadataParentCall: c.Plan.ID}), First: &post,
	}}
	if again != nil {
		start.Restore = again.Restore
	}
	return threadID, start
}

// DelegateTask creates the thread of the sub-agent that works on a background task.
func (c *Call) DelegateTask(now time.Time) (step.Task, step.Delegate) {
	s := c.run.turn.thread
	threadID, start := c.newSubAgent()
	task := c.newTask(now)
	task.Title, task.SubAgent, task.ThreadID = start.Title, c.Plan.SubAgent.Agent, threadID
	s.Children.add(SubAgent{ThreadID: threadID, TaskID: task.ID})
	start.Parent.Background = &task
	start.Parent.MaxSteps = 0
	return c.startTask(now, task), start
}

// SubAgentLost sets the result of a call whose sub-agent ended without an answer.
func (c *Call) SubAgentLost(now time.Time, why string) {
	c.run.turn.thread.ForgetSubAgent(now, c.SubAgent)
	c.Refused(now, step.Why("Error: the sub-agent ended without an answer: "+why))
}

// next returns the number of the next sub-agent.
func (ch *Children) next() int {
	ch.Count++
	return ch.Count
}

func (ch *Children) add(sub SubAgent) { ch.SubAgents = append(ch.SubAgents, sub) }

func (ch *Children) remove(threadID string) {
	ch.SubAgents = slices.DeleteFunc(ch.SubAgents, func(sub SubAgent) bool { return sub.ThreadID == threadID })
}

func (ch *Children) find(threadID string) *SubAgent {
	for i := range ch.SubAgents {
		if ch.SubAgents[i].ThreadID == threadID {
			return &ch.SubAgents[i]
		}
	}
	return nil
}

func (sub *SubAgent) ended() bool { return sub.Reply != nil || sub.Lost != "" }

// End returns the report of a sub-agent that a call waits for, or the reason why it will never
// report. ok is false while the sub-agent works.
func (ch *Children) End(threadID string) (reply *step.DelegateReply, gone string, ok bool) {
	sub := ch.find(threadID)
	if sub == nil {
		return nil, "it is not known any more", true
	}
	return sub.Reply, sub.Lost, sub.ended()
}

// ApplyLoss records that a sub-agent will never report.
func (ch *Children) ApplyLoss(threadID, why string) {
	if sub := ch.find(threadID); sub != nil && sub.TaskID == "" && !sub.ended() {
		sub.Lost = why
	}
}

// ReportsToRequest returns the sub-agents that calls wait for and that were not asked to report by
// signal.
func (ch *Children) ReportsToRequest() (threadIDs []string) {
	for _, sub := range ch.SubAgents {
		if sub.TaskID == "" && !sub.ReportRequested && !sub.ended() {
			threadIDs = append(threadIDs, sub.ThreadID)
		}
	}
	return threadIDs
}

// MarkReportRequested records that a sub-agent was asked to report by signal.
func (ch *Children) MarkReportRequested(threadID string) {
	if sub := ch.find(threadID); sub != nil {
		sub.ReportRequested = true
	}
}

// SubAgentEnded handles the report of a sub-agent's end.
func (s *State) SubAgentEnded(now time.Time, e step.SubAgentEnded) {
	sub := s.Children.find(e.ThreadID)
	if sub == nil {
		// It was interrupted, and nothing waits for it.
		return
	}
	if sub.TaskID == "" {
		sub.Reply = &e.DelegateReply
		return
	}
	if i := s.Tasks.index(sub.TaskID); i >= 0 {
		s.endTask(now, i, e.Task())
	}
	s.Usage = s.Usage.Add(e.Usage)
	s.ForgetSubAgent(now, e.ThreadID)
}

// SubAgentReplied continues a call whose sub-agent has stored its result.
func (c *Call) SubAgentReplied(now time.Time, reply step.DelegateReply) {
	s := c.run.turn.thread
	s.Usage = s.Usage.Add(reply.Usage)
	s.ForgetSubAgent(now, c.SubAgent)
	c.Stage, c.Failed = CallRan, reply.Failed
}

// ForgetSubAgent removes a sub-agent that has ended or was stopped, and its requests.
func (s *State) ForgetSubAgent(now time.Time, threadID string) {
	sub := s.Children.find(threadID)
	if sub == nil {
		return
	}
	for _, q := range slices.Clone(sub.Inputs) {
		s.subAgentInputEnded(now, sub, withdrawn(now, q))
	}
	for len(sub.Approvals) > 0 {
		s.subAgentRequestEnded(now, sub, 0, nil)
	}
	s.Children.remove(threadID)
}

// StopSubAgents removes the sub-agents for which calls of the turn wait. It returns their threads, which
// the caller must stop.
func (t *Turn) StopSubAgents(now time.Time) []string {
	s := t.thread
	var stop []string
	for _, sub := range s.Children.SubAgents {
		if sub.TaskID == "" && t.delegatedTo(sub.ThreadID) {
			stop = append(stop, sub.ThreadID)
		}
	}
	for _, id := range stop {
		s.ForgetSubAgent(now, id)
	}
	return stop
}

// delegatedTo reports whether a call of the turn delegated to a sub-agent.
func (t *Turn) delegatedTo(threadID string) bool {
	return slices.ContainsFunc(t.Runs, func(r *AgentRun) bool {
		return slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.SubAgent == threadID })
	})
}
