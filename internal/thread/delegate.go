package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

// Bounds on sub-agents.
const (
	// maxSubDepth is how many threads may work for one another in a row.
	maxSubDepth = 5
	// maxSubs is how many sub-agents work for one thread at the same time, and
	// maxSubsInTurn how many in one turn.
	maxSubs       = 10
	maxSubsInTurn = 50
	// maxAgentsBelow is how many agents of the threads below are known by their names.
	maxAgentsBelow = 100
	// maxAskedArguments is how much the thread keeps of the arguments of a sub-agent's call
	// that waits for approval, in bytes, and of all of them.
	maxAskedArguments = 4 << 10
	maxAskedTotal     = 64 << 10
)

// Parent is the thread for which a sub-agent works.
type Parent struct {
	ThreadID string `json:"threadId"`

	// Agent has called the tool ToolName, with ToolCallID in message MessageID.
	Agent      string `json:"agent"`
	ToolName   string `json:"toolName"`
	ToolCallID string `json:"toolCallId"`
	MessageID  string `json:"messageId"`

	// EditedPrefix goes before the answer: what the agent is to be told about its call.
	EditedPrefix string `json:"told,omitempty"`

	// Undecided: hooks of that thread decide on the answer.
	Undecided bool `json:"undecided,omitempty"`

	// TraceID and EventID are those of its turn.
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root is as in [ModelStep].
	Root string `json:"root,omitempty"`

	// Depth counts the threads above. MaxSteps bounds the model calls of each of the
	// sub-agent's runs; 0 = its own limit alone.
	Depth    int `json:"depth"`
	MaxSteps int `json:"maxSteps,omitempty"`

	// Background is the task that it works on, if it does in the background.
	Background *event.Task `json:"background,omitempty"`

	// ReportRequested says that the thread has moved since, and wants to hear by signal how the
	// sub-agent has ended.
	ReportRequested bool `json:"called,omitempty"`
}

// ParentLink connects the thread of a sub-agent with the thread above.
type ParentLink struct {
	thread *State

	// Parent is set in the thread of a sub-agent. Notes are for the thread above.
	Parent  *Parent        `json:"parent,omitempty"`
	Notices []ParentNotice `json:"notes,omitempty"`
}

// Children are the sub-agents at work for the thread. SubCount numbers them.
type Children struct {
	thread *State

	Subs     []Sub `json:"subs,omitempty"`
	SubCount int   `json:"subCount,omitempty"`
}

// Sub is a sub-agent at work for the thread.
type Sub struct {
	ThreadID string `json:"threadId"`

	// ToolCallID waits for it, unless it is the task TaskID. Called says that it was asked
	// to report by signal, because the thread moves; Reply is how it has ended. Gone says why
	// it will never say so.
	ToolCallID      string         `json:"toolCallId,omitempty"`
	TaskID          string         `json:"taskId,omitempty"`
	ReportRequested bool           `json:"called,omitempty"`
	Reply           *DelegateReply `json:"reply,omitempty"`
	Gone            string         `json:"gone,omitempty"`

	// Asks are its calls that wait for approval, and those of its own sub-agents.
	// Listed says that they are for all to find. Passed are the decisions on them that were
	// passed on, by the id of the call, and PassedAt when; Voted are those of several who have
	// approved, behind that id.
	Asks        []event.ApprovalRequest   `json:"asks,omitempty"`
	Listed      bool                      `json:"listed,omitempty"`
	Forwarded   map[string]event.Decision `json:"passed,omitempty"`
	ForwardedAt map[string]time.Time      `json:"passedAt,omitempty"`
	Voted       []string                  `json:"voted,omitempty"`

	// Agents are those of the threads below that have asked: none of them decides.
	Agents []string `json:"agents,omitempty"`
}

// DelegateStart is the input of a sub-agent's thread.
type DelegateStart struct {
	signals.Start
	Parent *Parent `json:"parent,omitempty"`
}

