package event

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
)

// ItemStatus is the status of an item in its thread's queue.
type ItemStatus string

// The statuses of a queue item.
const (
	ItemPending     ItemStatus = "pending"
	ItemProcessing  ItemStatus = "processing"
	ItemCompleted   ItemStatus = "completed"
	ItemFailed      ItemStatus = "failed"
	ItemExpired     ItemStatus = "expired"
	ItemOverwritten ItemStatus = "overwritten"
)

// Item is an event in a thread's queue.
type Item struct {
	// Idempotency key: a post with a known id changes nothing.
	ID string `json:"id"`

	// The thread whose queue has the event.
	ThreadID string `json:"threadId"`

	// message, or a custom type.
	Type string `json:"type"`

	// Of a message: threadId, senderId, senderType and content; of other types, any JSON.
	Payload json.RawMessage `json:"payload,omitempty"`

	// Where the event is in its life.
	Status ItemStatus `json:"status" enum:"pending,processing,completed,failed,expired,overwritten"`

	// Higher first, ties in order of arrival.
	Priority int `json:"priority"`

	// Milliseconds from createdAt after which a pending event expires. Left out: no limit.
	TTL int64 `json:"ttl,omitempty"`

	// Shared by everything that follows from one event.
	TraceID string `json:"traceId"`

	// The event that caused this one.
	ParentEventID string `json:"parentEventId,omitempty"`

	// The namespace of the thread.
	Namespace string `json:"namespace"`

	// When the event was posted.
	CreatedAt time.Time `json:"createdAt"`

	// When its status changed last.
	UpdatedAt time.Time `json:"updatedAt"`

	// Of an environment event: when it happened, in milliseconds since 1970.
	Timestamp int64 `json:"timestamp,omitempty"`

	// Of an environment event: what it is about.
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// How often it was retried by hand.
	Attempt int `json:"attempt,omitempty"`

	// Why it failed, expired, was handled by nothing, or was given its status by hand.
	Error string `json:"error,omitempty"`
}

// Env returns the item as an environment event. ok is false if it is not one.
func (it Item) Env() (EnvEvent, bool) {
	if len(it.Metadata) == 0 {
		return EnvEvent{}, false
	}
	e := EnvEvent{ID: it.ID, Type: it.Type, Timestamp: it.Timestamp, Payload: it.Payload}
	// The metadata was validated when the event was posted.
	_ = json.Unmarshal(it.Metadata, &e.Metadata)
	if len(e.Payload) == 0 {
		e.Payload = json.RawMessage("null")
	}
	return e, true
}

