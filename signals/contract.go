package signals

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/threadmill/threadmill/event"
)

// Names of the thread and hook workflows and their activities.
const (
	ThreadWorkflow = "thread"

	// HookWorkflow runs the hooks and processors of one event.
	HookWorkflow = "hook"
)

// DefaultTaskQueue is the task queue of the devserver and of command worker.
const DefaultTaskQueue = "threadmill"

// DefaultNamespace is the namespace of threads that do not name one.
const DefaultNamespace = "default"

// Names of signals.
const (
	SignalPost    = "post"
	SignalDecide  = "decide"
	SignalControl = "control"

	// SignalWake has no payload and no effect, except that an idle thread looks at the build on which it should run. It is not
	// for clients.
	SignalWake = "wake"
)

// Names of updates.
const (
	UpdatePost      = "post"
	UpdatePostBatch = "post_batch"
	UpdateDecide    = "decide"
	UpdateTurn      = "turn"
	UpdateSetStatus = "set_status"
)

// Names of queries.
const (
	QueryState     = "state"
	QueryQueue     = "queue"
	QueryApprovals = "approvals"
)

// Search attributes. They change only when a person would filter on them: when a thread is created,
// waits for approval or is closed.
const (
	AttributeNamespace = "ThreadmillNamespace" // Keyword
	AttributeAgents    = "ThreadmillAgents"    // KeywordList
	AttributeStatus    = "ThreadmillStatus"    // Keyword: open, waiting_approval, closed
)

// Values of AttributeStatus.
const (
	StatusOpen            = "open"
	StatusWaitingApproval = "waiting_approval"
	StatusClosed          = "closed"
)

// Fields of a thread's memo. MemoParent is set in a sub-agent's thread and names its parent thread.
const (
	MemoTitle  = "title"
	MemoAgents = "agents"
	MemoParent = "parent"
)

// MaxPayload is the maximum size of a post's payload, in bytes. Temporal itself rejects more than 2
// MiB.
const MaxPayload = 256 << 10

// WorkflowID returns the id of a thread's workflow.
func WorkflowID(namespace, threadID string) string { return "thread/" + namespace + "/" + threadID }

// HookWorkflowID returns the id of the workflow that runs the hooks of an event. A custom hook
// workflow that it starts has this id followed by "/" and the hook's name.
func HookWorkflowID(namespace, threadID, eventID string) string {
	return "hook/" + namespace + "/" + threadID + "/" + eventID
}

// MaxID is the maximum length of the id of a namespace, a thread, a schedule or a posted event, in bytes.
const MaxID = 128

var idForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,%d}$`, MaxID-1))

// ValidateID reports whether s is a valid id of a namespace or a thread: 1 to 128 letters, digits and
// . _ : @ -, beginning with a letter or digit.
func ValidateID(field, s string) error {
	if !idForm.MatchString(s) {
		return event.FieldErrorf(field, "%q must be 1 to %d letters, digits and . _ : @ -, beginning with a letter or digit", s, MaxID)
	}
	return nil
}

var eventIDForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9_:@-]{0,%d}$`, MaxID-1))

// ValidateEventID reports whether s is a valid id of a posted event. Unlike other ids it has no dots,
// since ids with dots are derived from it.
func ValidateEventID(field, s string) error {
	if !eventIDForm.MatchString(s) {
		return event.FieldErrorf(field, "%q must be 1 to %d letters, digits and _ : @ -, beginning with a letter or digit", s, MaxID)
	}
	return nil
}

// ParseWorkflowID returns the namespace and the thread id in a thread's workflow id.
func ParseWorkflowID(id string) (namespace, threadID string, err error) {
	rest, ok := strings.CutPrefix(id, "thread/")
	namespace, threadID, found := strings.Cut(rest, "/")
	if !ok || !found {
		return "", "", fmt.Errorf("workflow id %q is not thread/<namespace>/<thread id>", id)
	}
	if err := ValidateID("namespace", namespace); err != nil {
		return "", "", err
	}
	return namespace, threadID, ValidateID("threadId", threadID)
}