// DelegateReply is the result of a sub-agent's thread.
type DelegateReply struct {
	Status signals.TurnStatus `json:"status"`
	Usage  event.Usage        `json:"usage"`

	// Answer is the result of the call, cut at MaxCarriedContent if Truncated; the store has
	// it whole. Failed says what the result is.
	Answer    string `json:"answer,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Failed    bool   `json:"failed,omitempty"`

	// Result and Error are those of a background task; Cancelled, that its workflow was.
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	Cancelled bool            `json:"cancelled,omitempty"`
}

// Task is how the background task has ended that the sub-agent worked on.
func (r DelegateReply) Task() TaskReply {
	return TaskReply{Result: r.Result, Error: r.Error, Cancelled: r.Cancelled}
}

// SubEnded is the payload of signal "sub_ended".
type SubEnded struct {
	ThreadID string `json:"threadId"`
	DelegateReply
}

// SubAsks is the payload of signal "sub_asks".
type SubAsks struct {
	ThreadID string                `json:"threadId"`
	Request  event.ApprovalRequest `json:"request"`

	// Listed says that it is for all to find.
	Listed bool `json:"listed,omitempty"`

	// Agents are those of the threads that the request has come through: none of them decides.
	Agents []string `json:"agents,omitempty"`
}

// SubDecided is the payload of signal "sub_decided". Approval is nil when the call waits
// no more without a decision.
type SubDecided struct {
	ThreadID   string          `json:"threadId"`
	ToolCallID string          `json:"toolCallId"`
	Approval   *event.Approval `json:"approval,omitempty"`
}

// EndStep is the input of end_delegate: it stores what is left of a sub-agent's thread
// and, in the thread above, the result of the call that waits for it.
type EndStep struct {
	Thread Ref    `json:"thread"`
	Parent Parent `json:"parent"`

	// EventID is the event whose turn it was, Status and Error how it has ended.
	EventID string             `json:"eventId"`
	Status  signals.TurnStatus `json:"status"`
	Error   string             `json:"error,omitempty"`
	Flush   Flush              `json:"flush"`
}

// EndReply is the result of end_delegate.
type EndReply struct {
	// Answer, Truncated and Failed are as in [DelegateReply].
	Answer    string `json:"answer,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Failed    bool   `json:"failed,omitempty"`

	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// SubPlan is the sub-agent that a call asks.
type SubPlan struct {
	Agent   string `json:"agent"`
	Message string `json:"message"`
	Title   string `json:"title,omitempty"`
}

// CheckDelegate says why a sub-agent cannot be asked.
func (t *Turn) CheckDelegate() string {
	s := t.thread
	depth := 0
	if s.Parent != nil {
		depth = s.Parent.Depth
	}
	switch {
	case depth >= maxSubDepth:
		return fmt.Sprintf("Error: %d agents work for one another in a row, the limit. Do it yourself.", maxSubDepth)
	case len(s.Subs) >= maxSubs:
		return fmt.Sprintf("Error: %d sub-agents work for this thread, the limit. Wait for one of them.", maxSubs)
	case t.Delegated >= maxSubsInTurn:
		return fmt.Sprintf("Error: %d sub-agents were asked in this turn, the limit.", maxSubsInTurn)
	}
	return ""
}

// Delegate makes the thread of the sub-agent that a call asks.
// specs are the hooks that there are.
func (c *Call) Delegate(specs ...hook.Spec) (threadID string, start DelegateStart) {
	s := c.run.turn.thread
	c.Undecided = len(c.decidingOnResult(specs)) > 0
	threadID, start = c.newSub()
	s.Subs = append(s.Subs, Sub{ThreadID: threadID, ToolCallID: c.Plan.ID})
	c.Stage, c.Sub = Delegated, threadID
	return threadID, start
}

func (c *Call) newSub() (threadID string, start DelegateStart) {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	s.SubCount++
	t.Delegated++
	t, plan := t, c.Plan.Sub
	threadID = signals.SubThreadID(s.Namespace, s.ThreadID, s.SubCount)
	parent := Parent{
		ThreadID: s.ThreadID, Agent: r.Agent, ToolName: c.Plan.Name, ToolCallID: c.Plan.ID, MessageID: r.MessageID,
		TraceID: t.Item.TraceID, EventID: t.Item.ID, Root: t.foreign(), Depth: 1, EditedPrefix: c.editedPrefix(), Undecided: c.Undecided,
	}
	if s.Parent != nil {
		parent.Depth = s.Parent.Depth + 1
	}
	if r.MaxSteps > 0 {
		parent.MaxSteps = max(r.MaxSteps-r.Step, 1)
	}
	post := signals.NewPost(firstID(s.Namespace, threadID, parent), event.NewMessage{
		ThreadID: threadID, SenderID: cmp.Or(r.Agent, "agent"), SenderType: event.User, Content: plan.Message,
	})
	post.TraceID, post.Agents, post.Tools = t.Item.TraceID, []string{plan.Agent}, t.Tools
	start = DelegateStart{Parent: &parent, Start: signals.Start{
		Agents: []string{plan.Agent}, Title: cmp.Or(plan.Title, fmt.Sprintf("%s for %s", plan.Agent, cmp.Or(r.Agent, s.ThreadID))),
		Metadata: rawJSON(map[string]string{signals.MetadataParent: s.ThreadID, signals.MetadataParentCall: c.Plan.ID}), First: &post,
	}}
	return threadID, start
}

// DelegateTask makes the thread of the sub-agent that works as a background task.
func (c *Call) DelegateTask(now time.Time) (TaskStep, DelegateStart) {
	s := c.run.turn.thread
	threadID, start := c.newSub()
	task := c.newTask(now)
	task.Title, task.SubAgent, task.ThreadID = start.Title, c.Plan.Sub.Agent, threadID
	s.Subs = append(s.Subs, Sub{ThreadID: threadID, TaskID: task.ID})
	start.Parent.Background = &task
	start.Parent.MaxSteps = 0
	return c.startTask(now, task), start
}

// FirstID is the id of the event with which a sub-agent's thread begins.
func (p *ParentLink) FirstID() string {
	s := p.thread
	return firstID(s.Namespace, s.ThreadID, *p.Parent)
}

// firstID has the call in it: a thread that was terminated and opened again numbers its
// sub-agents anew, and what one of them said before is no answer to what it is asked now.
func firstID(namespace, threadID string, parent Parent) string {
	return signals.EventID(namespace, threadID, "first", parent.ToolCallID)
}

// SubAnswered reports whether the turn of a sub-agent's thread has ended, or will never
// begin, since what was asked was refused. No turn is left in the middle.
func (p *ParentLink) SubAnswered() bool {
	s := p.thread
	return len(s.turns()) == 0 && !s.Awaits(p.FirstID())
}

// SubLost gives a call a result whose sub-agent has ended without an answer.
func (c *Call) SubLost(now time.Time, why string) {
	s := c.run.turn.thread
	s.dropSub(c.Sub)
	c.Refused(now, Why("Error: the sub-agent ended without an answer: "+why))
}

// ForgetSub forgets a sub-agent that was stopped.
func (ch *Children) ForgetSub(threadID string) { ch.dropSub(threadID) }

// EndStep is the input of what ends a sub-agent's thread.
func (p *ParentLink) EndStep() EndStep {
	s := p.thread
	out, ended := s.Outcome(p.FirstID())
	if !ended {
		out = signals.TurnResult{EventID: p.FirstID(), Status: signals.TurnFailed, Error: "its thread has refused the message"}
	}
	return EndStep{Thread: s.Ref(), Parent: *p.Parent, EventID: out.EventID, Status: out.Status, Error: out.Error, Flush: s.Flush()}
}

func (ch *Children) sub(threadID string) *Sub {
	for i := range ch.Subs {
		if ch.Subs[i].ThreadID == threadID {
			return &ch.Subs[i]
		}
	}
	return nil
}

func (sub *Sub) ended() bool { return sub.Reply != nil || sub.Gone != "" }

// SubEnd is how a sub-agent has ended that a call waits for, or why it will never say so. ok is
// false while it works.
func (ch *Children) SubEnd(threadID string) (reply *DelegateReply, gone string, ok bool) {
	sub := ch.sub(threadID)
	if sub == nil {
		return nil, "it is not known any more", true
	}
	return sub.Reply, sub.Gone, sub.ended()
}

// SubGone takes in that a sub-agent for which a call waits will not say how it has ended.
func (ch *Children) SubGone(threadID, why string) {
	if sub := ch.sub(threadID); sub != nil && sub.TaskID == "" && !sub.ended() {
		sub.Gone = why
	}
}

// SubsToRequest are the sub-agents for which calls wait, and which were not asked to report by signal.
func (ch *Children) SubsToRequest() (threadIDs []string) {
	for _, sub := range ch.Subs {
		if sub.TaskID == "" && !sub.ReportRequested && !sub.ended() {
			threadIDs = append(threadIDs, sub.ThreadID)
		}
	}
	return threadIDs
}

// SubReportRequested remembers that a sub-agent was asked to report by signal.
func (ch *Children) SubReportRequested(threadID string) {
	if sub := ch.sub(threadID); sub != nil {
		sub.ReportRequested = true
	}
}

// SubEnded takes in how a sub-agent has ended, which came by signal.
func (ch *Children) SubEnded(now time.Time, e SubEnded) {
	s := ch.thread
	sub := ch.sub(e.ThreadID)
	if sub == nil {
		// It was interrupted, and is not waited for any more.
		return
	}
	if sub.TaskID == "" {
		sub.Reply = &e.DelegateReply
		return
	}
	if i := s.taskAt(sub.TaskID); i >= 0 {
		s.endTask(now, i, e.Task())
	}
	s.Usage = s.Usage.Add(e.Usage)
	ch.dropSub(e.ThreadID)
}

// SubAgentReplied gives a call the result that its sub-agent has stored.
func (c *Call) SubAgentReplied(reply DelegateReply) {
	s := c.run.turn.thread
	s.Usage = s.Usage.Add(reply.Usage)
	s.dropSub(c.Sub)
	c.Stage, c.Failed = Ran, reply.Failed
}

// dropSub forgets a sub-agent that has ended, and what it has asked.
func (ch *Children) dropSub(threadID string) {
	s := ch.thread
	ch.Subs = slices.DeleteFunc(ch.Subs, func(sub Sub) bool {
		if sub.ThreadID != threadID {
			return false
		}
		for _, ask := range sub.Asks {
			s.notifyParentDecided(SubDecided{ToolCallID: ask.ToolCallID})
		}
		return true
	})
}

// StopSubs ends the sub-agents for which a call of the turn waits, and which nobody waits
// for any more. It returns their threads.
func (t *Turn) StopSubs() []string {
	s := t.thread
	var stop []string
	for _, sub := range s.Subs {
		if sub.TaskID == "" && t.delegatedTo(sub.ThreadID) {
			stop = append(stop, sub.ThreadID)
		}
	}
	for _, id := range stop {
		s.dropSub(id)
	}
	return stop
}

// delegatedTo reports whether a call of the turn has asked a sub-agent.
func (t *Turn) delegatedTo(threadID string) bool {
	return slices.ContainsFunc(t.Runs, func(r *Run) bool {
		return slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.Sub == threadID })
	})
}
