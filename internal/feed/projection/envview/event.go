package envview

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// streamEvent is the payload of stream.* events. Type is the part after "stream.".
type streamEvent struct {
	Type       string  `json:"type"`
	Content    *string `json:"content,omitempty"`
	ToolName   string  `json:"toolName,omitempty"`
	ToolArgs   *string `json:"toolArgs,omitempty"`
	ToolCallID string  `json:"toolCallId,omitempty"`
	Error      string  `json:"error,omitempty"`
	Detail     string  `json:"detail,omitempty"`

	// EventID is the event that failed or whose turn was interrupted.
	EventID   string `json:"eventId,omitempty"`
	MessageID string `json:"messageId,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Agent     string `json:"agent,omitempty"`
}

// toolEvent is the payload of tool.executed and tool.error.
type toolEvent struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Agent      string `json:"agent"`
	Output     string `json:"output"`
	IsError    bool   `json:"isError"`
}

// progressEvent is the payload of background_task.progress.
type progressEvent struct {
	TaskID   string          `json:"taskId"`
	ToolName string          `json:"toolName,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	Data     json.RawMessage `json:"data"`
}

// sessionEvent is the payload of session.created, session.updated and session.deleted.
type sessionEvent struct {
	SessionID string   `json:"sessionId"`
	Agents    []string `json:"agents,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	By        string   `json:"by,omitempty"`
}

func (pr *projector) stream(item feed.Item, p streamEvent) *event.EnvEvent {
	if p.Agent == "" {
		p.Agent = item.Event.Agent
	}
	return pr.event(item, event.SourceLLM, "stream."+p.Type, p)
}

// start returns the start of a message. Its id is the same whether pieces or the whole message
// follow.
func (pr *projector) start(item feed.Item, messageID string, attempt int) *event.EnvEvent {
	e := pr.stream(item, streamEvent{Type: "start", MessageID: messageID, Attempt: attempt})
	e.ID = signals.EventID(pr.Key.Namespace, pr.Key.ThreadID, e.Type, messageID, strconv.Itoa(attempt))
	return e
}

// failure returns the early end of an event's processing.
func (pr *projector) failure(item feed.Item, problem string) *event.EnvEvent {
	return pr.stream(item, streamEvent{Type: "error", Error: problem, EventID: item.Record.ParentEventID})
}

// result returns the event of a tool's result.
func (pr *projector) result(item feed.Item) events {
	e := item.Event
	if e.ToolCallID == recordid.InfoCall(item.Record.ParentEventID) {
		// Not called by an agent: it shows the model the event of the turn.
		return nil
	}
	typ := event.TypeToolExecuted
	if e.IsError {
		typ = event.TypeToolError
	}
	out := pr.event(item, event.SourceTool, typ, toolEvent{e.ToolCallID, e.ToolName, e.Agent, e.Output, e.IsError})
	if item.Record.Type == event.TypeMessage {
		out.ID = pr.resultID(e.ToolCallID, typ)
	}
	return events{out}
}

// progress returns the event of a background task's progress. Other calls have none.
func (pr *projector) progress(item feed.Item) events {
	p, ok := item.Event.TaskProgress()
	if !ok {
		return nil
	}
	if len(p.Data) == 0 {
		p.Data = json.RawMessage("null")
	}
	payload := progressEvent{p.TaskID, item.Event.ToolName, item.Event.Agent, p.Data}
	return events{pr.event(item, event.SourceTool, event.TypeBackgroundTaskProgress, payload)}
}

// status returns the event of a change of the thread, or of an interruption.
func (pr *projector) status(item feed.Item) events {
	s := item.Event.Status
	var typ string
	switch s.Status {
	case event.StatusOpened:
		typ = event.TypeSessionCreated
	case event.StatusUpdated:
		typ = event.TypeSessionUpdated
	case event.StatusClosed:
		typ = event.TypeSessionDeleted
	case event.StatusInterrupted:
		return events{pr.failure(item, projection.Interruption(*s))}
	default:
		return nil
	}
	return events{pr.event(item, event.SourceSystem, typ, sessionEvent{pr.Key.ThreadID, s.Agents, s.Detail, s.By})}
}

// event returns an event of an item. Pieces have no time; the time of their events is the time of
// delivery.
func (pr *projector) event(item feed.Item, source event.Source, typ string, payload any) *event.EnvEvent {
	raw, err := json.Marshal(payload)
	if err != nil {
		raw = json.RawMessage("null") // invalid JSON of a tool
	}
	at, origin := time.Now(), "live "+strconv.FormatInt(item.Cursor.Offset, 10)
	if item.Record != nil {
		at, origin = item.Record.CreatedAt, item.Record.ID
	}
	return &event.EnvEvent{
		ID:        signals.EventID(pr.Key.Namespace, pr.Key.ThreadID, typ, origin, item.Event.ToolCallID),
		Type:      typ,
		Timestamp: at.UnixMilli(),
		Metadata:  event.EnvMetadata{TriggerSessionID: pr.Key.ThreadID, Source: source},
		Payload:   raw,
	}
}
