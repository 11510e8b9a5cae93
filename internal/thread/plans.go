package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/signals"
)

// PlannedCall tells the workflow how to run a stored tool call.
type PlannedCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// NeedsApproval means that a person must approve the call, given Arguments and Reason.
	// Arguments over MaxCarriedContent are cut and say so; the approval_request record has them in
	// full. Approval contains the options of the request.
	NeedsApproval bool          `json:"needsApproval,omitempty"`
	Arguments     string        `json:"arguments,omitempty"`
	Reason        string        `json:"reason,omitempty"`
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

// CheckStep is the input of check_decision, which validates the edited arguments or the pattern of
// a decision.
type CheckStep struct {
	Thread           Ref       `json:"thread"`
	Agent            string    `json:"agent"`
	MessageID        string    `json:"messageId"`
	ToolCallID       string    `json:"toolCallId"`
	Tools            *[]string `json:"tools,omitempty"`
	WorkingDirectory string    `json:"workingDirectory,omitempty"`

	// By is the person who decides. Args are the edited arguments, Pattern is the granted pattern.
	By      string            `json:"by"`
	Args    string            `json:"args,omitempty"`
	Pattern map[string]string `json:"pattern,omitempty"`

	// Guard identifies the call in the approval request.
	Guard *Guard `json:"guard,omitempty"`

	// Late means that the person is not one of the approvers in the request, and may have become a member of a group since.
	Late bool `json:"late,omitempty"`
}

// CheckReply is the result of check_decision.
type CheckReply struct {
	// Field and Problem describe the invalid field of the decision, if there is one.
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem,omitempty"`

	// Guard identifies the call with the edited arguments.
	Guard *Guard `json:"guard,omitempty"`

	// Rest is the digest of the arguments that the pattern does not contain.
	Rest string `json:"rest,omitempty"`

	// Member reports whether the person is a member of one of the groups by now.
	Member bool `json:"member,omitempty"`
}

// Err returns the problem of the decision as an error, or nil.
func (c CheckReply) Err() error {
	if c.Problem == "" {
		return nil
	}
	return event.FieldErrorf(c.Field, "%s", c.Problem)
}

// TitleStep is the input of title_thread, which generates a title from the messages of a thread.
type TitleStep struct {
	Thread Ref    `json:"thread"`
	Agent  string `json:"agent,omitempty"`

	// RecordID is the id of the status record of the title. Flush is stored before it.
	RecordID string `json:"recordId"`
	Flush    Flush  `json:"flush"`

	// Route has the meaning of [ModelStep.Route].
	Route *Route `json:"route,omitempty"`
}

// TitleReply is the result of title_thread. Title is empty if there was nothing to generate it
// from.
type TitleReply struct {
	Title string      `json:"title,omitempty"`
	Usage event.Usage `json:"usage"`

	// Route is set instead of a title when another model, or another task queue, makes the call.
	Route *Route `json:"route,omitempty"`
}

// sameArguments reports whether arguments are equal as JSON.
func sameArguments(a, b string) bool {
	sum := ArgumentsDigest(a)
	return sum != "" && sum == ArgumentsDigest(b)
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
