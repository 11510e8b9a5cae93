package step

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/signals"
)

// Plan is the input of plan_calls, which plans calls that hooks changed or created and stores
// their approval requests.
type Plan struct {
	Run

	// Only are the ids of the calls to plan.
	Only []string `json:"only"`

	// Again means that the calls' approval requests are already stored, so the step stores none.
	// Decisions maps the ids of calls to the records of their approvals.
	Again     bool              `json:"again,omitempty"`
	Decisions map[string]string `json:"decisions,omitempty"`

	// Pending has the meaning of [Model.Pending].
	Pending map[string]string `json:"pending,omitempty"`
}

// PlanReply is the result of plan_calls.
type PlanReply struct {
	// Agent is the registered name of the agent that made the calls.
	Agent     string          `json:"agent"`
	Model     string          `json:"model"`
	MaxSteps  int             `json:"maxSteps"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Calls     []PlannedCall   `json:"calls"`
}

// PlannedCall tells the workflow how to run a stored tool call.
type PlannedCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// NeedsApproval means that a person must approve the call, given Arguments and Reason, because
	// Rule requires it. Arguments over MaxCarriedContent are cut and say so; the approval_request record has them in
	// full. Approval contains the options of the request.
	NeedsApproval bool          `json:"needsApproval,omitempty"`
	Arguments     string        `json:"arguments,omitempty"`
	Reason        string        `json:"reason,omitempty"`
	Rule          string        `json:"rule,omitempty"`
	Approval      *ApprovalPlan `json:"approval,omitempty"`

	// Guard identifies the call that an approval is valid for; it is compared again immediately
	// before the call runs. Grant is an earlier approval that covers the call, if any.
	Guard *Guard       `json:"guard,omitempty"`
	Grant *GrantedCall `json:"grant,omitempty"`

	// Lapsed means that the approval of the call is no longer valid.
	Lapsed bool `json:"lapsed,omitempty"`

	// Denied is the reason why the rule DeniedBy denies the call. The call never runs.
	Denied   string `json:"denied,omitempty"`
	DeniedBy string `json:"deniedBy,omitempty"`

	// Duplicate is an identical call of the agent in another turn that waits for approval. This
	// call never runs and needs no approval.
	Duplicate string `json:"duplicate,omitempty"`

	// Invalid means that the call cannot run, because the tool does not exist or the arguments are
	// invalid. It never runs, even if the configuration changes, since nobody was asked to approve
	// it. Its result is an error.
	Invalid bool `json:"invalid,omitempty"`

	// Quick runs the call as a local activity.
	Quick bool `json:"quick,omitempty"`

	// TaskQueue is the task queue of the activity that runs the call or its task. Empty = the thread's.
	TaskQueue string `json:"taskQueue,omitempty"`

	// By says who runs the call, if not an activity of the turn. Task is the background task that
	// it starts, TaskID the task that it is about, and SubAgent the sub-agent that it delegates to.
	By       RunBy         `json:"by,omitempty"`
	Task     *TaskPlan     `json:"task,omitempty"`
	TaskID   string        `json:"taskId,omitempty"`
	SubAgent *SubAgentPlan `json:"subAgent,omitempty"`

	// Ingest is the document that the call asks to ingest.
	Ingest *signals.Ingestion `json:"ingest,omitempty"`

	// ClientTime is the time within which a client must return the result.
	ClientTime time.Duration `json:"clientTime,omitempty"`
}

// Request returns the approval request for a planned call.
func (p PlannedCall) Request(agent, messageID, arguments string, now time.Time) event.ApprovalRequest {
	q := event.ApprovalRequest{
		ToolCallID: p.ID, ToolName: p.Name, Arguments: arguments, Agent: agent, MessageID: messageID,
		Reason: p.Reason, Rule: p.Rule, RequestedAt: now,
	}
	if g := p.Guard; g != nil {
		q.Digest, q.Definition, q.WorkingDirectory = g.Digest, g.Definition, g.WorkingDirectory
	}
	if ask := p.Approval; ask != nil {
		q.Approvers, q.Groups = ask.Approvers, ask.Groups
		if ask.Quorum > 1 {
			q.Quorum = ask.Quorum
		}
		if ask.Expires > 0 {
			end := now.Add(ask.Expires)
			q.ExpiresAt = &end
		}
	}
	return q
}

// SubAgentPlan is the sub-agent that a call delegates to.
type SubAgentPlan struct {
	Agent   string `json:"agent"`
	Message string `json:"message"`
	Title   string `json:"title,omitempty"`
}

// RunBy is the kind of worker that runs a tool call.
type RunBy string

// The values of [RunBy]. Empty = an activity of the turn.
const (
	// ByTask means that the call runs in the background.
	ByTask RunBy = "task"
	// ByAgent means that a sub-agent works on the call in a child thread. If the call starts a
	// background task, the task does.
	ByAgent RunBy = "agent"
	// ByThread means that the thread itself returns the result.
	ByThread RunBy = "thread"
	// ByClient means that a connected client runs the call, within ClientTime.
	ByClient RunBy = "client"
)

// ApprovalPlan contains the options of an approval request.
type ApprovalPlan struct {
	Approvers []string      `json:"approvers,omitempty"`
	Groups    []string      `json:"groups,omitempty"`
	Quorum    int           `json:"quorum,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	Remind    time.Duration `json:"remind,omitempty"`

	// EndsTurn interrupts the turn when the request expires. Otherwise the call is denied.
	EndsTurn bool `json:"endsTurn,omitempty"`

	// Listed lists the thread as waiting for approval, by search attribute.
	Listed bool `json:"listed,omitempty"`
}

// Guard identifies the call that an approval is valid for.
type Guard struct {
	// Digest is the digest of the tool, the arguments and the working directory; Definition is the
	// digest of the tool's definition.
	Digest           string `json:"digest"`
	Definition       string `json:"definition"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Arguments is the digest of the arguments alone: see [ArgumentsDigest].
	Arguments string `json:"arguments,omitempty"`
}

// GrantedCall is an earlier approval that covers a call.
type GrantedCall struct {
	// ID is the id of the call that was approved.
	ID    string      `json:"id"`
	Scope event.Scope `json:"scope"`
	By    string      `json:"by"`
}

// ArgumentsDigest returns a digest of arguments that is equal for equal JSON. It is empty if the
// arguments are not valid JSON.
func ArgumentsDigest(arguments string) string {
	canonical, err := strictjson.Canonical(arguments)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// TaskPlan is the background task that a call starts.
type TaskPlan struct {
	// Tool is the tool that does the work.
	Tool     string        `json:"tool"`
	Title    string        `json:"title,omitempty"`
	Deadline time.Duration `json:"deadline"`
	Detached bool          `json:"detached,omitempty"`

	// TaskQueue is the task queue of the activity that runs the tool. Empty = the thread's.
	TaskQueue string `json:"taskQueue,omitempty"`
}