// ThreadKey identifies a thread.
type ThreadKey struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`
}

// String returns the key as namespace/threadID, for logs and errors.
func (k ThreadKey) String() string { return k.Namespace + "/" + k.ThreadID }

// Record is a stored event.
type Record struct {
	// Unique in the thread.
	//
	// The workflow derives it, so a retried activity finds the record that its first attempt stored.
	ID string `json:"id"`

	// The number of the record in the thread, from 1, without gaps.
	//
	// The store assigns it.
	Seq int64 `json:"seq"`

	// What the payload is.
	Type string `json:"type"`

	// What happened, in the form of the type.
	//
	// That of a "message" is a [Message]. This package declares the payloads of the other types.
	Payload json.RawMessage `json:"payload"`

	// The trace of the turn, which sub-agents and the events that it caused share.
	TraceID string `json:"traceId,omitempty"`

	// The record or event that caused this one.
	ParentEventID string `json:"parentEventId,omitempty"`

	// The posted event whose turn the record belongs to.
	//
	// Empty outside turns.
	EventID string `json:"eventId,omitempty"`

	// When it was stored.
	CreatedAt time.Time `json:"createdAt"`
}

// NewRecord returns a record with payload as JSON. It panics if payload cannot be marshalled, which
// is a programming error.
func NewRecord(id, typ, traceID, parent string, at time.Time, payload any) Record {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic("event: payload of record " + id + " has no JSON form: " + err.Error())
	}
	return Record{ID: id, Type: typ, Payload: raw, TraceID: traceID, ParentEventID: parent, CreatedAt: at.UTC()}
}

// In returns a copy of the record that belongs to the turn of an event.
func (r Record) In(eventID string) Record {
	r.EventID = eventID
	return r
}

// undecided is the first field in the payload of a record that waits for a decision of hooks.
type undecided struct {
	Undecided []string `json:"undecided,omitempty"`
}

// WithUndecided returns a copy of the record of a message or an environment event that models do
// not see until the record of a decision passes it: either hooks have not decided on it yet, or no
// turn has processed it. For a message, types names the events that are undecided: "message",
// "tool_call" or both. The mark is an extra field of the payload.
func (r Record) WithUndecided(types ...string) Record {
	if len(types) == 0 {
		return r
	}
	mark, err := json.Marshal(undecided{types})
	if err != nil {
		panic("event: a list of types has no JSON form: " + err.Error())
	}
	fields, isObject := bytes.CutPrefix(r.Payload, []byte("{"))
	if !isObject {
		panic("event: only an object can be marked, not the payload of record " + r.ID)
	}
	mark = mark[:len(mark)-1]
	if len(fields) > 1 {
		mark = append(mark, ',')
	}
	r.Payload = append(mark, fields...)
	return r
}

// Decided returns a copy of the record without the mark of [Record.WithUndecided].
func (r Record) Decided() Record {
	types := r.Undecided()
	if len(types) == 0 {
		return r
	}
	mark := Record{ID: r.ID, Payload: json.RawMessage("{}")}.WithUndecided(types...).Payload
	if fields, ok := bytes.CutPrefix(r.Payload, mark[:len(mark)-1]); ok {
		r.Payload = append([]byte("{"), bytes.TrimPrefix(fields, []byte(","))...)
	}
	return r
}

// Undecided returns the types that [Record.WithUndecided] marked.
func (r Record) Undecided() []string {
	if !bytes.Contains(r.Payload, []byte(`"undecided"`)) {
		return nil
	}
	var mark undecided
	// A payload that cannot be decoded has no mark.
	_ = json.Unmarshal(r.Payload, &mark)
	return mark.Undecided
}

// LLMCall is the payload of an "llm_call" record: one successful model call.
type LLMCall struct {
	Agent string `json:"agent"`

	// Model is the model that was called, as "provider/model".
	Model string `json:"model"`

	// AnsweredBy is the provider's name of the model that answered. It may be a version of Model, or
	// another model. Empty if the provider does not tell.
	AnsweredBy string `json:"answeredBy,omitempty"`

	// Tier is the service tier of the call, as the provider names it. Empty if it does not tell.
	Tier string `json:"tier,omitempty"`

	MessageID string `json:"messageId"`
	Step      int    `json:"step"`
	Attempt   int    `json:"attempt"`
	Usage     Usage  `json:"usage"`

	// Messages is the number of messages in the request.
	Messages int `json:"messages"`

	// FinishReason is the provider's finish reason.
	FinishReason string `json:"finishReason,omitempty"`

	// DurationMS is the time from the request to the last token, in milliseconds.
	DurationMS int64 `json:"durationMs"`

	// Context tells what the model saw.
	Context *ModelContext `json:"context,omitempty"`

	// RejectedCalls is the number of tool calls at the end of the reply that exceed the agent's limit.
	// They do not run, and have errors as their results.
	RejectedCalls int `json:"rejectedCalls,omitempty"`

	// Failed are the models of a fallback chain that were to reply before this one.
	Failed []FailedModel `json:"failed,omitempty"`

	// Opaque are the parts of the reply that only its model can read.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// FailedModel is a model of a fallback chain that failed, so that another one was called.
type FailedModel struct {
	// The model, after the name of its provider.
	Model string `json:"model"`

	// How many attempts of this call failed. Missing: the model was skipped, since it had just failed for another call.
	Attempts int `json:"attempts,omitempty"`

	// The kind of the last failure.
	Class string `json:"class,omitempty" enum:"rate_limit,server_error,unreachable,slow"`

	// The last failure, for people.
	Error string `json:"error,omitempty"`
}

// Opaque are parts of a reply that only the model that wrote it can read, such as the signatures of
// its thoughts or its encrypted reasoning. A driver sends them back to their origin only.
type Opaque struct {
	Origin Origin          `json:"origin"`
	Data   json.RawMessage `json:"data"`
}

// Origin is the origin of opaque parts: no other provider, model or account accepts them.
type Origin struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`

	// Key identifies the account, without disclosing its key.
	Key string `json:"key"`
}