// Start is the input of a thread workflow. All fields are optional.
type Start struct {
	// Agents are the agents of the thread. Empty = the default agent.
	Agents   []string        `json:"agents,omitempty"`
	Title    string          `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// TurnLimit is the number of model calls that an agent may make between messages of users or
	// external events. Default [DefaultTurnLimit].
	TurnLimit int `json:"turnLimit,omitempty"`

	// First is the first event of the thread, if any.
	First *Post `json:"first,omitempty"`
}

// Post adds an event to a thread's queue: the payload of signal and update "post" and of update
// "turn".
type Post struct {
	// ID makes the post idempotent. Default: the thread derives an id.
	ID string `json:"id,omitempty"`

	// Type is the type of the event. Default "message".
	Type string `json:"type,omitempty"`

	// Timestamp, in milliseconds since 1970, and Metadata make the post an environment event: see
	// [EnvPost]. If only one is set, the other defaults to now or {}.
	Timestamp int64           `json:"timestamp,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	// Payload of a message is an event.NewMessage; of other types, any JSON.
	Payload json.RawMessage `json:"payload,omitempty"`

	// Priority orders the queue: higher first. Default 0, or [event.BackgroundPriority] for
	// background events.
	Priority int `json:"priority,omitempty"`

	// TTL is in milliseconds. An event that is still queued after it expires. 0 = no limit.
	TTL           int64  `json:"ttl,omitempty"`
	TraceID       string `json:"traceId,omitempty"`
	ParentEventID string `json:"parentEventId,omitempty"`

	// Traceparent is the W3C trace context that the spans of the turn continue. It has no effect but on traces.
	Traceparent string `json:"traceparent,omitempty"`

	// OnBusy of a message. Default [event.OnBusyEnqueue].
	OnBusy event.OnBusy `json:"onBusy,omitempty"`

	// OnWaiting says how a message affects turns that wait for people. Default: as the waiting
	// agents are configured.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`

	// Agents answer the message instead of those that it addresses. They need not be agents of the
	// thread. Empty = the thread's routing.
	Agents []string `json:"agents,omitempty"`

	// Tools restricts the tools that agents may call in this turn; "server__*" stands for all tools of
	// an MCP server. Nil = no restriction; empty = no tools.
	Tools []string `json:"tools,omitzero"`
}

// UserMessage returns the post of a user's message.
func UserMessage(threadID, sender, content string) Post {
	return NewPost("", event.NewMessage{ThreadID: threadID, SenderID: sender, SenderType: event.CreatedByUser, Content: content})
}

// NewID returns a new id for a thread or an event: a ULID, which sorts by time.
func NewID() string { return ulid.Make().String() }

// NewPost returns the post of a message. It panics if the metadata cannot be marshalled to JSON.
func NewPost(id string, m event.NewMessage) Post {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("signals: message metadata has no JSON form: " + err.Error())
	}
	return Post{ID: id, Type: event.TypeMessage, Payload: raw}
}

// PostResult is the result of update "post".
type PostResult struct {
	// The id of the event: the given one, or a new one.
	EventID string `json:"eventId"`

	// duplicate: the thread already has this id, and nothing was added.
	Status string `json:"status" enum:"queued,duplicate"`

	// Room is the room in the thread's queue, in bytes. A client may send that much by signal, which is not answered, before it
	// asks again.
	Room int `json:"room,omitempty" hidden:"true"`
}

// Statuses of a [PostResult].
const (
	PostQueued    = "queued"
	PostDuplicate = "duplicate"
)

// Bounds of a [PostBatch].
const (
	MaxBatchPosts = 256
	MaxBatchBytes = 512 << 10
)

// PostBatch is the payload of update "post_batch": posts that the thread handles in order, as if
// each were posted alone. It has at most [MaxBatchPosts] posts. Unless there is only one, their
// payloads and metadata have at most [MaxBatchBytes] in total.
type PostBatch struct {
	Posts []Post `json:"posts"`
}

// PostBatchResult is the result of update "post_batch": one result per post, in order. If no post
// changes anything, the update is rejected with an application error of type [NothingPostedType],
// and this is its details.
type PostBatchResult struct {
	Results []PostOutcome `json:"results"`

	// Room is that of [PostResult].
	Room int `json:"room,omitempty"`
}

