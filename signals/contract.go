package signals

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/threadmill/threadmill/event"
)

// Names of the workflows and their activities.
const (
	ThreadWorkflow = "thread"

	// HookWorkflow runs the hooks and processors of one event.
	HookWorkflow = "hook"

	ActivityCallModel = "call_model"
	ActivityRunTool   = "run_tool"
	ActivityRecord    = "record"
	ActivityNotify    = "notify"
	ActivityRunHooks  = "run_hooks"
	ActivityPlanCalls = "plan_calls"

	// ActivityLoadEvent loads the content of an event that only the store has.
	ActivityLoadEvent = "load_event"

	// ActivityHandleEvent runs the function of a rule.
	ActivityHandleEvent = "handle_event"

	// ActivityTitleThread gives a thread a title.
	ActivityTitleThread = "title_thread"
)

// DefaultTaskQueue is where threads run unless configured otherwise.
const DefaultTaskQueue = "threadmill"

// DefaultNamespace is the namespace of threads when none is given.
const DefaultNamespace = "default"

// Names of signals.
const (
	SignalPost    = "post"
	SignalDecide  = "decide"
	SignalControl = "control"

	// SignalHookDecided comes from a hook workflow to a thread that has moved to a new
	// run since it started it. It is not for clients.
	SignalHookDecided = "hook_decided"

	// SignalReport asks a hook workflow for [SignalHookDecided]. It is not for clients.
	SignalReport = "report"
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

// Search attributes, all of type Keyword or KeywordList. They change only when a
// person would filter on them: created, waiting for approval, closed.
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

// Fields of a thread's memo. The thread of a sub-agent names the one that it works for.
const (
	MemoTitle  = "title"
	MemoAgents = "agents"
	MemoParent = "parent"
)

// MaxPayload is the largest payload of a post, in bytes. Temporal itself refuses
// more than 2 MiB.
const MaxPayload = 256 << 10

// WorkflowID is the id of a thread's workflow.
func WorkflowID(namespace, threadID string) string { return "thread/" + namespace + "/" + threadID }

// HookWorkflowID is the id of the workflow that runs the hooks of an event. A hook
// workflow of your own that it starts has "/" and the hook's name behind that.
func HookWorkflowID(namespace, threadID, eventID string) string {
	return "hook/" + namespace + "/" + threadID + "/" + eventID
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$`)

// CheckID reports whether s can be a namespace, thread, or event id: 1 to 128
// letters, digits and . _ : @ -, beginning with a letter or digit.
func CheckID(field, s string) error {
	if !idForm.MatchString(s) {
		return &event.FieldError{Field: field, Problem: fmt.Sprintf("%q must be 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit", s)}
	}
	return nil
}

var eventIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_:@-]{0,127}$`)

// CheckEventID reports whether s can be the id of a posted event. Unlike other ids
// it has no dots: ids with dots are derived from it.
func CheckEventID(field, s string) error {
	if !eventIDForm.MatchString(s) {
		return &event.FieldError{Field: field, Problem: fmt.Sprintf("%q must be 1 to 128 letters, digits and _ : @ -, beginning with a letter or digit", s)}
	}
	return nil
}

// ParseWorkflowID splits a thread's workflow id.
func ParseWorkflowID(id string) (namespace, threadID string, err error) {
	rest, ok := strings.CutPrefix(id, "thread/")
	namespace, threadID, found := strings.Cut(rest, "/")
	if !ok || !found {
		return "", "", fmt.Errorf("workflow id %q is not thread/<namespace>/<thread id>", id)
	}
	if err := CheckID("namespace", namespace); err != nil {
		return "", "", err
	}
	return namespace, threadID, CheckID("threadId", threadID)
}

// Start is the input of a thread workflow. All of it is optional.
type Start struct {
	// Agents take part in the thread. Empty = the default agent.
	Agents   []string        `json:"agents,omitempty"`
	Title    string          `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// TurnLimit is how many LLM calls an agent may make before a person or the world
	// speaks again. Default [DefaultTurnLimit].
	TurnLimit int `json:"turnLimit,omitempty"`

	// First is the event with which the thread begins, if any.
	First *Post `json:"first,omitempty"`
}

// OnBusy says what a message does to a turn in progress.
type OnBusy string

// What a message can do to a turn in progress.
const (
	// Enqueue waits for the turn to end. The default.
	Enqueue OnBusy = "enqueue"
	// Steer joins the turn before its next model call.
	Steer OnBusy = "steer"
	// Interrupt ends the turn, keeping what it has said so far.
	Interrupt OnBusy = "interrupt"
	// Reject refuses the message.
	Reject OnBusy = "reject"
)

// Post puts an event into a thread's queue: the payload of signal and update
// "post" and of update "turn".
type Post struct {
	// ID makes the post idempotent. Left out, the thread derives one.
	ID string `json:"id,omitempty"`

	// Type is "message" (the default) or another type of event.
	Type string `json:"type,omitempty"`

	// Timestamp, in milliseconds since 1970, and Metadata make the post an environment
	// event: see [EnvPost]. With either, the other has a default: now, and {}.
	Timestamp int64           `json:"timestamp,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	// Payload of a message is an event.NewMessage; of other types, any JSON.
	Payload json.RawMessage `json:"payload,omitempty"`

	// Priority: higher first. Default 0; of background events, event.BackgroundPriority.
	Priority int `json:"priority,omitempty"`

	// TTL in milliseconds: an event that still waits then is expired. 0 = no limit.
	TTL           int64  `json:"ttl,omitempty"`
	TraceID       string `json:"traceId,omitempty"`
	ParentEventID string `json:"parentEventId,omitempty"`

	// OnBusy of a message. Default "enqueue".
	OnBusy OnBusy `json:"onBusy,omitempty"`

	// OnWaiting of a message: what it does to turns that wait for people. Default: as the
	// agents that wait are configured.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`

	// Agents that answer a message, whoever is addressed in it. They need not take part
	// in the thread. Empty = as the thread routes it.
	Agents []string `json:"agents,omitempty"`

	// Tools are the only ones that agents may call in the turn of this event, as far as
	// they have them. Nil = all that they have; empty = none.
	Tools *[]string `json:"tools,omitempty"`
}

// UserMessage makes the post of a person's message.
func UserMessage(threadID, sender, content string) Post {
	return NewPost("", event.NewMessage{ThreadID: threadID, SenderID: sender, SenderType: event.User, Content: content})
}

// NewID returns a new id for a thread or an event: a ULID, which sorts by time.
func NewID() string { return ulid.Make().String() }

// NewPost makes the post of a message.
func NewPost(id string, m event.NewMessage) Post {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("signals: message metadata has no JSON form: " + err.Error())
	}
	return Post{ID: id, Type: event.TypeMessage, Payload: raw}
}

