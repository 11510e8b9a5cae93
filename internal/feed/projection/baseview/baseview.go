// Package baseview is the view of a thread in the base protocol: the seven types of agent event that each client knows, with
// their own fields and no others.
package baseview

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/signals"
)

// Projection is the projection of threads to events of the base protocol.
type Projection = projection.Projection[event.AgentEvent]

// New returns the projection.
func New(f *feed.Feed, s projection.Store) Projection {
	return Projection{Feed: f, New: func(v projection.Viewer) projection.Projector[event.AgentEvent] {
		return &projector{Past: projection.Past{Store: s, Key: v.Key}, begun: map[string]bool{}}
	}}
}

// events are the events of one item.
type events = projection.Events[event.AgentEvent]

type projector struct {
	projection.Past

	// begun are the messages in progress of which the viewer had pieces. The value is true if pieces were lost since, so
	// that the message follows whole.
	begun map[string]bool
}

// Project derives the events of an item.
func (pr *projector) Project(ctx context.Context, item feed.Item) (events, error) {
	switch e := item.Event; e.Type {
	case event.EventThought, event.EventStream:
		if e.Content == "" {
			return nil, nil // it only announces the reply
		}
		if _, known := pr.begun[e.MessageID]; !known {
			pr.begun[e.MessageID] = false
		}
		return one(event.AgentEvent{Type: e.Type, Content: e.Content}), nil
	case event.EventToolCall:
		return one(event.AgentEvent{Type: e.Type, ToolName: e.ToolName, ToolArgs: e.ToolArgs}), nil
	case event.EventToolProgress:
		return one(event.AgentEvent{Type: e.Type, ToolName: e.ToolName, Data: e.Data}), nil
	case event.EventToolResult:
		return one(event.AgentEvent{Type: e.Type, ToolName: e.ToolName, Output: e.Output, IsError: e.IsError}), nil
	case event.EventFinal:
		return one(event.AgentEvent{Type: e.Type}), nil
	case event.EventError:
		delete(pr.begun, e.MessageID) // it stays unfinished
		return one(event.AgentEvent{Type: e.Type, Error: e.Error}), nil
	case event.EventMessage:
		return pr.message(ctx, item)
	case event.EventStatus:
		if e.EndsTurn() && e.Status.Turn == string(signals.TurnUnanswered) {
			return one(event.AgentEvent{Type: event.EventFinal}), nil // no agent took part, so none has told the end
		}
	case event.EventGap:
		for id := range pr.begun {
			pr.begun[id] = true
		}
	case "":
		if item.Record != nil && item.Record.Type == event.TypeLLMCall {
			pr.NoteCall(item.Record)
		}
	default: // the base protocol does not have it
	}
	return nil, nil
}

// message returns the text of an agent's message that the viewer did not get in pieces. The protocol cannot take text
// back, so it has nothing for a message that hooks have changed after it was shown.
func (pr *projector) message(ctx context.Context, item feed.Item) (events, error) {
	msg := item.Event.Message
	lost := pr.begun[msg.ID]
	delete(pr.begun, msg.ID)
	if msg.SenderType != event.CreatedByAgent || msg.Content == "" {
		return nil, nil
	}
	if item.Record.Type == event.TypeHook {
		was, there, err := pr.Original(ctx, msg.ID)
		if err != nil || there && !was.Held {
			return nil, err
		}
	} else if attempt, _ := pr.Attempt(msg.ID); item.Streamed >= attempt && !lost {
		return nil, nil
	}
	return one(event.AgentEvent{Type: event.EventStream, Content: msg.Content}), nil
}

func one(e event.AgentEvent) events { return events{&e} }