// PostOutcome is the result of one post of a batch.
type PostOutcome struct {
	EventID string `json:"eventId,omitempty"`

	// Status is a status of [PostResult], or the type of the error that update "post" would have
	// returned:
	// [RefusedType], [FullType], [BusyType], [ClosedType], [ConflictType]. Error is its message.
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// Validate reports why an entire batch is rejected.
func (b PostBatch) Validate() error {
	if n := len(b.Posts); n == 0 || n > MaxBatchPosts {
		return event.FieldErrorf("posts", "has %d entries, must have 1 to %d", n, MaxBatchPosts)
	}
	size := 0
	for _, p := range b.Posts {
		size += p.Size()
	}
	if len(b.Posts) > 1 && size > MaxBatchBytes {
		return event.FieldErrorf("posts", "is %d bytes together, must be at most %d", size, MaxBatchBytes)
	}
	return nil
}

// Size returns the size of a post's content, in bytes.
func (p Post) Size() int { return len(p.Payload) + len(p.Metadata) }

// Control controls a thread: the payload of signal "control".
type Control struct {
	Action ControlAction `json:"action"`
	By     string        `json:"by,omitempty"`
	Reason string        `json:"reason,omitempty"`

	// EventID of retry is the failed event; empty = the one that failed last. EventID of interrupt
	// is the event whose turn ends or that is removed from the queue; empty = the current turn.
	EventID string `json:"eventId,omitempty"`

	// IfIdle makes a close conditional: a thread that has anything to do, or waits for anything, ignores it.
	IfIdle bool `json:"ifIdle,omitempty"`
}

// ControlAction is the action of a [Control].
type ControlAction string

// The control actions.
const (
	// ControlInterrupt ends the current turn and keeps the partial reply.
	ControlInterrupt ControlAction = "interrupt"
	// ControlClose closes the thread. Pending work ends as interrupted.
	ControlClose ControlAction = "close"
	// ControlRetry puts a failed event back into the queue.
	ControlRetry ControlAction = "retry"
)

// TurnStatus is the result of a turn.
type TurnStatus string

// The values of [TurnStatus].
const (
	TurnCompleted   TurnStatus = "completed"
	TurnFailed      TurnStatus = "failed"
	TurnInterrupted TurnStatus = "interrupted"
	TurnExpired     TurnStatus = "expired"

	// TurnUnanswered means that no agent was addressed.
	TurnUnanswered TurnStatus = "unanswered"

	// TurnUnhandled means that no hook or processor matched a custom event.
	TurnUnhandled TurnStatus = "unhandled"

	// TurnHeld means that a rule debounces or throttles the event. It is processed in a separate
	// turn later.
	TurnHeld TurnStatus = "held"

	// TurnContinues is not a result: the thread has continued as new, and the caller must repeat
	// the update with the same event id. Client.Turn of package threadclient does so.
	TurnContinues TurnStatus = "continues"
)

// TurnResult is the result of update "turn".
type TurnResult struct {
	// The event whose turn it is.
	EventID string `json:"eventId"`

	// How the turn ended: completed, failed, interrupted, expired, unanswered or unhandled; processed if that is no
	// longer kept.
	Status TurnStatus `json:"status,omitempty"`

	// The final message of the turn, if there is one.
	Message *event.Message `json:"message,omitempty"`

	// The final messages of all agents that took part, if there are several; message is the last of them.
	Replies []event.Message `json:"replies,omitempty"`

	// Why the turn failed.
	Error string `json:"error,omitempty"`

	// The kind of the failure, if a model call failed and it is known.
	Class string `json:"class,omitempty" enum:"context_overflow,reply_too_large,rate_limit,server_error,unreachable,refused"`

	// The rule that handled the environment event of the turn.
	Rule string `json:"rule,omitempty"`

	// LastRecord is the id of the turn's last record, if that was still to be stored when
	// the turn ended. Everything of the turn is in the store once this record is.
	LastRecord string `json:"lastRecord,omitempty" hidden:"true"`
}

// AllReplies returns all final messages of the turn.
func (r TurnResult) AllReplies() []event.Message {
	if len(r.Replies) == 0 && r.Message != nil {
		return []event.Message{*r.Message}
	}
	return r.Replies
}

// ThreadStatus is the current status of a thread.
type ThreadStatus string

// The values of [ThreadStatus].
const (
	ThreadIdle            ThreadStatus = "idle"
	ThreadRunning         ThreadStatus = "running"
	ThreadWaitingApproval ThreadStatus = "waiting_approval"
	ThreadClosed          ThreadStatus = "closed"
)

// State is the result of query "state".
type State struct {
	Namespace   string          `json:"namespace"`
	ThreadID    string          `json:"threadId"`
	Status      ThreadStatus    `json:"status"`
	Title       string          `json:"title,omitempty"`
	Agents      []string        `json:"agents"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Turn        *TurnState      `json:"turn,omitempty"`
	QueueLength int             `json:"queueLength"`
	Approvals   int             `json:"approvals"`

	// Tasks is the number of running background tasks.
	Tasks int `json:"tasks,omitempty"`

	// Held are the events that rules debounce or throttle.
	Held []HeldEvents `json:"held,omitempty"`

	// Parent is the id of the parent thread, in a sub-agent's thread.
	Parent string `json:"parent,omitempty"`

	// Failed are the failed events that can be retried, newest last.
	Failed []event.Item `json:"failed,omitempty"`
	Usage  event.Usage  `json:"usage"`

	// TurnLimit is the thread's turn limit. LLMCalls counts each agent's model calls since the last
	// message of a user or external event.
	TurnLimit int            `json:"turnLimit"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty"`

	// HistoryEvents is the history length of the current workflow run.
	HistoryEvents int `json:"historyEvents"`
}

// HeldEvents are the events that one rule debounces or throttles.
type HeldEvents struct {
	Rule string `json:"rule"`

	// Count is the number of events, EventID the newest.
	Count   int       `json:"count"`
	EventID string    `json:"eventId,omitempty"`
	Until   time.Time `json:"until"`
}

// TurnState describes the current turn.
type TurnState struct {
	EventID string `json:"eventId"`

	// Root is the event to which the turn's records belong, if it is another: the one that the turn's event was derived from.
	Root string `json:"root,omitempty"`

	TraceID   string     `json:"traceId"`
	StartedAt time.Time  `json:"startedAt"`
	Runs      []RunState `json:"runs"`

	// Deciding are the events that wait for the decision of a hook workflow.
	Deciding []Deciding `json:"deciding,omitempty"`
}

// RecordsOf is the event to which the turn's records belong.
func (t *TurnState) RecordsOf() string { return cmp.Or(t.Root, t.EventID) }

// Deciding is an event that waits for the decision of a hook workflow.
type Deciding struct {
	EventID   string `json:"eventId"`
	EventType string `json:"eventType"`

	// Hooks are the matching hooks and processors, in the order in which they run.
	Hooks []string `json:"hooks"`

	// WorkflowID is the id of the hook workflow, whose details show the hook that it waits for.
	WorkflowID string `json:"workflowId"`
}

// RunState describes the current step of one agent in a turn.
type RunState struct {
	Agent string `json:"agent"`
	Step  int    `json:"step"`

	// Doing is [DoingModel], [DoingTools], [DoingHooks] or [DoingDone].
	Doing string `json:"doing"`

	// Tools are the names of the tools whose calls have no result yet.
	Tools []string `json:"tools,omitempty"`

	// Threads are the threads of the sub-agents that the run waits for.
	Threads []string `json:"threads,omitempty"`

	// Retrying is set while the model is unavailable.
	Retrying *event.Retry `json:"retrying,omitempty"`
}

// What a run does.
const (
	DoingModel = "model"
	DoingTools = "tools"
	DoingHooks = "hooks" // it waits for hooks to decide
	DoingDone  = "done"
)

// Queue is the result of query "queue".
type Queue struct {
	// The event that is being processed, if there is one.
	Processing *event.Item `json:"processing,omitempty"`

	// Further events, whose turns wait for people while another event is processed.
	Waiting []event.Item `json:"waiting,omitempty"`

	// Pending events, in the order in which they will be processed.
	Items []event.Item `json:"items" nullable:"false"`

	// Failed events that can be retried, the newest last.
	Failed []event.Item `json:"failed" nullable:"false"`

	// The last 32 ended events, the newest last. The thread keeps no payloads of them; its records have all events.
	Ended []event.Item `json:"ended" nullable:"false"`
}

// Find returns the item of an event, if the thread still has it.
func (q Queue) Find(eventID string) (event.Item, bool) {
	if q.Processing != nil && q.Processing.ID == eventID {
		return *q.Processing, true
	}
	for _, items := range [][]event.Item{q.Waiting, q.Items, q.Failed, q.Ended} {
		for i := len(items) - 1; i >= 0; i-- {
			if items[i].ID == eventID {
				return items[i], true
			}
		}
	}
	return event.Item{}, false
}

// Next returns the item that is processed next: the first of Items that has not expired. Items expire
// on time, but not while no worker runs.
func (q Queue) Next(now time.Time) (event.Item, bool) {
	for _, it := range q.Items {
		if it.TTL == 0 || now.Sub(it.CreatedAt) <= time.Duration(it.TTL)*time.Millisecond {
			return it, true
		}
	}
	return event.Item{}, false
}

// SetStatus sets the status of a queued event by hand: the payload of update "set_status".
//
//   - pending: a failed event is retried; the turn of the current event is interrupted and the event
//     is processed again.
//   - pending with a priority: an event that waits moves to another place in the queue.
//   - pending with a content: a message that waits gets another text.
//   - completed, failed, expired, overwritten: a pending event is never processed; the turn of the
//     current event is interrupted; a failed event can no longer be retried.
type SetStatus struct {
	EventID string `json:"eventId"`

	// pending processes the event again, or moves it in the queue; the others end it.
	Status event.ItemStatus `json:"status" enum:"pending,completed,failed,expired,overwritten"`

	// With pending: the new priority of an event that waits or failed. Higher first. Default: unchanged.
	Priority *int `json:"priority,omitempty"`

	// With pending: the new text of a message that waits. Its sender alone may change it. Default: unchanged.
	//
	// By must be the message's sender, unless that is anonymous, and nothing may have been done with the message yet.
	// Empty = unchanged.
	Content string `json:"content,omitempty"`

	// Who does it; it is stored. Default: api.
	//
	// It is required; the HTTP API fills it in.
	By string `json:"by" required:"false"`

	// Why, for people: the error of the event.
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// SetStatusResult is the result of update "set_status".
type SetStatusResult struct {
	// Item is the event after the change.
	Item event.Item `json:"item"`
}
