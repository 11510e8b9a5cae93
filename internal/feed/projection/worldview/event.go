package worldview

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
)

// event returns an event of an item. part distinguishes events of the same type and item.
func (pr *projector) event(item feed.Item, typ event.WorldEventType, part string, data any) *event.WorldEvent {
	out := &event.WorldEvent{Type: typ, Timestamp: pr.at(item), ChatID: pr.Key.ThreadID, Data: data}
	origin := "live " + strconv.FormatInt(item.Cursor.Offset, 10)
	if item.Record != nil {
		origin, out.Meta = item.Record.ID, metaOf(item)
	}
	out.ID = pr.id(typ, origin, part)
	return out
}

func (pr *projector) id(typ event.WorldEventType, parts ...string) string {
	return signals.EventID(append([]string{pr.Key.Namespace, pr.Key.ThreadID, "world", string(typ)}, parts...)...)
}

// at returns the time at which an item was stored, or the current time for a piece.
func (pr *projector) at(item feed.Item) time.Time {
	if item.Record != nil {
		return item.Record.CreatedAt
	}
	return time.Now().UTC()
}

// metaOf returns the context of an event that is derived from a record.
func metaOf(item feed.Item) *event.WorldMeta {
	e, out := item.Event, &event.WorldMeta{TraceID: item.TraceID, ThreadRootID: item.Record.ParentEventID}
	if out.ThreadRootID == "" {
		out.ThreadRootID = item.Record.ID
	}
	if e.Agent != "" {
		out.Agents = []string{e.Agent}
	}
	if e.ToolCallID != "" {
		out.ToolCallIDs = []string{e.ToolCallID}
	}
	if e.Message != nil {
		out.ReplyToMessageID = e.Message.ReplyToMessageID
		for _, call := range e.Message.ToolCalls {
			out.ToolCallIDs = append(out.ToolCallIDs, call.ID)
		}
	}
	if s := e.Status; s != nil {
		out.Agents = append(out.Agents, s.Agents...)
	}
	return out
}

func (pr *projector) sse(item feed.Item, data event.WorldSSE) *event.WorldEvent {
	data.AgentName, data.ChatID = item.Event.Agent, pr.Key.ThreadID
	return pr.event(item, event.WorldSSEEvent, string(data.Type), data)
}

// begin returns the start of a message or, if the viewer has pieces of an earlier attempt at it, its
// reset. The id is the same whether pieces or the whole message follow.
func (pr *projector) begin(item feed.Item, messageID string, attempt int) *event.WorldEvent {
	if item.Streamed > 0 {
		out := pr.sse(item, event.WorldSSE{Type: event.WorldSSEReset, MessageID: messageID})
		out.ID = pr.id(out.Type, string(event.WorldSSEReset), messageID, strconv.Itoa(attempt))
		return out
	}
	out := pr.sse(item, event.WorldSSE{Type: event.WorldSSEStart, MessageID: messageID})
	out.ID = pr.id(out.Type, string(event.WorldSSEStart), messageID)
	return out
}

func (pr *projector) end(item feed.Item, messageID string, usage event.Usage) *event.WorldEvent {
	return pr.sse(item, event.WorldSSE{Type: event.WorldSSEEnd, MessageID: messageID, Usage: &usage})
}

// tool returns the event of a tool for an item that names its call.
func (pr *projector) tool(item feed.Item, typ event.WorldEventType, call event.WorldToolCall) *event.WorldEvent {
	e := item.Event
	call.ToolName, call.ToolCallID = e.ToolName, e.ToolCallID
	data := event.WorldTool{AgentName: e.Agent, Type: typ, MessageID: callsMessage(item), ToolExecution: call, ChatID: pr.Key.ThreadID}
	return pr.event(item, typ, e.ToolCallID, data)
}

func (pr *projector) system(item feed.Item, content string) *event.WorldEvent {
	out := pr.event(item, event.WorldSystemEvent, "", nil)
	out.Data = event.WorldSystem{Content: content, MessageID: out.ID, Timestamp: out.Timestamp, ChatID: out.ChatID}
	return out
}

func (pr *projector) activity(item feed.Item, typ, source, detail string) *event.WorldEvent {
	return pr.event(item, event.WorldActivityEvent, "", event.WorldActivity{
		Type: typ, Source: source, MessageID: item.Event.MessageID, Detail: detail, Timestamp: pr.at(item), ChatID: pr.Key.ThreadID,
	})
}

func (pr *projector) crud(item feed.Item, data event.WorldCRUD) *event.WorldEvent {
	data.Timestamp, data.ChatID = pr.at(item), pr.Key.ThreadID
	return pr.event(item, event.WorldCRUDEvent, data.EntityID, data)
}

// update returns the event of a changed message.
func (pr *projector) update(item feed.Item, messageID string, data any) *event.WorldEvent {
	return pr.crud(item, event.WorldCRUD{
		Operation: event.WorldUpdate, EntityType: event.EntityMessage, EntityID: messageID, EntityData: data,
	})
}

// statusUpdate returns the event of a changed call status in a message, or nil if the message has
// no id.
func (pr *projector) statusUpdate(item feed.Item, messageID, callID string, status event.ToolCallStatus) *event.WorldEvent {
	if messageID == "" {
		return nil
	}
	return pr.update(item, messageID, event.WorldMessageStatus{
		MessageID: messageID, ToolCallStatus: map[string]event.ToolCallStatus{callID: status},
	})
}

// messageEvent returns the event of a message.
func (pr *projector) messageEvent(item feed.Item, msg event.Message) *event.WorldEvent {
	return pr.worldMessageEvent(item, pr.messageOf(msg, pr.at(item)))
}

func (pr *projector) worldMessageEvent(item feed.Item, msg event.WorldMessage) *event.WorldEvent {
	out := pr.event(item, event.WorldMessageEvent, "", msg)
	if out.Meta != nil {
		out.Meta.ReplyToMessageID = msg.ReplyToMessageID
	}
	return out
}

// messageOf returns a message in the form of a world. Its calls are undecided.
func (pr *projector) messageOf(msg event.Message, at time.Time) event.WorldMessage {
	return event.WorldMessage{
		Sender: msg.SenderID, Content: msg.Content, Role: roleOf(msg), Timestamp: at, MessageID: msg.ID, ChatID: pr.Key.ThreadID,
		AgentName: msg.AgentID, AgentID: msg.AgentID, ToolCallID: msg.ToolCallID, ReplyToMessageID: msg.ReplyToMessageID,
		ToolCalls: msg.ToolCalls, ToolCallStatus: open(msg.ToolCalls),
	}
}

// open is the status of undecided calls.
func open(calls []event.ToolCall) map[string]event.ToolCallStatus {
	if len(calls) == 0 {
		return nil
	}
	out := map[string]event.ToolCallStatus{}
	for _, call := range calls {
		out[call.ID] = event.ToolCallStatus{}
	}
	return out
}

// roleOf returns the role of a message by its sender. Messages of the world itself address the
// agents, as a user's do.
func roleOf(msg event.Message) string {
	if msg.SenderType == event.CreatedByTool && msg.ToolCallID == "" {
		return event.RoleUser
	}
	return msg.SenderType.Role()
}

// parameters returns the arguments of a call as JSON: invalid JSON as a string.
func parameters(arguments string) json.RawMessage {
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	text, _ := json.Marshal(arguments)
	return text
}

func orNull(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}
