package envview

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// events are the environment events of one item.
type events = projection.Events[event.EnvEvent]

type projector struct{ projection.Past }

// Project derives the events of an item.
func (pr *projector) Project(ctx context.Context, item feed.Item) (events, error) {
	if item.Record == nil {
		return pr.live(item), nil
	}
	switch e := item.Event; e.Type {
	case event.EventMessage:
		return pr.message(ctx, item)
	case event.EventFinal:
		return pr.emptyReply(ctx, item)
	case event.EventToolCall:
		if e.ToolCallID == recordid.InfoCall(item.Record.ParentEventID) {
			// Not called by an agent: it shows agents the event itself.
			return nil, nil
		}
		return events{pr.stream(item, streamEvent{Type: "tool_call", ToolName: e.ToolName, ToolArgs: &e.ToolArgs, ToolCallID: e.ToolCallID})}, nil
	case event.EventToolResult:
		return pr.result(item), nil
	case event.EventError:
		return events{pr.failure(item, e.Error)}, nil
	case event.EventStatus:
		return pr.status(item), nil
	case event.EventEnvironment:
		return pr.environment(item), nil
	case "":
		if item.Record.Type == event.TypeLLMCall {
			pr.NoteCall(item.Record)
		}
		return nil, nil
	default: // approvals concern people who decide, client calls the clients that run them
		return nil, nil
	}
}

// live returns the events of a piece.
func (pr *projector) live(item feed.Item) events {
	switch e := item.Event; e.Type {
	case event.EventThought:
		return pr.piece(item, "reasoning")
	case event.EventStream:
		return pr.piece(item, "text")
	case event.EventToolProgress:
		return pr.progress(item)
	case event.EventReset:
		return events{pr.stream(item, streamEvent{Type: "reset", MessageID: e.MessageID, Attempt: e.Attempt})}
	case event.EventGap:
		return events{pr.stream(item, streamEvent{Type: "gap", Detail: e.Detail})}
	default:
		return nil
	}
}

// environment returns an environment event as it was published.
func (pr *projector) environment(item feed.Item) events {
	if item.Record.Type == event.TypeHook || pr.ofResult(*item.Event.Env) {
		return nil
	}
	return events{item.Event.Env}
}

// piece returns the events of live text. The first piece of an attempt begins the message.
func (pr *projector) piece(item feed.Item, typ string) events {
	e, out := item.Event, make(events, 2)
	if item.Begins {
		out[0] = pr.start(item, e.MessageID, e.Attempt)
	}
	if e.Content != "" {
		out[1] = pr.stream(item, streamEvent{Type: typ, Content: &e.Content, MessageID: e.MessageID, Attempt: e.Attempt})
	}
	return out
}

// message returns the events of an agent's whole message: the part that the viewer did not get as
// pieces, and the end of the reply, unless it has tool calls.
func (pr *projector) message(ctx context.Context, item feed.Item) (events, error) {
	msg := item.Event.Message
	if msg.SenderType != event.CreatedByAgent {
		return nil, nil
	}
	attempt, known := pr.Attempt(msg.ID)
	out := make(events, 3)
	if item.Record.Type == event.TypeHook {
		was, there, err := pr.Original(ctx, msg.ID)
		if err != nil || !there || was.SenderType != event.CreatedByAgent {
			return nil, err
		}
		if attempt, known = 1, true; !was.Held {
			out[0] = pr.stream(item, streamEvent{Type: "reset", MessageID: msg.ID})
		}
	}
	if !known && msg.Content == "" {
		// The thread itself created it, for the model.
		return nil, nil
	}
	if out[0] == nil && item.Streamed < attempt {
		out[0] = pr.start(item, msg.ID, attempt)
	}
	if out[0] != nil && msg.Content != "" {
		out[1] = pr.stream(item, streamEvent{Type: "text", Content: &msg.Content, MessageID: msg.ID})
	}
	if len(msg.ToolCalls) == 0 && !msg.Interrupted {
		out[2] = pr.stream(item, streamEvent{Type: "completed", Content: &msg.Content, MessageID: msg.ID})
	}
	return out, nil
}

// emptyReply returns the end of an empty reply, which has no message.
func (pr *projector) emptyReply(ctx context.Context, item feed.Item) (events, error) {
	if item.Event.MessageID != "" {
		return nil, nil
	}
	id, nothing := item.MessageID(), ""
	if _, there, err := pr.Original(ctx, id); err != nil || there {
		return nil, err
	}
	out := make(events, 2)
	if attempt, _ := pr.Attempt(id); item.Streamed < attempt {
		out[0] = pr.start(item, id, attempt)
	}
	out[1] = pr.stream(item, streamEvent{Type: "completed", Content: &nothing, MessageID: id})
	return out, nil
}

// ofResult reports whether the thread derived the event from a tool's result, which has the same
// content.
func (pr *projector) ofResult(e event.EnvEvent) bool {
	if e.Type != event.TypeToolExecuted && e.Type != event.TypeToolError {
		return false
	}
	var p toolEvent
	return json.Unmarshal(e.Payload, &p) == nil && p.ToolCallID != "" && e.ID == pr.resultID(p.ToolCallID, e.Type)
}

// resultID returns the id that the thread gives to the event of a call's result.
func (pr *projector) resultID(callID, typ string) string {
	return signals.EventID(pr.Key.Namespace, pr.Key.ThreadID, callID, typ)
}
