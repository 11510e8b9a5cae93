package thread

import (
	"encoding/json"
	"slices"

	"github.com/threadmill/threadmill/internal/job"
)

// Forget keeps a person whom the thread forgets when it continues as new.
func (s *State) Forget(f job.Forget) {
	s.Forgetting = append(slices.DeleteFunc(s.Forgetting, func(o job.Forget) bool { return o.Pseudonym == f.Pseudonym }), f)
}

// Concerning returns the events whose turns are in progress and concern a person, and the person's own events in the queue. is
// reports whether a name is that of the person, and concerns whether JSON has something of the person.
func (s *State) Concerning(is func(name string) bool, concerns func(json.RawMessage) bool) (events []string) {
	for _, t := range s.Turns.concerning(concerns) {
		events = append(events, t.Item.ID)
	}
	for i := range s.Inbox.Queue {
		if q := &s.Inbox.Queue[i]; is(q.User) || q.fromUser() && is(q.read().Message.SenderID) {
			events = append(events, q.Item.ID)
		}
	}
	return events
}

// Concerned reports whether the turn of an event that concerns a person is in progress.
func (ts *Turns) Concerned(concerns func(json.RawMessage) bool) bool {
	return len(ts.concerning(concerns)) > 0
}

func (ts *Turns) concerning(concerns func(json.RawMessage) bool) []*Turn {
	return slices.DeleteFunc(slices.Concat(ts.all(), ts.Deciding), func(t *Turn) bool { return !concerns(rawJSON(t)) })
}