// Of returns the data of opaque parts from an origin, or nil.
func (o *Opaque) Of(origin Origin) json.RawMessage {
	if o == nil || o.Origin != origin {
		return nil
	}
	return o.Data
}

// ModelContext tells what a model saw in one call, without a copy of the thread's messages.
type ModelContext struct {
	// Prompt is the id of the "prompt" record: what the agent's calls have in common. Its payload is
	// the request with the model, the instructions, the tools and the parameters, but without the
	// conversation.
	Prompt string `json:"prompt"`

	// Head, Limit, Turn and Question select the transcript: the newest Limit messages when Head was
	// the Seq of the thread's newest record and, however old, the messages of the turn of the event
	// Turn and the message with the id Question; their texts have at most Bytes, and that
	// of a tool's result at most Result, unless these are 0.
	Head     int64  `json:"head"`
	Limit    int    `json:"limit"`
	Turn     string `json:"turn,omitempty"`
	Question string `json:"question,omitempty"`
	Bytes    int    `json:"bytes,omitempty"`
	Result   int    `json:"result,omitempty"`

	// Parts are the conversation, in order.
	Parts []ContextPart `json:"parts"`

	// Digest is the SHA-256 of the conversation. It tells whether it is reproduced exactly.
	Digest string `json:"digest"`
}

