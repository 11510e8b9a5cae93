package signals

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Names of further signals, updates and activities for tool calls.
const (
	// SignalRevoke and UpdateRevoke have a [Revoke] as payload.
	SignalRevoke = "revoke"
	UpdateRevoke = "revoke"

	// SignalToolResult and UpdateToolResult have a [ToolResult] as payload.
	SignalToolResult = "tool_result"
	UpdateToolResult = "tool_result"

	// SignalAnswerInput and UpdateAnswerInput have an [InputAnswers] as payload.
	SignalAnswerInput = "answer_input"
	UpdateAnswerInput = "answer_input"
)

// Decide is a decision on a tool call that waits for approval: the payload of signal and update
// "decide".
type Decide struct {
	ToolCallID string `json:"toolCallId"`

	// What is decided on the call.
	Decision event.Decision `json:"decision" enum:"approve,deny"`

	// How far an approval reaches: this call; the same call again, by the same agent in this thread; or calls that
	// match the pattern. Default: once. A denial is for once.
	Scope event.Scope `json:"scope,omitempty" enum:"once,session,pattern"`

	// Of a denial: the agent is told.
	Reason string `json:"reason,omitempty" maxLength:"4096"`

	// Who decides; it is stored. The name of the API key, or without one what the client sends. Default: api.
	//
	// It is required; the HTTP API fills it in.
	By string `json:"by" required:"false"`

	// An object: the arguments that run instead of the call's own. They are checked like those, and stored beside them.
	// With scope once only.
	Args json.RawMessage `json:"args,omitempty"`

	// With scope pattern: globs by argument name. All other arguments must be equal.
	Pattern map[string]string `json:"pattern,omitempty"`

	// The round of the request, if it has one.
	Round int `json:"round,omitempty" minimum:"0"`

	// If given, the call must be this agent's.
	//
	// The decision is a mismatch unless the request has it, and the values of the fields below. None of them changes
	// what runs.
	Agent string `json:"agent,omitempty"`

	// If given, the call must be of this tool.
	ToolName string `json:"toolName,omitempty"`

	// If given, the call's arguments must be these: an object, or the text of the request. They never replace them.
	ToolArgs json.RawMessage `json:"toolArgs,omitempty"`

	// If given, the call must work there.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// If given, the request's digest must be this.
	Digest string `json:"digest,omitempty"`
}

// Checked returns the name of the field that must be validated against the call before the decision
// takes effect, or "".
func (d Decide) Checked() string {
	switch {
	case len(d.Args) > 0:
		return "args"
	case d.Scope == event.ScopePattern:
		return "pattern"
	}
	return ""
}

// DecideResult is the result of updates "decide", "revoke", "tool_result" and "answer_input".
type DecideResult struct {
	// already_resolved if the same was decided before.
	Result DecideOutcome `json:"result" enum:"accepted,already_resolved"`

	// How many more have to approve: the call still waits.
	Missing int `json:"missing,omitempty"`
}

// DecideOutcome is the result of a decision.
type DecideOutcome string

// The values of [DecideOutcome].
const (
	// DecideAccepted means that the decision took effect.
	DecideAccepted DecideOutcome = "accepted"
	// DecideAlreadyResolved means that the same decision was made before.
	DecideAlreadyResolved DecideOutcome = "already_resolved"
	// DecideConflict means that a different decision was made before.
	DecideConflict DecideOutcome = "conflict"
	// DecideMismatch means that the call differs from the one in the decision.
	DecideMismatch DecideOutcome = "mismatch"
	// DecideNotPending means that no such call is pending in this thread.
	DecideNotPending DecideOutcome = "not_pending"
	// DecideNotAllowed means that this person may not decide on the call.
	DecideNotAllowed DecideOutcome = "not_allowed"
)

// DecisionError is the error of a decision, an answer or a revocation that had no effect. It wraps [ErrNotAllowed] or [ErrNotPending] if
// the outcome is one of these.
type DecisionError struct {
	ThreadID   string
	ToolCallID string

	// Outcome is neither [DecideAccepted] nor [DecideAlreadyResolved].
	Outcome DecideOutcome
}

func (e *DecisionError) Error() string {
	why := string(e.Outcome)
	switch e.Outcome {
	case DecideConflict:
		why = "it was decided otherwise before"
	case DecideMismatch:
		why = "it is not the call that the decision describes"
	case DecideNotPending:
		why = ErrNotPending.Error()
	case DecideNotAllowed:
		why = "this person may not decide on it"
	case DecideAccepted, DecideAlreadyResolved:
	}
	return fmt.Sprintf("tool call %q in thread %q: %s", e.ToolCallID, e.ThreadID, why)
}

