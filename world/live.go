package world

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed/projection/worldview"
	"github.com/threadmill/threadmill/signals"
)

// PublishSSE delivers a piece of a reply to the subscribers of this process. It is not stored. The
// pieces of a thread's own replies need no call.
func (w *World) PublishSSE(e SSE) { w.tell(event.WorldSSEEvent, e.ChatID, e) }

// PublishToolEvent delivers a tool event to the subscribers of this process. It is not stored and
// is no result of a call: see [World.PublishToolResult].
func (w *World) PublishToolEvent(e ToolEvent) { w.tell(e.Type, e.ChatID, e) }

// PublishCRUDEvent delivers the notice of a creation, update or deletion to the subscribers of this
// process. It is not stored. Timestamp defaults to the current time.
func (w *World) PublishCRUDEvent(e CRUD) {
	if e.Timestamp.IsZero() {
		e.Timestamp = now()
	}
	w.tell(event.WorldCRUDEvent, e.ChatID, e)
}

// PublishApprovalRequest delivers the message of an approval request to the subscribers of this
// process. It is not stored, and no call waits for it. The approval requests of a thread's own calls
// need no call.
func (w *World) PublishApprovalRequest(q event.ApprovalRequest, chatID string) (messageID string, err error) {
	m, err := worldview.ApprovalMessage(q, signals.NewID(), chatID, now())
	if err != nil {
		return "", err
	}
	w.tell(event.WorldMessageEvent, chatID, m)
	return m.MessageID, nil
}

// PublishEvent delivers an event of any type to the subscribers of this process: see
// [World.Subscribe]. It is not stored, and agents do not see it. To reach agents, publish an
// environment event to a thread.
func (w *World) PublishEvent(typ string, content any) { w.tell(event.WorldEventType(typ), "", content) }

func (w *World) tell(typ event.WorldEventType, chatID string, data any) {
	w.emit(Event{ID: signals.NewID(), Type: typ, Timestamp: now(), ChatID: chatID, Data: data})
}

func now() time.Time { return time.Now().UTC() }
