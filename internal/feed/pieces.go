package feed

import "github.com/threadmill/threadmill/event"

// remembered is the number of finished messages and calls that a reader knows. Pieces that arrive
// even later after their message would be shown, which does not happen.
const remembered = 8192

// lookup is information that a reader must read before it can judge pieces.
type lookup int

const (
	nothing lookup = iota

	// storedMessages are those not delivered yet. They arrive whole, without their pieces in the
	// log.
	storedMessages

	// earlierAttempts are those in the log up to the reader's position.
	earlierAttempts
)

// pieces decides which live pieces are stale, and which begin an attempt at a message.
type pieces struct {
	attempts map[string]int // the highest attempt of each unfinished message
	streamed map[string]int // the highest attempt with text or a thought
	finished map[subject]struct{}
	order    []subject // of finished, a ring once it is full
	oldest   int

	unknown lookup

	// complete means that the viewer had only the pieces noted here.
	complete bool
}

func newPieces() *pieces {
	return &pieces{attempts: map[string]int{}, streamed: map[string]int{}, finished: map[subject]struct{}{}}
}

// restart prepares for a viewer who gets all stored messages whole from now on.
func (p *pieces) restart() { p.unknown, p.complete = storedMessages, true }

// note reports whether to deliver a piece, and remembers its attempt.
func (p *pieces) note(e *event.AgentEvent) bool {
	if p.done(subjectOf(e)) {
		// A background task continues after the result of the call that started it.
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

// begins reports whether a piece that was not noted yet begins an attempt for the viewer. marked
// means that its publisher marked it as the first.
func (p *pieces) begins(e *event.AgentEvent, marked bool) bool {
	return (marked || p.complete) && isContent(e) && e.Attempt > p.streamed[e.MessageID]
}

// isContent reports whether a piece is a part of a message.
func isContent(e *event.AgentEvent) bool {
	return e.MessageID != "" && (e.Type == event.EventStream || e.Type == event.EventThought)
}

// announces reports whether a piece only announces an attempt at a message, before the model is called.
func announces(e *event.AgentEvent) bool { return isContent(e) && e.Content == "" }

// isText reports whether a piece is text of a message, or voids such text.
func isText(e *event.AgentEvent) bool {
	return e.Type == event.EventStream || e.Type == event.EventThought || e.Type == event.EventReset
}

// finish marks a message or a tool call as finished: its record was sent, and pieces of it are
// stale.
func (p *pieces) finish(e *event.AgentEvent) {
	if e.Type != event.EventMessage && e.Type != event.EventToolResult {
		return
	}
	if p.finishSubject(subjectOf(e)) {
		delete(p.attempts, e.MessageID)
		delete(p.streamed, e.MessageID)
	}
}

// finishSubject reports whether the subject was not finished before.
func (p *pieces) finishSubject(id subject) bool {
	if id.id == "" || p.done(id) {
		return false
	}
	p.finished[id] = struct{}{}
	if len(p.order) < remembered {
		p.order = append(p.order, id)
		return true
	}
	delete(p.finished, p.order[p.oldest])
	p.order[p.oldest] = id
	p.oldest = (p.oldest + 1) % remembered
	return true
}

func (p *pieces) done(id subject) bool {
	_, ok := p.finished[id]
	return ok
}

// subject identifies the message or tool call of a piece.
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
