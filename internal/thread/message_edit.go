package thread

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// edited returns a message that waits, with the text of a change of status. Its sender alone may edit it, so that nobody puts words
// into somebody else's mouth; and only before its record may be stored and hooks may have read it.
func (s *State) edited(c signals.SetStatus) (Queued, error) {
	q := s.Inbox.find(c.EventID)
	switch {
	case q == nil:
		return Queued{}, event.FieldErrorf("content", "of event %q cannot change: it does not wait in the queue", c.EventID)
	case q.Item.Type != event.TypeMessage:
		return Queued{}, event.FieldErrorf("content", "applies to messages only, and event %q is of type %s", c.EventID, q.Item.Type)
	case q.Hooked || q.Stored || q.Unloaded || q.Item.Attempt > 0:
		return Queued{}, event.FieldErrorf("content", "of event %q cannot change: it is stored already; take it from the queue and post another", c.EventID)
	case !q.fromPerson() || q.User != q.read().Message.SenderID: // a schedule, a hook or a parent thread made it
		return Queued{}, event.FieldErrorf("content", "of event %q cannot change: no person wrote it", c.EventID)
	}
	if sender := q.read().Message.SenderID; !event.Anonymous(sender) && !strings.EqualFold(sender, c.By) {
		return Queued{}, event.FieldErrorf("content", "of event %q can be changed by its sender %q only", c.EventID, sender)
	}
	// The other fields stay as they were posted.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(q.Item.Payload, &fields); err != nil {
		return Queued{}, event.FieldErrorf("content", "of event %q cannot change: %v", c.EventID, err)
	}
	fields["content"] = rawJSON(c.Content)
	out := *q
	out.Item.Payload, out.content = rawJSON(fields), nil
	if _, err := (signals.Post{Payload: out.Item.Payload}).Read(s.ThreadID); err != nil {
		return Queued{}, err
	}
	if s.queuedBytes()+len(out.Item.Payload)-len(q.Item.Payload) > maxQueueBytes {
		return Queued{}, ErrFull
	}
	return out, nil
}

// edit gives a message that waits another text.
func (s *State) edit(now time.Time, c signals.SetStatus) error {
	out, err := s.edited(c)
	if err != nil {
		return err
	}
	out.Item.UpdatedAt = now
	*s.Inbox.find(c.EventID) = out
	s.Outbox.recordIn(out.root(), recordid.StatusSet(out.Item.ID, s.nextID("status")), event.TypeStatus, out.Item.TraceID, out.Item.ID, now,
		event.StatusChange{Status: string(event.ItemPending), Detail: event.DetailEdited, By: c.By})
	return nil
}
