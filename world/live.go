package world

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/projection/worldview"
	"github.com/threadmill/threadmill/signals"
)

// PublishSSE tells the subscribers of this process of a piece of a reply. Nothing of it is
// stored; a thread's own pieces come by themselves.
func (w *World) PublishSSE(e SSE) { w.tell(event.WorldSSEEvent, e.ChatID, e) }

// PublishToolEvent tells the subscribers of this process what a tool does. Nothing of it is
// stored, and no call has a result by it: see [World.PublishToolResult].
func (w *World) PublishToolEvent(e ToolEvent) { w.tell(e.Type, e.ChatID, e) }

// PublishCRUDEvent tells the subscribers of this process that something was created, updated
// or deleted. Nothing of it is stored, and nothing changes by it. Its Timestamp is by
// default now.
func (w *World) PublishCRUDEvent(e CRUD) {
	if e.Timestamp.IsZero() {
		e.Timestamp = now()
	}
	w.tell(event.WorldCRUDEvent, e.ChatID, e)
}

// PublishApprovalRequest tells the subscribers of this process, by a message, that a call is
// to be approved. No call waits for that, and nothing is stored: a thread asks by itself
// when a call of its own does.
func (w *World) PublishApprovalRequest(q event.ApprovalRequest, chatID string) (messageID string, err error) {
	m, err := worldview.ApprovalMessage(q, signals.NewID(), chatID, now())
	if err != nil {
		return "", err
	}
	w.tell(event.WorldMessageEvent, chatID, m)
	return m.MessageID, nil
}

// PublishEvent tells the subscribers of this process, see [World.Subscribe], of an event of
// any type. Nothing of it is stored: what agents are to hear of is published to a thread, as
// an environment event.
func (w *World) PublishEvent(typ string, content any) { w.tell(event.WorldEventType(typ), "", content) }

func (w *World) tell(typ event.WorldEventType, chatID string, data any) {
	w.emit(Event{ID: signals.NewID(), Type: typ, Timestamp: now(), ChatID: chatID, Data: data})
}

func now() time.Time { return time.Now().UTC() }
