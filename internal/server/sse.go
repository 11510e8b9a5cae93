package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
)

// retryAfter is how long a client waits before it reconnects, in milliseconds.
const retryAfter = "500"

// enter counts a viewer, unless there are too many. Call leave when it has gone.
func (s *server) enter() (leave func(), err error) {
	if s.viewers.Add(1) > int64(s.MaxViewers) {
		s.viewers.Add(-1)
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(
			fmt.Sprintf("%d event streams are open, which is the most that this server serves", s.MaxViewers)),
			http.Header{"Retry-After": {"5"}})
	}
	return sync.OnceFunc(func() { s.viewers.Add(-1) }), nil
}

// eventWriter writes server-sent events. Its methods return false when the client
// has gone.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
}

// keptBuffer is the largest event that is copied to a buffer, which a viewer keeps.
const keptBuffer = 4 << 10

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, rc: http.NewResponseController(w)}
}

// begin writes the header. A stream that starts now gets its place at once, in an
// event without data, so that a client that is cut before the first event resumes
// there.
func (o *eventWriter) begin(now bool, start place) bool {
	h := o.w.Header()
	h.Set("Content-Type", typeSSE)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept")
	h.Set("X-Accel-Buffering", "no")
	o.buf = append(o.buf[:0], "retry: "+retryAfter+"\n"...)
	if now && !start.IsZero() {
		o.buf = append(append(append(o.buf, "id: "...), start.String()...), '\n')
	}
	o.buf = append(o.buf, '\n')
	o.w.WriteHeader(http.StatusOK)
	return o.write(true)
}

// event writes one event. Without flush more are about to follow.
func (o *eventWriter) event(e sent, flush bool) bool {
	data, err := json.Marshal(e.event)
	if err != nil { // a piece whose data is no JSON; the next ones may be
		return true
	}
	o.buf = append(append(append(o.buf[:0], "id: "...), e.id...), "\ndata: "...)
	if len(data) > keptBuffer {
		if !o.write(false) {
			return false
		}
		if _, err := o.w.Write(data); err != nil {
			return false
		}
		o.buf = append(o.buf[:0], "\n\n"...)
		return o.write(flush)
	}
	o.buf = append(append(o.buf, data...), "\n\n"...)
	return o.write(flush)
}

func (o *eventWriter) heartbeat() bool {
	o.buf = append(o.buf[:0], ": heartbeat\n\n"...)
	return o.write(true)
}

func (o *eventWriter) write(flush bool) bool {
	if _, err := o.w.Write(o.buf); err != nil {
		return false
	}
	return !flush || o.rc.Flush() == nil
}

func isClosed(item feed.Item) bool {
	return item.Event.Type == event.EventStatus && item.Event.Status.Status == event.StatusClosed
}

// pagedEvent is an agent event with its id.
type pagedEvent struct{ item feed.Item }

// MarshalJSON puts the id before the fields of the event.
func (e pagedEvent) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(e.item.Event)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"id":"`), e.item.Cursor.String()...)
	return append(append(out, `",`...), data[1:]...), nil
}

// Schema describes the event's form on the wire.
func (pagedEvent) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[PagedEvent](), true, "PagedEvent")
}

// AgentEvent describes [event.AgentEvent] on the wire, for the API's description.
type AgentEvent struct {
	Type       string              `json:"type" enum:"thought,tool_call,tool_progress,tool_result,stream,final,error,message,approval_request,approval,client_call,status,reset,gap"`
	EventID    string              `json:"eventId,omitempty" doc:"The event whose turn this is part of: the id under which it was posted. A message that joined a turn has the id of that turn's event"`
	CreatedAt  time.Time           `json:"createdAt,omitzero" doc:"When it was stored. Live events have none"`
	Content    string              `json:"content,omitempty" doc:"Of thought and stream: a piece of text"`
	ToolName   string              `json:"toolName,omitempty"`
	ToolArgs   string              `json:"toolArgs,omitempty" doc:"Of tool_call: the raw JSON arguments"`
	Data       any                 `json:"data,omitempty" doc:"Of tool_progress: any JSON"`
	Output     string              `json:"output,omitempty" doc:"Of tool_result"`
	IsError    bool                `json:"isError,omitempty" doc:"Of tool_result"`
	Error      string              `json:"error,omitempty" doc:"Of error"`
	MessageID  string              `json:"messageId,omitempty" doc:"The message that the event belongs to. Of thought, stream and reset: the one that the piece is part of; a message event with this id supersedes its pieces. Of tool calls, results and approvals: the reply that asks for them. Of final: the reply that ended the run of the agent; of error: the one that failed"`
	Attempt    int                 `json:"attempt,omitempty" doc:"Of thought, stream and reset: which attempt to produce the message. A reset begins one: pieces of those before are void"`
	Agent      string              `json:"agent,omitempty"`
	ToolCallID string              `json:"toolCallId,omitempty" doc:"A tool_call or tool_result with an id that has come before supersedes that one: a hook has changed it"`
	Message    *event.Message      `json:"message,omitempty" doc:"A message with an id that has come before supersedes that one: a hook has changed it"`
	Request    *ApprovalRequest    `json:"request,omitempty" doc:"Of approval_request: a call waits for people, who are asked for the first time, anew or reminded"`
	Approval   *Approval           `json:"approval,omitempty" doc:"Of approval: what was decided on a call. While missing is not 0 it still waits"`
	Call       *ClientCall         `json:"call,omitempty" doc:"Of client_call: a call waits for a connected client to run it"`
	Status     *event.StatusChange `json:"status,omitempty" doc:"Of status. turn_ended announces the end of a turn, once, after its last record: turn says how it ended. When its status is intercepted, detail says what hooks did"`
	Detail     string              `json:"detail,omitempty" doc:"Of gap: what was lost"`
}

// PagedEvent is an [AgentEvent] with its id.
type PagedEvent struct {
	ID string `json:"id" doc:"Where a page or a stream can begin: cursor, lastEventId, Last-Event-ID"`
	AgentEvent
}
