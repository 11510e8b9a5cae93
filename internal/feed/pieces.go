package feed

import "github.com/threadmill/threadmill/event"

// remembered is how many finished messages and calls a reader knows of. Pieces that
// come later than that after their message would be shown; none do.
const remembered = 8192

// lookup is what a reader has to look up before it can judge pieces.
type lookup int

const (
	nothing lookup = iota

	// storedMessages: those that have not been delivered yet. They come whole, without the
	// pieces that the log has of them.
	storedMessages

	// earlierAttempts: those in the log up to the reader's position.
	earlierAttempts
)

// pieces decides which live pieces are stale, and which begin an attempt at a message.
type pieces struct {
	attempts map[string]int // the highest attempt, by message that is not finished
	streamed map[string]int // the highest attempt of which there was text or a thought
	finished map[subject]struct{}
	order    []subject // of finished, a ring once it is full
	oldest   int

	unknown lookup

	// complete: the viewer had no pieces but those noted here.
	complete bool
}

func newPieces() *pieces {
	return &pieces{attempts: map[string]int{}, streamed: map[string]int{}, finished: map[subject]struct{}{}}
}

// restart is for a viewer who gets all messages that are stored whole from now on.
func (p *pieces) restart() { p.unknown, p.complete = storedMessages, true }

// note reports whether a piece is to be delivered, and remembers its attempt.
func (p *pieces) note(e *event.AgentEvent) bool {
	if p.done(subjectOf(e)) {
		// A background task goes on after the result of the call that started it.
		_, ofTask := e.TaskProgress()
		return ofTask
	}
	if e.MessageID == "" {
		return true
	}
	if e.Attempt < p.attempts[e.MessageID] {
		return false
	}
	p.attempts[e.MessageID] = e.Attempt
	if isContent(e) {
		p.streamed[e.MessageID] = e.Attempt
	}
	return true
}

// begins reports whether a piece that has not been noted yet begins an attempt for the viewer.
// marked: its publisher says that it is the first one.
func (p *pieces) begins(e *event.AgentEvent, marked bool) bool {
	return (marked || p.complete) && isContent(e) && e.Attempt > p.streamed[e.MessageID]
}

// isContent reports whether a piece is a part of a message.
func isContent(e *event.AgentEvent) bool {
	return e.MessageID != "" && (e.Type == event.EventStream || e.Type == event.EventThought)
}

// isText reports whether a piece is of a message's text, or voids such pieces.
func isText(e *event.AgentEvent) bool {
	return e.Type == event.EventStream || e.Type == event.EventThought || e.Type == event.EventReset
}

// finish notes that the record of a message or of a tool's result is out: no pieces
// of it may follow.
func (p *pieces) finish(e *event.AgentEvent) {
	if e.Type != event.EventMessage && e.Type != event.EventToolResult {
		return
	}
	id := subjectOf(e)
	if id.id == "" || p.done(id) {
		return
	}
	delete(p.attempts, e.MessageID)
	delete(p.streamed, e.MessageID)
	p.finished[id] = struct{}{}
	if len(p.order) < remembered {
		p.order = append(p.order, id)
		return
	}
	delete(p.finished, p.order[p.oldest])
	p.order[p.oldest] = id
	p.oldest = (p.oldest + 1) % remembered
}

func (p *pieces) done(id subject) bool {
	_, ok := p.finished[id]
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
