package feed

import "github.com/threadmill/threadmill/event"

// remembered is how many finished messages and calls a reader knows of. Pieces that
// come later than that after their message would be shown; none do.
const remembered = 8192

// seen decides which pieces are stale.
type seen struct {
	attempts map[string]int // the highest attempt, by message that is not finished
	begun    map[string]int // the highest attempt of which there was text or a thought
	finished map[subject]struct{}
	order    []subject // of finished, a ring once it is full
	oldest   int
}

func newSeen() *seen {
	return &seen{attempts: map[string]int{}, begun: map[string]int{}, finished: map[subject]struct{}{}}
}

// fresh reports whether a piece is to be shown, and remembers its attempt.
func (s *seen) fresh(e *event.AgentEvent) bool {
	if s.done(subjectOf(e)) {
		// A background task goes on after the result of the call that started it.
		_, ofTask := e.TaskProgress()
		return ofTask
	}
	if e.MessageID == "" {
		return true
	}
	if e.Attempt < s.attempts[e.MessageID] {
		return false
	}
	s.attempts[e.MessageID] = e.Attempt
	if isSaid(e) {
		s.begun[e.MessageID] = e.Attempt
	}
	return true
}

// begins reports whether a piece is the first one of its attempt that is known.
func (s *seen) begins(e *event.AgentEvent) bool {
	return isSaid(e) && e.Attempt > s.begun[e.MessageID]
}

// isSaid reports whether a piece is a part of a message.
func isSaid(e *event.AgentEvent) bool {
	return e.MessageID != "" && (e.Type == event.EventStream || e.Type == event.EventThought)
}

// finish notes that the record of a message or of a tool's result is out: no pieces
// of it may follow.
func (s *seen) finish(e *event.AgentEvent) {
	if e.Type != event.EventMessage && e.Type != event.EventToolResult {
		return
	}
	id := subjectOf(e)
	if id.id == "" || s.done(id) {
		return
	}
	delete(s.attempts, e.MessageID)
	delete(s.begun, e.MessageID)
	s.finished[id] = struct{}{}
	if len(s.order) < remembered {
		s.order = append(s.order, id)
		return
	}
	delete(s.finished, s.order[s.oldest])
	s.order[s.oldest] = id
	s.oldest = (s.oldest + 1) % remembered
}

func (s *seen) done(id subject) bool {
	_, ok := s.finished[id]
	return ok
}

// subject names what a piece is part of: a message or a tool call.
type subject struct {
	call bool
	id   string
}

func subjectOf(e *event.AgentEvent) subject {
	if e.Type == event.EventToolProgress || e.Type == event.EventToolResult {
		return subject{call: true, id: e.ToolCallID}
	}
	return subject{id: e.MessageID}
}