// PostResult answers update "post".
type PostResult struct {
	EventID string `json:"eventId"`
	Status  string `json:"status" enum:"queued,duplicate" doc:"duplicate: the thread already has this id, and nothing was added"`
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

// PostBatch is the payload of update "post_batch": posts that the thread takes in order, as if
// each had come alone. At most [MaxBatchPosts], with payloads and metadata of [MaxBatchBytes]
// together, unless there is only one.
type PostBatch struct {
	Posts []Post `json:"posts"`
}

// PostBatchResult answers update "post_batch": a result for each post, in order. If no post
// changes anything, the update is rejected with an application error of type [NothingPostedType],
// and this is its details.
type PostBatchResult struct {
	Results []PostOutcome `json:"results"`
}

// PostOutcome is what became of one post of a batch.
type PostOutcome struct {
	EventID string `json:"eventId,omitempty"`

	// Status is that of a [PostResult], or the type of the error that update "post" would have
	// returned: [RefusedType], [FullType], [BusyType], [ClosedType]. Error is its message.
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// CheckBatch reports why a batch is rejected as a whole.
func CheckBatch(b PostBatch) error {
	if n := len(b.Posts); n == 0 || n > MaxBatchPosts {
		return fieldErrorf("posts", "are %d, must be 1 to %d", n, MaxBatchPosts)
	}
	size := 0
	for _, p := range b.Posts {
		size += p.Size()
	}
	if len(b.Posts) > 1 && size > MaxBatchBytes {
		return fieldErrorf("posts", "are %d bytes together, must be at most %d", size, MaxBatchBytes)
	}
	return nil
}

// Size is the size of a post's content, in bytes.
func (p Post) Size() int { return len(p.Payload) + len(p.Metadata) }

// Control steers a thread: the payload of signal "control".
type Control struct {
	Action ControlAction `json:"action"`
	By     string        `json:"by,omitempty"`
	Reason string        `json:"reason,omitempty"`

	// EventID of retry: the failed event. Empty = the one that failed last. Of interrupt:
	// the event whose turn ends, or which is taken out of the queue. Empty = the turn in
	// progress, whatever it is.
	EventID string `json:"eventId,omitempty"`
}

// ControlAction is what a [Control] does.
type ControlAction string

// The control actions.
const (
	// ControlInterrupt ends the current turn and keeps the partial reply.
	ControlInterrupt ControlAction = "interrupt"
	// ControlClose ends the thread. What waits is settled as interrupted.
	ControlClose ControlAction = "close"
	// ControlRetry puts a failed event back into the queue.
	ControlRetry ControlAction = "retry"
)

// TurnStatus says how a turn ended.
type TurnStatus string

// How a turn can end.
const (
	TurnCompleted   TurnStatus = "completed"
	TurnFailed      TurnStatus = "failed"
	TurnInterrupted TurnStatus = "interrupted"
	TurnExpired     TurnStatus = "expired"

	// TurnUnanswered: no agent was addressed.
	TurnUnanswered TurnStatus = "unanswered"

	// TurnUnhandled: no hook or processor matches an event of this custom type.
	TurnUnhandled TurnStatus = "unhandled"

	// TurnHeld: a rule holds the event back. What follows from it is a turn of its own.
	TurnHeld TurnStatus = "held"

	// TurnContinues is not an end: the thread has moved to a new run, and the caller
	// asks again with the same event id. [Client.Turn] does.
	TurnContinues TurnStatus = "continues"
)

// TurnResult answers update "turn".
type TurnResult struct {
	EventID string          `json:"eventId"`
	Status  TurnStatus      `json:"status,omitempty" doc:"How the turn ended: completed, failed, interrupted, expired, unanswered or unhandled; processed if that is no longer kept"`
	Message *event.Message  `json:"message,omitempty" doc:"The final message of the turn, if there is one"`
	Replies []event.Message `json:"replies,omitempty" doc:"The final messages of all agents that took part, if there are several; message is the last of them"`
	Error   string          `json:"error,omitempty" doc:"Why the turn failed"`

	// LastRecord is the id of the turn's last record, if that was still to be stored when
	// the turn ended. Everything of the turn is in the store once this record is.
	LastRecord string `json:"lastRecord,omitempty" hidden:"true"`
}

// AllReplies are the final messages of the turn, however many there are.
func (r TurnResult) AllReplies() []event.Message {
	if len(r.Replies) == 0 && r.Message != nil {
		return []event.Message{*r.Message}
	}
	return r.Replies
}

// ThreadStatus says what a thread is doing.
type ThreadStatus string

// What a thread can be doing.
const (
	Idle            ThreadStatus = "idle"
	Running         ThreadStatus = "running"
	WaitingApproval ThreadStatus = "waiting_approval"
	Closed          ThreadStatus = "closed"
)

// State answers query "state".
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

	// Tasks counts the background tasks that run.
	Tasks int `json:"tasks,omitempty"`

	// Held are events that rules hold back, by debounce or throttle.
	Held []HeldEvents `json:"held,omitempty"`

	// Parent is the thread for which this one works, if it is that of a sub-agent.
	Parent string `json:"parent,omitempty"`

	// Failed are the events that failed and can be retried, the newest last.
	Failed []event.Item `json:"failed,omitempty"`
	Usage  event.Usage  `json:"usage"`

	// TurnLimit is the thread's. LLMCalls counts the LLM calls of each agent since a person
	// or the world last spoke.
	TurnLimit int            `json:"turnLimit"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty"`

	// HistoryEvents is the length of the workflow's current run.
	HistoryEvents int `json:"historyEvents"`
}

// HeldEvents are the events that one rule holds back.
type HeldEvents struct {
	Rule string `json:"rule"`

	// Count is how many there are, EventID the last of them.
	Count   int       `json:"count"`
	EventID string    `json:"eventId,omitempty"`
	Until   time.Time `json:"until"`
}

// TurnState describes the turn in progress.
type TurnState struct {
	EventID   string     `json:"eventId"`
	TraceID   string     `json:"traceId"`
	StartedAt time.Time  `json:"startedAt"`
	Runs      []RunState `json:"runs"`

	// Deciding are the events on which hook workflows decide. Nothing else happens to
	// them before they have.
	Deciding []Deciding `json:"deciding,omitempty"`
}

// Deciding is an event on which a hook workflow decides.
type Deciding struct {
	EventID   string `json:"eventId"`
	EventType string `json:"eventType"`

	// Hooks and processors that match the event, in the order in which they are asked.
	Hooks []string `json:"hooks"`

	// WorkflowID is the hook workflow's: it shows which of them it waits for.
	WorkflowID string `json:"workflowId"`
}

// RunState describes what one agent does in a turn.
type RunState struct {
	Agent string `json:"agent"`
	Step  int    `json:"step"`

	// Doing is "model", "tools", "hooks" while the run can do nothing before these have
	// decided, or "done".
	Doing string `json:"doing"`

	// Tools of the calls that have no result yet.
	Tools []string `json:"tools,omitempty"`

	// Threads of the sub-agents that the run waits for.
	Threads []string `json:"threads,omitempty"`

	// Retrying is set while the model does not answer.
	Retrying *Retrying `json:"retrying,omitempty"`
}

// Retrying says that a model has not answered for a while, and is called again.
type Retrying struct {
	// Since is when the first attempt failed, Attempts is how many have.
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`

	// Class of the last failure: rate_limit, server_error, unreachable. Error is for people.
	Class         string    `json:"class,omitempty"`
	Error         string    `json:"error"`
	NextAttemptAt time.Time `json:"nextAttemptAt"`
}

// Queue answers query "queue".
type Queue struct {
	Processing *event.Item  `json:"processing,omitempty" doc:"The event that is being processed, if there is one"`
	Waiting    []event.Item `json:"waiting,omitempty" doc:"Further events whose turns wait for people"`
	Items      []event.Item `json:"items" nullable:"false" doc:"Pending events, in the order in which they will be processed"`
	Failed     []event.Item `json:"failed" nullable:"false" doc:"Failed events that can be retried, the newest last"`
	Ended      []event.Item `json:"ended" nullable:"false" doc:"The last 32 ended events, the newest last. The thread keeps no payloads of them; its records have all events"`
}

// Find returns the item of an event, if the thread still knows it.
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

// Next returns what is processed next: the first of Items whose time has not run out. The
// thread marks the others as expired once it comes to them.
func (q Queue) Next(now time.Time) (event.Item, bool) {
	for _, it := range q.Items {
		if it.TTL == 0 || now.Sub(it.CreatedAt) <= time.Duration(it.TTL)*time.Millisecond {
			return it, true
		}
	}
	return event.Item{}, false
}

// SetStatus changes the status of a queued event by hand: the payload of update
// "set_status".
//
//   - pending: a failed event is retried; the one that is being processed is interrupted,
//     and processed again.
//   - completed, failed, expired, overwritten: an event that waits is never processed;
//     the turn of the one that is being processed is interrupted; a failed one is done
//     with.
type SetStatus struct {
	EventID string       `json:"eventId"`
	Status  event.Status `json:"status" enum:"pending,completed,failed,expired,overwritten" doc:"pending processes the event again; the others end it"`

	// By is required; the HTTP API fills it in.
	By     string `json:"by" required:"false" maxLength:"128" doc:"Who does it; it is stored. Default: api"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// SetStatusResult answers update "set_status".
type SetStatusResult struct {
	// Item is the event as it stands then.
	Item event.Item `json:"item"`
}
