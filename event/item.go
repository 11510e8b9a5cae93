package event

import (
	"bytes"
	"encoding/json"
	"time"
)

// Status is where an item stands in its thread's queue.
type Status string

// The statuses of a queue item.
const (
	Pending     Status = "pending"
	Processing  Status = "processing"
	Completed   Status = "completed"
	Failed      Status = "failed"
	Expired     Status = "expired"
	Overwritten Status = "overwritten"
)

// Item is an event in a thread's queue.
type Item struct {
	ID            string          `json:"id" doc:"Idempotency key: a post with a known id changes nothing"`
	ThreadID      string          `json:"threadId"`
	Type          string          `json:"type" doc:"message, or a custom type"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Of a message: threadId, senderId, senderType and content; of other types, any JSON"`
	Status        Status          `json:"status" enum:"pending,processing,completed,failed,expired,overwritten"`
	Priority      int             `json:"priority" doc:"Higher first, ties in order of arrival"`
	TTL           int64           `json:"ttl,omitempty" doc:"Milliseconds from createdAt after which a pending event expires. Left out: no limit"`
	TraceID       string          `json:"traceId" doc:"Shared by everything that follows from one event"`
	ParentEventID string          `json:"parentEventId,omitempty" doc:"The event that caused this one"`
	Namespace     string          `json:"namespace"`
	CreatedAt     time.Time       `json:"createdAt"`
	UpdatedAt     time.Time       `json:"updatedAt"`
	Timestamp     int64           `json:"timestamp,omitempty" doc:"Of an environment event: when it happened, in milliseconds since 1970"`
	Metadata      json.RawMessage `json:"metadata,omitempty" doc:"Of an environment event: what it is about"`
	Attempt       int             `json:"attempt,omitempty" doc:"How often it was retried by hand"`
	Error         string          `json:"error,omitempty" doc:"Why it failed, expired, or was given its status by hand"`
}

// Env returns the item as an environment event, if it is one.
func (it Item) Env() (EnvEvent, bool) {
	if len(it.Metadata) == 0 {
		return EnvEvent{}, false
	}
	e := EnvEvent{ID: it.ID, Type: it.Type, Timestamp: it.Timestamp, Payload: it.Payload}
	// It was checked when it was published.
	_ = json.Unmarshal(it.Metadata, &e.Metadata)
	if len(e.Payload) == 0 {
		e.Payload = json.RawMessage("null")
	}
	return e, true
}

// Record is an event as stored.
type Record struct {
	// ID is unique in the thread. The workflow derives it, so that a retry of the
	// activity that stores the record finds it there.
	ID string `json:"id"`

	// Seq is the place in the thread, from 1, without gaps. The store gives it.
	Seq  int64  `json:"seq"`
	Type string `json:"type"`

	// Payload of a "message" is a [Message]; for the other types see the payload
	// types of this package.
	Payload json.RawMessage `json:"payload"`

	TraceID       string `json:"traceId,omitempty"`
	ParentEventID string `json:"parentEventId,omitempty"`

	// EventID is the event whose turn the record belongs to: the one that came from
	// outside. Empty outside turns.
	EventID   string    `json:"eventId,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// NewRecord makes a record with the JSON form of payload. It panics if payload
// has no JSON form, which is a mistake in the program.
func NewRecord(id, typ, traceID, parent string, at time.Time, payload any) Record {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic("event: payload of record " + id + " has no JSON form: " + err.Error())
	}
	return Record{ID: id, Type: typ, Payload: raw, TraceID: traceID, ParentEventID: parent, CreatedAt: at.UTC()}
}

// In returns the record as one of the turn of an event.
func (r Record) In(eventID string) Record {
	r.EventID = eventID
	return r
}

// undecided is the first field of the payload of a record on which hooks have still to decide.
type undecided struct {
	Undecided []string `json:"undecided,omitempty"`
}

// WithUndecided marks a record of a message or an environment event as one that models are
// not shown until the record of a decision lets it pass: hooks have still to decide on it,
// or no turn has taken it on. Of a message, types says which events in it are meant,
// "message" or "tool_call". The mark is a field of the payload that the payload's type does
// not have.
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

// Decided is the record without the mark of [Record.WithUndecided].
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

// Undecided returns the types of [Record.WithUndecided].
func (r Record) Undecided() []string {
	if !bytes.Contains(r.Payload, []byte(`"undecided"`)) {
		return nil
	}
	var mark undecided
	// A payload of another form has no mark.
	_ = json.Unmarshal(r.Payload, &mark)
	return mark.Undecided
}

// LLMCall is the payload of an "llm_call" record: one successful call of a model.
type LLMCall struct {
	Agent     string `json:"agent"`
	Model     string `json:"model"`
	MessageID string `json:"messageId"`
	Step      int    `json:"step"`
	Attempt   int    `json:"attempt"`
	Usage     Usage  `json:"usage"`

	// Messages is how many messages the model was shown.
	Messages int `json:"messages"`

	// FinishReason is the provider's word for why the reply ended.
	FinishReason string `json:"finishReason,omitempty"`

	// DurationMS is the time from request to last token, in milliseconds.
	DurationMS int64 `json:"durationMs"`
}

// Usage counts tokens.
type Usage struct {
	InputTokens     int `json:"inputTokens"`
	OutputTokens    int `json:"outputTokens"`
	ReasoningTokens int `json:"reasoningTokens,omitempty"`
	CachedTokens    int `json:"cachedTokens,omitempty"`
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:     u.InputTokens + v.InputTokens,
		OutputTokens:    u.OutputTokens + v.OutputTokens,
		ReasoningTokens: u.ReasoningTokens + v.ReasoningTokens,
		CachedTokens:    u.CachedTokens + v.CachedTokens,
	}
}

// StatusChange is the payload of a "status" record.
type StatusChange struct {
	// Status is one of the Status… words below.
	Status string   `json:"status"`
	Agents []string `json:"agents,omitempty"`

	// Title of "updated" is the thread's new title, if that changed.
	Title  string `json:"title,omitempty"`
	Detail string `json:"detail,omitempty"`
	By     string `json:"by,omitempty"`

	// Turn of "turn_ended" says how the turn ended: completed, failed, interrupted, expired,
	// held or unanswered. Detail has the error, if there is one. Joined are the events that
	// joined the turn: it was theirs, too.
	Turn   string   `json:"turn,omitempty"`
	Joined []string `json:"joined,omitempty"`

	// Retry of "retrying" says how often the model has failed, and when it is called again.
	Retry *Retry `json:"retry,omitempty"`
}

// Retry says when something that failed is tried again.
type Retry struct {
	// Attempts is how many have failed, the first one at Since.
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`

	// Class is rate_limit, server_error or unreachable; empty if the failure has none.
	Class         string    `json:"class,omitempty"`
	NextAttemptAt time.Time `json:"nextAttemptAt"`
}

