package feed

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// worldMade are the events of a world that are made of one item.
type worldMade = slots[event.WorldEvent]

// worldMaker makes events of a world of the items of one thread, in their order.
type worldMaker struct {
	past

	// view is what the viewer sees of what is looked up. [Feed.WorldMessages] shows all as it
	// is stored, and has none.
	view View
}

func newWorldMaker(s Store, key store.Key) *worldMaker {
	return &worldMaker{past: past{store: s, key: key}}
}

// events makes the events of an item.
func (m *worldMaker) events(ctx context.Context, item Item) (worldMade, error) {
	if item.record == nil {
		return m.live(item), nil
	}
	if ofThread(item) {
		return nil, nil
	}
	switch e := item.Event; e.Type {
	case event.EventMessage:
		return m.message(ctx, item)
	case event.EventFinal:
		return m.final(ctx, item)
	case event.EventToolCall:
		return worldMade{m.tool(item, event.WorldToolStart, event.WorldToolCall{Input: parameters(e.ToolArgs)})}, nil
	case event.EventToolResult:
		return m.result(ctx, item)
	case event.EventApprovalRequest:
		return m.request(item), nil
	case event.EventApproval:
		return m.decision(ctx, item)
	case event.EventClientCall:
		return worldMade{m.activity(item, "client-call", e.Agent, e.ClientCall.ToolName+" ("+e.ToolCallID+")")}, nil
	case event.EventError:
		return worldMade{m.system(item, e.Error)}, nil
	case event.EventStatus:
		return m.status(item), nil
	case "":
		return m.stored(item), nil
	default:
		return nil, nil
	}
}

// ofThread reports whether no agent has asked for a call: so agents are shown an event, which
// people see as it is.
func ofThread(item Item) bool {
	shown := "call_" + item.record.ParentEventID
	if msg := item.Event.Message; msg != nil && len(msg.ToolCalls) == 1 && msg.ToolCalls[0].ID == shown {
		return true
	}
	return item.Event.ToolCallID == shown
}

// live makes the events of a piece.
func (m *worldMaker) live(item Item) worldMade {
	switch e := item.Event; e.Type {
	case event.EventThought, event.EventStream:
		out := make(worldMade, 2)
		if item.begins {
			out[0] = m.start(item, e.MessageID, e.Attempt)
		}
		if e.Type == event.EventStream && e.Content != "" {
			out[1] = m.sse(item, event.WorldSSE{Type: event.WorldSSEChunk, Content: e.Content, MessageID: e.MessageID})
		}
		return out
	case event.EventReset:
		return worldMade{m.sse(item, event.WorldSSE{Type: event.WorldSSEStart, MessageID: e.MessageID})}
	case event.EventToolProgress:
		return worldMade{m.tool(item, event.WorldToolProgress, event.WorldToolCall{Progress: orNull(e.Data)})}
	case event.EventGap:
		return worldMade{m.system(item, e.Detail)}
	case event.EventStatus:
		return worldMade{m.activity(item, e.Status.Status, e.Agent, e.Status.Detail)}
	default:
		return nil
	}
}

// stored is what is made of a record that viewers of agent events do not see.
func (m *worldMaker) stored(item Item) worldMade {
	switch item.record.Type {
	case event.TypeEnv:
		var e event.EnvEvent
		if json.Unmarshal(item.record.Payload, &e) == nil {
			return worldMade{m.activity(item, e.Type, string(e.Metadata.Source), e.ID)}
		}
	case event.TypeLLMCall:
		m.hear(item.record)
	}
	return nil
}

// message is made of a message as a whole. That of a model comes behind its start, if the
// viewer has not had that, and its end.
func (m *worldMaker) message(ctx context.Context, item Item) (worldMade, error) {
	msg := *item.Event.Message
	if item.record.Type == event.TypeHook {
		return m.changed(ctx, item, msg)
	}
	if attempt, known := m.attempt(msg.ID); known {
		return m.reply(item, msg, attempt, m.call.Usage), nil
	}
	return worldMade{m.said(item, msg)}, nil
}

func (m *worldMaker) reply(item Item, msg event.Message, attempt int, usage event.Usage) worldMade {
	out := make(worldMade, 3)
	if item.begun < attempt {
		out[0] = m.start(item, msg.ID, attempt)
	}
	out[1], out[2] = m.end(item, msg.ID, usage), m.said(item, msg)
	return out
}

// changed is made of a message as hooks have left it: one that was held until then comes
// now, and of another one the change.
func (m *worldMaker) changed(ctx context.Context, item Item, msg event.Message) (worldMade, error) {
	was, there, err := m.original(ctx, msg.ID)
	switch {
	case err != nil:
		return nil, err
	case !there || !was.Held:
		return worldMade{m.update(item, msg.ID, m.messageOf(msg, m.at(item)))}, nil
	}
	call, there, err := m.callOf(ctx, msg.ID)
	if err != nil {
		return nil, err
	}
	if !there {
		return worldMade{m.said(item, msg)}, nil
	}
	return m.reply(item, msg, call.Attempt, call.Usage), nil
}

// final is the end of what an agent does, and of a reply that says nothing.
func (m *worldMaker) final(ctx context.Context, item Item) (worldMade, error) {
	id, out := item.messageID(), make(worldMade, 3)
	out[2] = m.activity(item, "response-end", item.Event.Agent, "")
	attempt, known := m.attempt(id)
	if item.Event.MessageID != "" || !known {
		return out, nil
	}
	if _, there, err := m.original(ctx, id); err != nil || there {
		return out, err
	}
	if item.begun < attempt {
		out[0] = m.start(item, id, attempt)
	}
	out[1] = m.end(item, id, m.call.Usage)
	return out, nil
}

// callOf is the model call that has made a message, if one has.
func (p *past) callOf(ctx context.Context, messageID string) (call event.LLMCall, there bool, err error) {
	records, err := p.records(ctx, event.LLMCallID(messageID))
	if err != nil || len(records) == 0 {
		return call, false, err
	}
	return call, json.Unmarshal(records[0].Payload, &call) == nil, nil
}

// status is made of the changes of the thread itself, and of the end of what was
// interrupted.
func (m *worldMaker) status(item Item) worldMade {
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
		return worldMade{m.system(item, interruption(*s))}
	default:
		return worldMade{m.activity(item, s.Status, s.By, s.Detail)}
	}
	return worldMade{m.crud(item, event.WorldCRUD{
		Operation: operation, EntityType: event.EntityChat, EntityID: m.key.ThreadID, EntityData: chat,
	})}
}
