package thread

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// Titling is the state of the thread's title.
type Titling struct {
	thread *State

	// Enabled means that a title is to be generated for a thread without one. Tried means that
	// this was tried.
	Enabled bool `json:"enabled,omitempty"`
	Tried   bool `json:"tried,omitempty"`

	// Later means that there was nothing to generate a title from, so it is tried again after
	// the next turn.
	Later bool `json:"later,omitempty"`
}

// Due reports whether the thread is idle and needs a title.
func (ti *Titling) Due() bool {
	s := ti.thread
	return ti.Enabled && !ti.Tried && s.Title == "" && s.ParentLink.Parent == nil && s.Closing == nil && s.Turns.Idle()
}

// Step returns the input of the activity that generates a title, and marks it as tried.
func (ti *Titling) Step(now time.Time) step.Title {
	s := ti.thread
	ti.Tried = true
	return step.Title{Thread: s.Ref(), RecordID: recordid.Titled(s.ThreadID, s.newID(now))}
}

// Apply applies a generated title. It reports whether the thread accepted it: it may have got
// another title meanwhile.
func (ti *Titling) Apply(reply step.TitleReply) bool {
	s := ti.thread
	if reply.Usage != (event.Usage{}) {
		s.addUsage(reply.Usage)
	}
	if reply.Title == "" || s.Title != "" {
		ti.Later = s.Title == ""
		return false
	}
	s.Title = reply.Title
	return true
}
