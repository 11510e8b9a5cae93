package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
)

// PlannedCall tells the workflow how a tool call is to be run. What runs is the
// stored call; this names it.
type PlannedCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// NeedsApproval asks a person first, showing Arguments and Reason. Arguments over
	// MaxCarriedContent are cut, and say so: the approval_request record has them whole.
	// Ask says how.
	NeedsApproval bool     `json:"needsApproval,omitempty"`
	Arguments     string   `json:"arguments,omitempty"`
	Reason        string   `json:"reason,omitempty"`
	Ask           *AskPlan `json:"ask,omitempty"`

	// Guard says what an approval has to be of: it is looked at again right before the
	// call runs. Grant is the one that covers the call, so that nobody is asked.
	Guard *Guard       `json:"guard,omitempty"`
	Grant *GrantedCall `json:"grant,omitempty"`

	// Lapsed says that the approval by which the call was to run does not hold any more.
	Lapsed bool `json:"lapsed,omitempty"`

	// Denied says why a rule denies the call, DeniedBy is the rule. It never runs.
	Denied   string `json:"denied,omitempty"`
	DeniedBy string `json:"deniedBy,omitempty"`

	// Duplicate is the same call, which the agent has made in another turn and which waits for
	// approval. This one never runs, and nobody is asked about it.
	Duplicate string `json:"duplicate,omitempty"`

	// Unfit says that the call cannot run, for want of the tool or for arguments that
	// do not fit it. It never runs, whatever changes meanwhile: nobody was asked about
	// it. Its result is the model's error.
	Unfit bool `json:"unfit,omitempty"`

	// Quick runs the call as a local activity.
	Quick bool `json:"quick,omitempty"`

	// By says who runs the call if that is no activity of the turn. Task is the
	// background task that it starts, TaskID the one that it is about.
	// Sub is the sub-agent that it asks.
	By     RunBy     `json:"by,omitempty"`
	Task   *TaskPlan `json:"task,omitempty"`
	TaskID string    `json:"taskId,omitempty"`
	Sub    *SubPlan  `json:"sub,omitempty"`

	// ClientTime is how long a call waits for the client that runs it.
	ClientTime time.Duration `json:"clientTime,omitempty"`
}

// RunBy says who runs a tool call.
type RunBy string

// Who can run a call, beside an activity of the turn.
const (
	// ByTask: it goes on in the background.
	ByTask RunBy = "task"
	// ByAgent: a sub-agent does the work, in a thread of its own. Of a call that is a
	// background task it is the task that does.
	ByAgent RunBy = "agent"
	// ByThread: the thread answers it itself.
	ByThread RunBy = "thread"
	// ByClient: a connected client runs it, within ClientTime.
	ByClient RunBy = "client"
)

// AskPlan says how people are asked about a call.
type AskPlan struct {
	Approvers []string      `json:"approvers,omitempty"`
	Quorum    int           `json:"quorum,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	Remind    time.Duration `json:"remind,omitempty"`

	// EndsTurn interrupts the turn when the request expires. Otherwise the call is denied.
	EndsTurn bool `json:"endsTurn,omitempty"`

	// Listed marks the thread as one that waits for approval, for all to find.
	Listed bool `json:"listed,omitempty"`
}

// Guard is what an approval of a call is of.
type Guard struct {
	// Digest is of tool, arguments and working directory; Definition of what the tool says
	// of itself.
	Digest           string `json:"digest"`
	Definition       string `json:"definition"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Arguments is of the arguments alone, see [ArgumentsSum].
	Arguments string `json:"arguments,omitempty"`
}

// GrantedCall is an approval given before that covers a call.
type GrantedCall struct {
	// ID is the call that it was given for.
	ID    string      `json:"id"`
	Scope event.Scope `json:"scope"`
	By    string      `json:"by"`
}

// CheckStep is the input of check_decision: it checks what a decision would have run in
// place of the stored call, or grants beyond it.
type CheckStep struct {
	Thread           Ref       `json:"thread"`
	Agent            string    `json:"agent"`
	MessageID        string    `json:"messageId"`
	ToolCallID       string    `json:"toolCallId"`
	Tools            *[]string `json:"tools,omitempty"`
	WorkingDirectory string    `json:"workingDirectory,omitempty"`

	// By decides. Args are edited arguments, Pattern what is granted.
	By      string            `json:"by"`
	Args    string            `json:"args,omitempty"`
	Pattern map[string]string `json:"pattern,omitempty"`

	// Guard is of the call that people were asked about.
	Guard *Guard `json:"guard,omitempty"`
}

// CheckReply is the result of check_decision.
type CheckReply struct {
	// Field and Problem say what is wrong with the decision, if anything is.
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem,omitempty"`

	// Guard is of the call with the edited arguments.
	Guard *Guard `json:"guard,omitempty"`

	// Rest is the digest of what the pattern leaves as it is.
	Rest string `json:"rest,omitempty"`
}

// Err is what is wrong with the decision, if anything is.
func (c CheckReply) Err() error {
	if c.Problem == "" {
		return nil
	}
	return &event.FieldError{Field: c.Field, Problem: c.Problem}
}

// TitleStep is the input of title_thread: it gives a thread a title by what was said.
type TitleStep struct {
	Thread Ref    `json:"thread"`
	Agent  string `json:"agent,omitempty"`

	// RecordID is that of the status record that tells of it. Flush goes before it.
	RecordID string `json:"recordId"`
	Flush    Flush  `json:"flush"`
}

// TitleReply is the result of title_thread. Without a title there was nothing to go by.
type TitleReply struct {
	Title string      `json:"title,omitempty"`
	Usage event.Usage `json:"usage"`
}

// sameArguments reports whether arguments mean the same, however they are written.
func sameArguments(a, b string) bool {
	sum := ArgumentsSum(a)
	return sum != "" && sum == ArgumentsSum(b)
}

// ArgumentsSum identifies arguments that mean the same, however they are written. Empty for
// what are no arguments.
func ArgumentsSum(arguments string) string {
	canonical, err := strictjson.Canonical(arguments)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