// ContextPart is a part of a conversation: either the messages of the transcript from the Seq First
// to the Seq Last, or one message that the transcript does not have.
type ContextPart struct {
	First   int64           `json:"first,omitempty"`
	Last    int64           `json:"last,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	// Of the request.
	InputTokens int `json:"inputTokens"`

	// Of the reply, with its thoughts.
	OutputTokens int `json:"outputTokens"`

	// Of the thoughts.
	ReasoningTokens int `json:"reasoningTokens,omitempty"`

	// Of the request, those that the provider had cached.
	CachedTokens int `json:"cachedTokens,omitempty"`

	// Of the request, those that the provider wrote to its cache.
	//
	// They are part of InputTokens, as CachedTokens are.
	CacheWriteTokens int `json:"cacheWriteTokens,omitempty"`

	// Of the tokens written to the cache, those with a lifetime of an hour. The others live for minutes.
	CacheWriteHourTokens int `json:"cacheWriteHourTokens,omitempty"`

	// Of a sum: the model calls that it is of.
	ModelCalls int `json:"modelCalls,omitempty"`
}

// maxUsage is the maximum of each sum: JavaScript reads no larger number exactly.
const maxUsage = math.MaxInt >> 10

// Add returns the sum of u and v. Negative numbers count as 0, and no sum exceeds 1<<53 - 1.
func (u Usage) Add(v Usage) Usage {
	sum := func(a, b int) int { return min(min(max(a, 0), maxUsage)+min(max(b, 0), maxUsage), maxUsage) }
	return Usage{
		InputTokens:          sum(u.InputTokens, v.InputTokens),
		OutputTokens:         sum(u.OutputTokens, v.OutputTokens),
		ReasoningTokens:      sum(u.ReasoningTokens, v.ReasoningTokens),
		CachedTokens:         sum(u.CachedTokens, v.CachedTokens),
		CacheWriteTokens:     sum(u.CacheWriteTokens, v.CacheWriteTokens),
		CacheWriteHourTokens: sum(u.CacheWriteHourTokens, v.CacheWriteHourTokens),
		ModelCalls:           sum(u.ModelCalls, v.ModelCalls),
	}
}

// StatusChange is the payload of a "status" record.
type StatusChange struct {
	// What happened: opened, updated and closed to the thread, interrupted and turn_ended to a turn, retrying to a
	// model call, the others to the event.
	//
	// It is an [ItemStatus].
	Status string `json:"status" enum:"opened,updated,closed,turn_ended,interrupted,pending,completed,failed,expired,overwritten,retried,unmatched,unhandled,unanswered,intercepted,retrying"`

	// On updated: the agents of the thread, if they changed. On opened: the agents.
	Agents []string `json:"agents,omitempty"`

	// On updated: the new title, if it changed.
	Title string `json:"title,omitempty"`

	// More for people. On turn_ended: the error of the turn, if it has one.
	Detail string `json:"detail,omitempty"`

	// Who caused it, if a person did.
	By string `json:"by,omitempty"`

	// On turn_ended: how the turn ended.
	Turn string `json:"turn,omitempty" enum:"completed,failed,interrupted,expired,held,unanswered"`

	// On turn_ended: the ids of the events that joined the turn.
	Joined []string `json:"joined,omitempty"`

	// On turn_ended: the rule that handled the environment event of the turn.
	Rule string `json:"rule,omitempty"`

	// On retrying: how often the model call has failed, and when the next attempt starts.
	Retry *Retry `json:"retry,omitempty"`
}

// Retry describes a model call that has failed and is retried because the model is unavailable.
type Retry struct {
	// How many attempts have failed.
	Attempts int `json:"attempts"`

	// When the first attempt failed.
	Since time.Time `json:"since"`

	// The kind of the last failure, if it is known.
	Class string `json:"class,omitempty" enum:"rate_limit,server_error,unreachable,slow"`

	// The last failure, for people.
	Error string `json:"error,omitempty"`

	// When the next attempt starts.
	NextAttemptAt time.Time `json:"nextAttemptAt"`

	// The model of the next attempt, if a fallback chain goes on to another one.
	Next string `json:"next,omitempty"`

	// The models of the fallback chain that have failed.
	Failed []FailedModel `json:"failed,omitempty"`
}

// The values of [StatusChange.Status].
const (
	StatusOpened      = "opened"
	StatusInterrupted = "interrupted"
	StatusClosed      = "closed"
	StatusRetried     = "retried"
	StatusUpdated     = "updated"

	// DetailEdited is the detail of a pending message that got another text. Other pending events have
	// moved in the queue.
	DetailEdited = "edited"

	// StatusUnmatched means that no rule matched an environment event.
	StatusUnmatched = "unmatched"

	// StatusUnhandled means that no hook or processor matched a custom event.
	StatusUnhandled = "unhandled"

	// StatusUnanswered means that a person's message mentions none of the thread's agents.
	StatusUnanswered = "unanswered"

	// StatusIntercepted means that hooks or processors decided on an event.
	StatusIntercepted = "intercepted"

	// StatusTurnEnded announces the end of a turn, once, after its last record.
	StatusTurnEnded = "turn_ended"

	// StatusRetrying is live only: a model call failed and will be retried.
	StatusRetrying = "retrying"
)

// Final is the payload of a "final" record: an agent finished its reply.
type Final struct {
	Agent     string `json:"agent"`
	MessageID string `json:"messageId,omitempty"`
}

// TurnEnded is the payload of a "turn_ended" record, the last one of a turn.
type TurnEnded struct {
	// EventID is the event whose turn ended. Joined are the ids of the events that joined the turn.
	EventID string   `json:"eventId"`
	Joined  []string `json:"joined,omitempty"`

	// Status is the result of the turn: completed, failed, interrupted, expired, held or
	// unanswered. Error says why the turn did not complete.
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`

	// Class is the kind of the failure, if a model call failed and it is known.
	Class string `json:"class,omitempty"`

	// Replies are the ids of the final messages of all agents that took part. The last one is that of the turn.
	Replies []string `json:"replies,omitempty"`

	// Rule is the name of the rule that handled the turn's environment event, if one did.
	Rule string `json:"rule,omitempty"`
}

