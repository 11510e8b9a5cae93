package thread

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// The user of a turn is the person for whom its tools work, perhaps with her credentials. It follows
// from posts as they arrived, never from what hooks, models or derived messages say.

// sender returns the person who sent the item, or "". A user_query has one if its source is the user:
// what a webhook says about people is not checked.
func (q *Queued) sender() string {
	if e := q.read().Env; e != nil {
		if e.Type != event.TypeUserQuery || e.Metadata.Source != event.SourceUser {
			return ""
		}
		asked, _ := e.Query() // validated when it was posted
		return asked.UserID
	}
	if q.fromUser() && q.read().Message.SenderID != signals.ScheduleSender {
		return q.read().Message.SenderID
	}
	return ""
}

// workFor makes the person who sent a message that joins the turn its user. Nothing that follows
// from the same posted event may use the credentials of somebody who spoke earlier.
func (t *Turn) workFor(user string) {
	s := t.thread
	if user == "" {
		return
	}
	for _, other := range s.Turns.all() {
		if other.root() == t.root() {
			other.User = user
		}
	}
	for i := range s.Inbox.Queue {
		if q := &s.Inbox.Queue[i]; q.Origin != nil && q.root() == t.root() {
			q.User = user
		}
	}
}

// InheritUser makes the user of the call that of the first message of a sub-agent's thread, which an
// agent has sent. It applies to the queued message and not to the id, which anybody may post again.
func (s *State) InheritUser() {
	if s.ParentLink.Parent == nil {
		return
	}
	if first := s.Inbox.find(s.ParentLink.FirstID(s.Ref())); first != nil {
		first.User = s.ParentLink.Parent.User
	}
}
