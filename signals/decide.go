package signals

import (
	"encoding/json"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Names of what people and clients say about tool calls, beside [SignalDecide].
const (
	// SignalRevoke and UpdateRevoke take a [Revoke].
	SignalRevoke = "revoke"
	UpdateRevoke = "revoke"

	// SignalToolResult and UpdateToolResult take a [ToolResult].
	SignalToolResult = "tool_result"
	UpdateToolResult = "tool_result"

	// ActivityCheckDecision checks what a decision would have run or granted.
	ActivityCheckDecision = "check_decision"
)

// Decide is a person's decision on a tool call that waits for approval: the
// payload of signal and update "decide".
type Decide struct {
	ToolCallID string         `json:"toolCallId"`
	Decision   event.Decision `json:"decision"`

	// Scope is "once", the default, "session" or "pattern". Only approvals have another
	// than "once".
	Scope  event.Scope `json:"scope,omitempty"`
	Reason string      `json:"reason,omitempty"`

	// By is the person. Required: who allowed what is kept.
	By string `json:"by"`

	// Args, a JSON object, are to run in the place of the call's own. They are checked
	// like those, and kept beside them. Such an approval is for once.
	Args json.RawMessage `json:"args,omitempty"`

	// Pattern of scope "pattern": globs by the names of arguments, see package approval.
	Pattern map[string]string `json:"pattern,omitempty"`

	// Round is that of the request, when the call was asked about more than once.
	Round int `json:"round,omitempty"`

	// What follows, if given, must be as in the request, or the decision is a mismatch:
	// whoever decides has seen another call. None of it changes what runs.
	Agent            string          `json:"agent,omitempty"`
	ToolName         string          `json:"toolName,omitempty"`
	ToolArgs         json.RawMessage `json:"toolArgs,omitempty"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
	Digest           string          `json:"digest,omitempty"`
}

// Checked names the field that has to be checked against the call before the decision has
// an effect, if there is one.
func (d Decide) Checked() string {
	switch {
	case len(d.Args) > 0:
		return "args"
	case d.Scope == event.Pattern:
		return "pattern"
	}
	return ""
}

// DecideResult answers updates "decide", "revoke" and "tool_result".
type DecideResult struct {
	Result DecideOutcome `json:"result"`

	// Missing is how many more have to approve, of a call that needs several.
	Missing int `json:"missing,omitempty"`
}

// DecideOutcome says what became of a decision.
type DecideOutcome string

// What can become of a decision.
const (
	// Accepted: the decision stands.
	Accepted DecideOutcome = "accepted"
	// AlreadyResolved: the same was decided before.
	AlreadyResolved DecideOutcome = "already_resolved"
	// Conflict: the call was settled otherwise.
	Conflict DecideOutcome = "conflict"
	// Mismatch: the call is not the one that the decision says.
	Mismatch DecideOutcome = "mismatch"
	// NotPending: no such call waits in this thread.
	NotPending DecideOutcome = "not_pending"
	// NotAllowed: this one may not decide on the call.
	NotAllowed DecideOutcome = "not_allowed"
)

// Bounds of a [Decide].
const (
	maxGlobs  = 20
	maxGlob   = 1 << 10
	maxEdited = 64 << 10
)

// CheckDecide reports, as a [*event.FieldError], why a decision would be refused whatever
// call it names.
func CheckDecide(d Decide) error {
	switch {
	case d.ToolCallID == "":
		return fieldErrorf("toolCallId", "is required")
	case d.Decision != event.Approve && d.Decision != event.Deny:
		return fieldErrorf("decision", "%q is neither approve nor deny", d.Decision)
	case !slices.Contains([]event.Scope{"", event.Once, event.Session, event.Pattern}, d.Scope):
		return fieldErrorf("scope", "%q is not one of once, session, pattern", d.Scope)
	case d.By == "":
		return fieldErrorf("by", "is required: who decides is kept")
	case d.Round < 0:
		return fieldErrorf("round", "must not be negative")
	}
	if err := firstOf(event.CheckName("by", d.By), checkReason(d.Reason)); err != nil {
		return err
	}
	if len(d.ToolArgs) > 0 {
		if err := event.CheckJSON("toolArgs", d.ToolArgs); err != nil {
			return err
		}
	}
	if d.Decision == event.Deny && d.Scope != "" && d.Scope != event.Once {
		return fieldErrorf("scope", "of a denial is once; deny what is never to run by a rule of the policy")
	}
	if err := checkEdit(d); err != nil {
		return err
	}
	return checkPattern(d)
}

func checkEdit(d Decide) error {
	var object map[string]json.RawMessage
	switch {
	case len(d.Args) == 0:
		return nil
	case len(d.Args) > maxEdited:
		return fieldErrorf("args", "are %d bytes, at most %d are taken", len(d.Args), maxEdited)
	case d.Decision != event.Approve:
		return fieldErrorf("args", "go with an approval only: a denied call does not run")
	case d.Scope != "" && d.Scope != event.Once:
		return fieldErrorf("args", "go with scope once only: what is granted is the call as it was asked for")
	}
	if err := event.CheckJSON("args", d.Args); err != nil {
		return err
	}
	if json.Unmarshal(d.Args, &object) != nil || object == nil {
		return fieldErrorf("args", "must be a JSON object, the arguments that are to run")
	}
	return nil
}

func checkPattern(d Decide) error {
	switch {
	case (d.Scope == event.Pattern) != (len(d.Pattern) > 0):
		return fieldErrorf("pattern", "goes with scope pattern, which needs one: globs by the names of arguments")
	case len(d.Pattern) > maxGlobs:
		return fieldErrorf("pattern", "has %d globs, at most %d are taken", len(d.Pattern), maxGlobs)
	}
	bad := ""
	for name, glob := range d.Pattern {
		// The same one, whatever the order of a map.
		if (glob == "" || len(glob) > maxGlob) && (bad == "" || name < bad) {
			bad = name
		}
	}
	if bad != "" {
		return fieldErrorf("pattern."+bad, "must be a glob of 1 to %d bytes", maxGlob)
	}
	return nil
}

// Revoke takes an approval back, with all that it grants: the payload of signal and update
// "revoke". What has run stays done; what has not asks again.
type Revoke struct {
	// ToolCallID is the call with whose approval the grant came: the grant's id.
	ToolCallID string `json:"toolCallId"`

	// By is the person. Required.
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// CheckRevoke reports the first field that is wrong.
func CheckRevoke(r Revoke) error {
	switch {
	case r.ToolCallID == "":
		return fieldErrorf("toolCallId", "is required: the id of the grant")
	case len(r.ToolCallID) > maxWord:
		return fieldErrorf("toolCallId", "must be at most %d bytes long", maxWord)
	case r.By == "":
		return fieldErrorf("by", "is required: who revokes is kept")
	}
	return firstOf(event.CheckName("by", r.By), checkReason(r.Reason))
}

// ToolResult is the result of a call that a connected client has run: the payload of
// signal and update "tool_result".
type ToolResult struct {
	ToolCallID string `json:"toolCallId"`
	Output     string `json:"output"`
	IsError    bool   `json:"isError,omitempty"`

	// By is the client or the person who has run it. Required.
	By string `json:"by"`

	// Agent and ToolName, if given, must be those of the call.
	Agent    string `json:"agent,omitempty"`
	ToolName string `json:"toolName,omitempty"`
}

// CheckToolResult reports the first field that is wrong.
func CheckToolResult(r ToolResult) error {
	switch {
	case r.ToolCallID == "":
		return fieldErrorf("toolCallId", "is required")
	case r.By == "":
		return fieldErrorf("by", "is required: who has run the call is kept")
	case len(r.Output) > MaxPayload:
		return fieldErrorf("output", "is %d bytes, at most %d are taken; put large data elsewhere and refer to it", len(r.Output), MaxPayload)
	}
	return event.CheckName("by", r.By)
}

// Approvals answers query "approvals".
type Approvals struct {
	Approvals []event.ApprovalRequest `json:"approvals"`

	// ClientCalls wait for a connected client to run them.
	ClientCalls []event.ClientCall `json:"clientCalls"`
}

// Bounds of a thread's turn limit.
const (
	DefaultTurnLimit = 5
	MaxTurnLimit     = 1000
)

// CheckTurnLimit reports whether n can be a thread's turn limit; 0 is the default.
func CheckTurnLimit(n int) error {
	if n < 0 || n > MaxTurnLimit {
		return fieldErrorf("turnLimit", "is %d, must be 1 to %d LLM calls (default %d)", n, MaxTurnLimit, DefaultTurnLimit)
	}
	return nil
}