// Failure is the payload of an "error" record: a turn failed.
type Failure struct {
	Agent   string `json:"agent,omitempty"`
	EventID string `json:"eventId"`

	// MessageID is the reply that failed, if a model call failed.
	MessageID string `json:"messageId,omitempty"`
	Error     string `json:"error"`

	// Class is the class of a failed model call, such as context_overflow, if it is known.
	Class string `json:"class,omitempty"`

	// Retryable reports whether a retry may succeed without any change.
	Retryable bool `json:"retryable"`
}

// Rejected is the payload of a "rejected" record: a signal that failed validation and changed
// nothing.
type Rejected struct {
	Signal  string `json:"signal"`
	Problem string `json:"problem"`

	// Input is the start of the signal's payload, at most 1 KiB.
	Input string `json:"input,omitempty"`
}

// Unqueued is the payload of an "unqueued" record: a valid event that arrived by signal when the
// thread could not queue it. It is a failed event that can be retried; the record keeps its
// content.
type Unqueued struct {
	Event Item   `json:"event"`
	Error string `json:"error"`
}

// Interception is the payload of a "hook" record: the decision of hooks and processors on an event.
type Interception struct {
	// EventID is the record of the intercepted event, and EventType its type.
	EventID   string  `json:"eventId"`
	EventType string  `json:"eventType"`
	Outcome   Outcome `json:"outcome"`

	// Hooks are the hooks that ran, in order. Error says why the event failed.
	Hooks []HookOutcome `json:"hooks"`
	Error string        `json:"error,omitempty"`

	// Message replaces the stored message, if it was replaced or held back.
	Message *Message `json:"message,omitempty"`

	// ToolCalls replace the stored tool calls, if the Outcome of a tool_call is replaced.
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`

	// Refused are the tool calls that hooks have refused, with their reasons.
	Refused []Refusal `json:"refused,omitempty"`

	// Agent is the agent that made the ToolCalls.
	Agent string `json:"agent,omitempty"`

	// LLMCall is the changed model call.
	LLMCall *LLMCallEvent `json:"llmCall,omitempty"`

	// Custom is a custom event that replaces the stored event.
	Custom *CustomEvent `json:"custom,omitempty"`

	// Env is an environment event that replaces the stored event.
	Env *EnvEvent `json:"env,omitempty"`

	// Produced are the ids of the events that were queued instead.
	Produced []string `json:"produced,omitempty"`
}

// HookOutcome is the outcome of one hook or processor.
type HookOutcome struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`

	// Error says why the hook failed.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
}

// Outcome is the outcome of an event, or of one hook for it.
type Outcome string

// The outcomes.
const (
	// OutcomePassed means that default processing continues with the unchanged event.
	OutcomePassed Outcome = "passed"
	// OutcomeReplaced means that processing continues with a different event.
	OutcomeReplaced Outcome = "replaced"
	// OutcomeResponded means that messages were sent instead.
	OutcomeResponded Outcome = "responded"
	// OutcomeOverwritten means that a processor replaced the event by other events.
	OutcomeOverwritten Outcome = "overwritten"
	// OutcomeDropped means that the event is ignored.
	OutcomeDropped Outcome = "dropped"
	// OutcomeWithdrawn means that the status of a passed event was set by hand, so models no longer see
	// it.
	OutcomeWithdrawn Outcome = "withdrawn"
	// OutcomeFailed means that the hook failed. If it is the outcome of an event, the event was not
	// processed.
	OutcomeFailed Outcome = "failed"
)
