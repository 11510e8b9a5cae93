package feed

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// envSources are what environment events are made of: what viewers see of a record, or an
// event without a type for a record that they do not see.
func envSources(r event.Record) []event.AgentEvent {
	if r.Type == event.TypeEnv || r.Type == event.TypeLLMCall {
		return []event.AgentEvent{{}}
	}
	return Events(r)
}

// isHint reports whether an item only tells of the one that follows it.
func isHint(item Item) bool { return item.record != nil && item.record.Type == event.TypeLLMCall }

// isClosing reports whether an item says that the thread has been closed.
func isClosing(item Item) bool {
	return item.Event.Type == event.EventStatus && item.Event.Status.Status == event.StatusClosed
}

// messageID is the message that the item is about. The end of a reply that says nothing
// does not name it.
func (item *Item) messageID() string {
	if item.Event.Type == event.EventFinal && item.Event.MessageID == "" && item.record != nil {
		return event.ReplyOfFinal(item.record.ID)
	}
	return item.Event.MessageID
}

// made are the environment events that are made of one item.
type made = slots[event.EnvEvent]

// envMaker makes environment events of the items of one thread, in their order.
type envMaker struct{ past }

func newEnvMaker(s Store, key store.Key) *envMaker { return &envMaker{past{store: s, key: key}} }

// events makes the events of an item.
func (m *envMaker) events(ctx context.Context, item Item) (made, error) {
	if item.record == nil {
		return m.live(item), nil
	}
	switch e := item.Event; e.Type {
	case event.EventMessage:
		return m.message(ctx, item)
	case event.EventFinal:
		return m.silence(ctx, item)
	case event.EventToolCall:
		if e.ToolCallID == event.InfoCallID(item.record.ParentEventID) {
			// No model has asked for it: so agents are shown the event itself.
			return nil, nil
		}
		return made{m.stream(item, streamEvent{Type: "tool_call", ToolName: e.ToolName, ToolArgs: &e.ToolArgs, ToolCallID: e.ToolCallID})}, nil
	case event.EventToolResult:
		return m.result(item), nil
	case event.EventError:
		return made{m.failure(item, e.Error)}, nil
	case event.EventStatus:
		return m.status(item), nil
	case "":
		return m.stored(item.record), nil
	default: // approvals are for those who decide, client calls for those who run them
		return nil, nil
	}
}

// live makes the events of a piece.
func (m *envMaker) live(item Item) made {
	switch e := item.Event; e.Type {
	case event.EventThought:
		return m.piece(item, "reasoning")
	case event.EventStream:
		return m.piece(item, "text")
	case event.EventToolProgress:
		return m.progress(item)
	case event.EventReset:
		return made{m.stream(item, streamEvent{Type: "reset", MessageID: e.MessageID, Attempt: e.Attempt})}
	case event.EventGap:
		return made{m.stream(item, streamEvent{Type: "gap", Detail: e.Detail})}
	default:
		return nil
	}
}

// stored is what is made of a record that viewers of agent events do not see.
func (m *envMaker) stored(r *event.Record) made {
	switch r.Type {
	case event.TypeEnv:
		var e event.EnvEvent
		if json.Unmarshal(r.Payload, &e) != nil || m.ofResult(e) {
			return nil
		}
		return made{&e}
	case event.TypeLLMCall:
		m.hear(r)
	}
	return nil
}

// piece is made of live text. The first piece of an attempt begins the message.
func (m *envMaker) piece(item Item, typ string) made {
	e, out := item.Event, make(made, 2)
	if item.begins {
		out[0] = m.start(item, e.MessageID, e.Attempt)
	}
	if e.Content != "" {
		out[1] = m.stream(item, streamEvent{Type: typ, Content: &e.Content, MessageID: e.MessageID, Attempt: e.Attempt})
	}
	return out
}

// message is made of an agent's message as a whole: what the viewer has not had as pieces,
// and the end of the reply, unless it asks for tools.
func (m *envMaker) message(ctx context.Context, item Item) (made, error) {
	msg := item.Event.Message
	if msg.SenderType != event.Agent {
		return nil, nil
	}
	attempt, known := m.attempt(msg.ID)
	out := make(made, 3)
	if item.record.Type == event.TypeHook {
		was, there, err := m.original(ctx, msg.ID)
		if err != nil || !there || was.SenderType != event.Agent {
			return nil, err
		}
		if attempt, known = 1, true; !was.Held {
			out[0] = m.stream(item, streamEvent{Type: "reset", MessageID: msg.ID})
		}
	}
	if !known && msg.Content == "" {
		// The thread itself has put it there, for the model to see.
		return nil, nil
	}
	had := item.begun >= attempt
	if out[0] == nil && !had {
		out[0] = m.start(item, msg.ID, attempt)
	}
	if out[0] != nil && msg.Content != "" {
		out[1] = m.stream(item, streamEvent{Type: "text", Content: &msg.Content, MessageID: msg.ID})
	}
	if len(msg.ToolCalls) == 0 && !msg.Interrupted {
		out[2] = m.stream(item, streamEvent{Type: "completed", Content: &msg.Content, MessageID: msg.ID})
	}
	return out, nil
}

// silence is the end of a reply that has no message, since it says nothing.
func (m *envMaker) silence(ctx context.Context, item Item) (made, error) {
	if item.Event.MessageID != "" {
		return nil, nil
	}
	id, nothing := item.messageID(), ""
	if _, there, err := m.original(ctx, id); err != nil || there {
		return nil, err
	}
	out := make(made, 2)
	if attempt, _ := m.attempt(id); item.begun < attempt {
		out[0] = m.start(item, id, attempt)
	}
	out[1] = m.stream(item, streamEvent{Type: "completed", Content: &nothing, MessageID: id})
	return out, nil
}

// ofResult reports whether the thread has made an event of a tool's result, which tells
// the same.
func (m *envMaker) ofResult(e event.EnvEvent) bool {
	if e.Type != event.TypeToolExecuted && e.Type != event.TypeToolError {
		return false
	}
	var p toolEvent
	return json.Unmarshal(e.Payload, &p) == nil && p.ToolCallID != "" && e.ID == m.resultID(p.ToolCallID, e.Type)
}

// resultID is the id that the thread itself gives to the event of a call's result.
func (m *envMaker) resultID(callID, typ string) string {
	return signals.EventID(m.key.Namespace, m.key.ThreadID, callID, typ)
}