// What a "status" record can say.
const (
	StatusOpened      = "opened"
	StatusInterrupted = "interrupted"
	StatusClosed      = "closed"
	StatusRetried     = "retried"
	StatusUpdated     = "updated"

	// StatusUnmatched: no rule matched an environment event.
	StatusUnmatched = "unmatched"

	// StatusUnhandled: no hook or processor matched an event of a custom type.
	StatusUnhandled = "unhandled"

	// StatusIntercepted: hooks or processors have decided on an event.
	StatusIntercepted = "intercepted"

	// StatusTurnEnded announces the end of a turn, once, after its last record.
	StatusTurnEnded = "turn_ended"

	// StatusRetrying is live only: a model did not answer, and is asked again.
	StatusRetrying = "retrying"
)

// Final is the payload of a "final" record: an agent has finished its reply.
type Final struct {
	Agent     string `json:"agent"`
	MessageID string `json:"messageId,omitempty"`
}

// TurnEnded is the payload of a "turn_ended" record, the last one of a turn.
type TurnEnded struct {
	// EventID is the event whose turn ended. Joined are those that joined it.
	EventID string   `json:"eventId"`
	Joined  []string `json:"joined,omitempty"`

	// Status is that of the turn's result: completed, failed, interrupted, expired, held or
	// unanswered. Error says why it is not completed.
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// Failure is the payload of an "error" record: a turn failed.
type Failure struct {
	Agent   string `json:"agent,omitempty"`
	EventID string `json:"eventId"`

	// MessageID is the reply that failed, if a model was to make it.
	MessageID string `json:"messageId,omitempty"`
	Error     string `json:"error"`

	// Retryable says that retrying the event may help without any change.
	Retryable bool `json:"retryable"`
}

// Rejected is the payload of a "rejected" record: a signal that changed nothing.
type Rejected struct {
	Signal  string `json:"signal"`
	Problem string `json:"problem"`

	// Input is the start of what was sent, at most 1 KiB.
	Input string `json:"input,omitempty"`
}

// Unqueued is the payload of an "unqueued" record: a valid event that arrived by signal when
// the thread could not queue it. It is a failed event that can be retried, and this is its
// content.
type Unqueued struct {
	Event Item   `json:"event"`
	Error string `json:"error"`
}

// Interception is the payload of a "hook" record: what the hooks and processors that
// saw an event made of it. [InterceptionID] is its record id.
type Interception struct {
	// EventID is the record that they saw, and EventType its type.
	EventID   string  `json:"eventId"`
	EventType string  `json:"eventType"`
	Outcome   Outcome `json:"outcome"`

	// Hooks are those that ran, in their order. Error says why the event failed.
	Hooks []HookOutcome `json:"hooks"`
	Error string        `json:"error,omitempty"`

	// Message holds in place of the stored one, if that was replaced or held back.
	Message *Message `json:"message,omitempty"`

	// ToolCalls are the calls that run in place of the stored ones, when Outcome of a
	// tool_call is replaced.
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`

	// Agent is the one whose ToolCalls they are.
	Agent string `json:"agent,omitempty"`

	// LLMCall is what holds for a model call that was changed.
	LLMCall *LLMCallEvent `json:"llmCall,omitempty"`

	// Custom is the event that holds in place of the stored one, when that is neither
	// of the above.
	Custom *CustomEvent `json:"custom,omitempty"`

	// Env is the environment event that holds in place of the stored one.
	Env *EnvEvent `json:"env,omitempty"`

	// Produced are the ids of the events that were queued instead.
	Produced []string `json:"produced,omitempty"`
}

// HookOutcome is what one hook or processor did.
type HookOutcome struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`

	// Error says why it failed.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
}

// Outcome says what became of an event, or what one hook made of it.
type Outcome string

// The outcomes.
const (
	// Passed: default processing goes on with the event as it was.
	Passed Outcome = "passed"
	// Replaced: it goes on with another event.
	Replaced Outcome = "replaced"
	// Responded: messages were sent instead.
	Responded Outcome = "responded"
	// Produced: a processor made other events of it, which overwrites it.
	Produced Outcome = "overwritten"
	// Dropped: nothing follows from it.
	Dropped Outcome = "dropped"
	// Withdrawn: somebody has set the status of an event that had been passed, so that
	// models are shown it no more.
	Withdrawn Outcome = "withdrawn"
	// HookFailed: the hook failed. An event of which this is said did not go on.
	HookFailed Outcome = "failed"
)