// Unwrap returns the error that the outcome stands for, if there is one.
func (e *DecisionError) Unwrap() error {
	return map[DecideOutcome]error{DecideNotPending: ErrNotPending, DecideNotAllowed: ErrNotAllowed}[e.Outcome]
}

// Err returns the [*DecisionError] of a result for a call, nil if the decision took effect or was made before.
func (r DecideResult) Err(threadID, toolCallID string) error {
	if r.Result == DecideAccepted || r.Result == DecideAlreadyResolved {
		return nil
	}
	return &DecisionError{threadID, toolCallID, r.Result}
}

// Bounds of a [Decide].
const (
	maxGlobs  = 20
	maxGlob   = 1 << 10
	maxEdited = 64 << 10
)

// Validate reports, as a [*event.FieldError], why a decision is invalid, independent of the
// call.
func (d Decide) Validate() error {
	switch {
	case d.ToolCallID == "":
		return event.FieldErrorf("toolCallId", "is required")
	case d.Decision != event.DecisionApprove && d.Decision != event.DecisionDeny:
		return event.FieldErrorf("decision", "%q is neither approve nor deny", d.Decision)
	case !slices.Contains([]event.Scope{"", event.ScopeOnce, event.ScopeSession, event.ScopePattern}, d.Scope):
		return event.FieldErrorf("scope", "%q is not one of once, session, pattern", d.Scope)
	case d.By == "":
		return event.FieldErrorf("by", "is required: the person who decides")
	case d.Round < 0:
		return event.FieldErrorf("round", "must not be negative")
	}
	if err := firstOf(event.ValidateName("by", d.By), checkReason(d.Reason)); err != nil {
		return err
	}
	if len(d.ToolArgs) > 0 {
		if err := event.ValidateJSON("toolArgs", d.ToolArgs); err != nil {
			return err
		}
	}
	if d.Decision == event.DecisionDeny && d.Scope != "" && d.Scope != event.ScopeOnce {
		return event.FieldErrorf("scope", "must be once for a denial; to deny later calls, write an approval rule")
	}
	return firstOf(checkEdit(d), checkPattern(d))
}

func checkEdit(d Decide) error {
	var object map[string]json.RawMessage
	switch {
	case len(d.Args) == 0:
		return nil
	case len(d.Args) > maxEdited:
		return event.FieldErrorf("args", "is %d bytes, must be at most %d", len(d.Args), maxEdited)
	case d.Decision != event.DecisionApprove:
		return event.FieldErrorf("args", "require an approval: a denied call does not run")
	case d.Scope != "" && d.Scope != event.ScopeOnce:
		return event.FieldErrorf("args", "require scope once: other scopes grant the call as it was requested")
	}
	if err := event.ValidateJSON("args", d.Args); err != nil {
		return err
	}
	if json.Unmarshal(d.Args, &object) != nil || object == nil {
		return event.FieldErrorf("args", "must be a JSON object, the arguments that are to run")
	}
	return nil
}

func checkPattern(d Decide) error {
	switch {
	case (d.Scope == event.ScopePattern) != (len(d.Pattern) > 0):
		return event.FieldErrorf("pattern", "and scope pattern require each other: set both, with globs by the names of arguments")
	case len(d.Pattern) > maxGlobs:
		return event.FieldErrorf("pattern", "has %d globs, must have at most %d", len(d.Pattern), maxGlobs)
	}
	bad := ""
	for name, glob := range d.Pattern {
		// Report the same name for every map order.
		if (glob == "" || len(glob) > maxGlob) && (bad == "" || name < bad) {
			bad = name
		}
	}
	if bad != "" {
		return event.FieldErrorf("pattern."+bad, "must be a glob of 1 to %d bytes", maxGlob)
	}
	return nil
}

