package thread

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// Titling says whether a title is to be generated for the thread.
type Titling struct {
	// Enabled means that a title is to be generated for a thread without one. Tried means that
	// this was tried.
	Enabled bool `json:"enabled,omitempty"`
	Tried   bool `json:"tried,omitempty"`

	// Later means that there was nothing to generate a title from, so it is tried again after
	// the next turn.
	Later bool `json:"later,omitempty"`
}

// turnBegins lets the thread try again after a turn that there was nothing to generate a title from.
func (ti *Titling) turnBegins() {
	if ti.Later {
		ti.Later, ti.Tried = false, false
	}
}

// TitleDue reports whether the thread is idle and needs a title.
func (s *State) TitleDue() bool {
	return s.Titling.Enabled && !s.Titling.Tried && s.Title == "" && s.ParentLink.Parent == nil && s.Closing == nil && s.idle()
}

// TitleStep returns the input of the activity that generates a title, and marks it as tried.
func (s *State) TitleStep() step.Title {
	s.Titling.Tried = true
	return step.Title{Thread: s.Ref(), RecordID: recordid.Titled(s.ThreadID, s.nextID("titled"))}
}

// Abandoned records that the thread did not wait for its title, because it is closed or
// continues as new. Its next run tries again.
func (ti *Titling) Abandoned(closed bool) { ti.Tried = closed }

// ApplyTitle applies a generated title. It reports whether the thread accepted it: it may have got
// another title meanwhile.
func (s *State) ApplyTitle(reply step.TitleReply) bool {
	if reply.Usage != (event.Usage{}) {
		s.Usage = s.Usage.Add(oneCall(reply.Usage))
	}
	if reply.Title == "" || s.Title != "" {
		s.Titling.Later = s.Title == ""
		return false
	}
	s.Title = reply.Title
	return true
}
