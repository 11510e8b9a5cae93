package worldview

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// events are the events of a world that are derived from one item.
type events = projection.Events[event.WorldEvent]

type projector struct {
	projection.Past
	store Store

	// show is [projection.Viewer].Show. [Messages] returns everything as stored, and has none.
	show feed.View
}

func newProjector(s Store, v projection.Viewer) *projector {
	return &projector{Past: projection.Past{Store: s, Key: v.Key}, store: s, show: v.Show}
}

// Project derives the events of an item.
func (pr *projector) Project(ctx context.Context, item feed.Item) (events, error) {
	if item.Record == nil {
		return pr.live(item), nil
	}
	var calls []event.ToolCall
	if msg := item.Event.Message; msg != nil {
		calls = msg.ToolCalls
	}
	if isInfoCall(item.Record, item.Event.ToolCallID, calls) {
		return nil, nil
	}
	switch e := item.Event; e.Type {
	case event.EventMessage:
		return pr.message(ctx, item)
	case event.EventFinal:
		return pr.final(ctx, item)
	case event.EventToolCall:
		return events{pr.tool(item, event.WorldToolStart, event.WorldToolCall{Input: parameters(e.ToolArgs)})}, nil
	case event.EventToolResult:
		return pr.result(ctx, item)
	case event.EventApprovalRequest:
		return pr.request(item), nil
	case event.EventApproval:
		return pr.decision(ctx, item)
	case event.EventClientCall:
		return events{pr.activity(item, "client-call", e.Agent, e.ClientCall.ToolName+" ("+e.ToolCallID+")")}, nil
	case event.EventInputRequest:
		return events{pr.activity(item, "input-request", e.Agent, e.Input.ToolName+" ("+e.ToolCallID+")")}, nil
	case event.EventInputReceived:
		source := "input-received"
		if e.Received.Withdrawn {
			source = "input-withdrawn"
		}
		return events{pr.activity(item, source, e.Agent, e.Received.ToolName+" ("+e.ToolCallID+")")}, nil
	case event.EventError:
		return events{pr.system(item, e.Error)}, nil
	case event.EventStatus:
		return pr.status(item), nil
	case event.EventEnvironment:
		return pr.environment(item), nil
	case "":
		if item.Record.Type == event.TypeLLMCall {
			pr.NoteCall(item.Record)
		}
		return nil, nil
	default:
		return nil, nil
	}
}

// isInfoCall reports whether a record is about a call that no agent made: it shows agents an event,
// which people see as it is.
func isInfoCall(r *event.Record, callID string, calls []event.ToolCall) bool {
	id := recordid.InfoCall(r.ParentEventID)
	return callID == id || len(calls) == 1 && calls[0].ID == id
}

// live returns the events of a piece.
func (pr *projector) live(item feed.Item) events {
	switch e := item.Event; e.Type {
	case event.EventThought, event.EventStream:
		out := make(events, 2)
		if item.Begins {
			out[0] = pr.begin(item, e.MessageID, e.Attempt)
		}
		if e.Type == event.EventStream && e.Content != "" {
			out[1] = pr.sse(item, event.WorldSSE{Type: event.WorldSSEChunk, Content: e.Content, MessageID: e.MessageID})
		}
		return out
	case event.EventReset:
		if e.Attempt > item.Streamed {
			return nil // its first piece follows
		}
		return events{pr.sse(item, event.WorldSSE{Type: event.WorldSSEReset, MessageID: e.MessageID})}
	case event.EventToolProgress:
		return events{pr.tool(item, event.WorldToolProgress, event.WorldToolCall{Progress: orNull(e.Data)})}
	case event.EventGap:
		return events{pr.system(item, e.Detail)}
	case event.EventStatus:
		return events{pr.activity(item, e.Status.Status, e.Agent, e.Status.Detail)}
	default:
		return nil
	}
}

// environment returns the events of an environment event.
func (pr *projector) environment(item feed.Item) events {
	if item.Record.Type == event.TypeHook {
		return nil // the event is known
	}
	e := item.Event.Env
	return events{pr.activity(item, e.Type, string(e.Metadata.Source), e.ID)}
}

// message returns the events of a whole message. A model's message stands between its start, if the
// viewer did not get that, and its end.
func (pr *projector) message(ctx context.Context, item feed.Item) (events, error) {
	msg := *item.Event.Message
	if item.Record.Type == event.TypeHook {
		return pr.changed(ctx, item, msg)
	}
	if attempt, known := pr.Attempt(msg.ID); known {
		return pr.reply(item, msg, attempt, pr.Call.Usage), nil
	}
	return events{pr.messageEvent(item, msg)}, nil
}

func (pr *projector) reply(item feed.Item, msg event.Message, attempt int, usage event.Usage) events {
	out := make(events, 3)
	if item.Streamed < attempt {
		out[0] = pr.begin(item, msg.ID, attempt)
	}
	out[1], out[2] = pr.end(item, msg.ID, usage), pr.messageEvent(item, msg)
	return out
}

// changed returns the events of a message that hooks have changed: a held message appears now,
// another one has an update.
func (pr *projector) changed(ctx context.Context, item feed.Item, msg event.Message) (events, error) {
	was, there, err := pr.Original(ctx, msg.ID)
	switch {
	case err != nil:
		return nil, err
	case !there || !was.Held:
		return events{pr.update(item, msg.ID, pr.messageOf(msg, pr.at(item)))}, nil
	}
	call, there, err := pr.callOf(ctx, msg.ID)
	if err != nil {
		return nil, err
	}
	if !there {
		return events{pr.messageEvent(item, msg)}, nil
	}
	return pr.reply(item, msg, call.Attempt, call.Usage), nil
}

// final returns the end of an agent's run, and of an empty reply.
func (pr *projector) final(ctx context.Context, item feed.Item) (events, error) {
	id, out := item.MessageID(), make(events, 3)
	out[2] = pr.activity(item, "response-end", item.Event.Agent, "")
	attempt, known := pr.Attempt(id)
	if item.Event.MessageID != "" || !known {
		return out, nil
	}
	if _, there, err := pr.Original(ctx, id); err != nil || there {
		return out, err
	}
	if item.Streamed < attempt {
		out[0] = pr.begin(item, id, attempt)
	}
	out[1] = pr.end(item, id, pr.Call.Usage)
	return out, nil
}

// callOf returns the model call of a message, if there is one.
func (pr *projector) callOf(ctx context.Context, messageID string) (call event.LLMCall, there bool, err error) {
	records, err := pr.Records(ctx, recordid.LLMCall(messageID))
	if err != nil || len(records) == 0 {
		return call, false, err
	}
	return call, json.Unmarshal(records[0].Payload, &call) == nil, nil
}

// status returns the events of a change of the thread, or of an interruption.
func (pr *projector) status(item feed.Item) events {
	s := item.Event.Status
	chat := event.WorldChat{Status: store.ThreadOpen, Agents: s.Agents, Detail: s.Detail, By: s.By}
	operation := event.WorldUpdate
	switch s.Status {
	case event.StatusOpened:
		operation = event.WorldCreate
	case event.StatusUpdated:
	case event.StatusClosed:
		chat.Status = store.ThreadClosed
	case event.StatusInterrupted:
		return events{pr.system(item, projection.Interruption(*s))}
	default:
		return events{pr.activity(item, s.Status, s.By, s.Detail)}
	}
	return events{pr.crud(item, event.WorldCRUD{
		Operation: operation, EntityType: event.EntityChat, EntityID: pr.Key.ThreadID, EntityData: chat,
	})}
}