// Revoke revokes an approval and its grant: the payload of signal and update "revoke". Calls that
// have run are not affected; those that have not run need a new approval.
type Revoke struct {
	// ToolCallID is the call whose approval created the grant: the grant's id.
	ToolCallID string `json:"toolCallId"`

	// By is the person who revokes the approval. Required.
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// Validate reports the first invalid field.
func (r Revoke) Validate() error {
	switch {
	case r.ToolCallID == "":
		return event.FieldErrorf("toolCallId", "is required: the id of the grant")
	case len(r.ToolCallID) > maxWord:
		return event.FieldErrorf("toolCallId", "must be at most %d bytes long", maxWord)
	case r.By == "":
		return event.FieldErrorf("by", "is required: the person who revokes")
	}
	return firstOf(event.ValidateName("by", r.By), checkReason(r.Reason))
}

// ToolResult is the result of a call that a connected client ran: the payload of signal and update
// "tool_result".
type ToolResult struct {
	ToolCallID string `json:"toolCallId"`
	Output     string `json:"output"`

	// The output says why the call failed.
	IsError bool `json:"isError,omitempty"`

	// The client or person who ran it; it is stored. Default: api.
	//
	// It is required; the HTTP API fills it in.
	By string `json:"by" required:"false"`

	// If given, the call must be this agent's.
	Agent string `json:"agent,omitempty"`

	// If given, the call must be of this tool.
	ToolName string `json:"toolName,omitempty"`
}

// Validate reports the first invalid field.
func (r ToolResult) Validate() error {
	switch {
	case r.ToolCallID == "":
		return event.FieldErrorf("toolCallId", "is required")
	case r.By == "":
		return event.FieldErrorf("by", "is required: the client that ran the call")
	case len(r.Output) > MaxPayload:
		return event.FieldErrorf("output", "is %d bytes, must be at most %d; put large data elsewhere and refer to it", len(r.Output), MaxPayload)
	}
	return event.ValidateName("by", r.By)
}

// InputAnswers is a person's input for a tool call that waits for it: the payload of signal and update
// "answer_input".
type InputAnswers struct {
	ToolCallID string `json:"toolCallId"`

	// The round of the request. Default: 1.
	Round int `json:"round,omitempty" minimum:"0"`

	// An answer for each question, by its id.
	Answers map[string]event.InputAnswer `json:"answers"`

	// Who answers; it is stored. The name of the API key, or without one what the client sends. Default: api.
	//
	// It is required; the HTTP API fills it in.
	By string `json:"by" required:"false"`
}

// Bounds of [InputAnswers].
const (
	MaxInputQuestions = 20
	MaxInputBytes     = 64 << 10
)

// Validate reports the first invalid field. It does not know the questions.
func (a InputAnswers) Validate() error {
	switch {
	case a.ToolCallID == "":
		return event.FieldErrorf("toolCallId", "is required")
	case a.By == "":
		return event.FieldErrorf("by", "is required: the person who answers")
	case a.Round < 0:
		return event.FieldErrorf("round", "must not be negative")
	case len(a.Answers) == 0:
		return event.FieldErrorf("answers", "is required: an answer for each question, by its id")
	case len(a.Answers) > MaxInputQuestions:
		return event.FieldErrorf("answers", "has %d entries, must have at most %d", len(a.Answers), MaxInputQuestions)
	}
	size := 0
	for _, id := range sortedIDs(a.Answers) {
		one := a.Answers[id]
		if size += len(id) + len(one.Content); size > MaxInputBytes {
			return event.FieldErrorf("answers", "is larger than %d bytes", MaxInputBytes)
		}
		if err := one.Validate("answers." + id); err != nil {
			return err
		}
	}
	return event.ValidateName("by", a.By)
}

// sortedIDs returns the ids of the questions in order, so that a workflow reports the same mistake on each
// replay.
//
//workflowcheck:ignore
func sortedIDs(answers map[string]event.InputAnswer) []string {
	return slices.Sorted(maps.Keys(answers))
}

// Approvals is the result of query "approvals".
type Approvals struct {
	// Calls that wait for a decision.
	Approvals []event.ApprovalRequest `json:"approvals" nullable:"false"`

	// Calls that wait for a connected client to run them.
	ClientCalls []event.ClientCall `json:"clientCalls" nullable:"false"`

	// Calls that wait for a person's input.
	Inputs []event.InputRequest `json:"inputs" nullable:"false"`
}

// Bounds of a thread's turn limit.
const (
	DefaultTurnLimit = 5
	MaxTurnLimit     = 1000
)

// validateTurnLimit reports whether n is a valid turn limit. 0 = the default.
func validateTurnLimit(n int) error {
	if n < 0 || n > MaxTurnLimit {
		return event.FieldErrorf("turnLimit", "is %d, must be 1 to %d LLM calls (default %d)", n, MaxTurnLimit, DefaultTurnLimit)
	}
	return nil
}
