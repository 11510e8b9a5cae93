package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// message is a message in progress.
type message struct {
	id      string
	agent   string
	attempt int

	// text is the streamed text; waiting are the pieces that have not been written yet.
	text    strings.Builder
	waiting []span

	// mode is the type of the last piece written: thought, stream, or none.
	mode         event.AgentEventType
	begun        bool
	thoughtWords int
}

// span is a run of pieces of one type.
type span struct {
	typ  event.AgentEventType
	text string
}

func (r *Renderer) piece(e event.AgentEvent) {
	if r.Begun(e.MessageID) {
		return
	}
	m := r.find(e.MessageID, e.Agent)
	if m == nil {
		m = &message{id: e.MessageID, agent: e.Agent, attempt: e.Attempt}
		r.live = append(r.live, m)
	}
	if e.Attempt < m.attempt {
		return // of a superseded attempt
	}
	if e.Attempt > m.attempt {
		r.restart(m, e.Attempt)
	}
	if e.Type == event.EventStream {
		m.text.WriteString(e.Content)
	}
	m.waiting = append(m.waiting, span{e.Type, e.Content})
	r.advance()
}

func (r *Renderer) find(id, agent string) *message {
	for _, m := range r.live {
		if m.id == id && (id != "" || m.agent == agent) {
			return m
		}
	}
	if m := r.ended[id]; m != nil {
		delete(r.ended, id)
		r.live = append(r.live, m)
		return m
	}
	return nil
}

// advance writes the waiting pieces of the message in front.
func (r *Renderer) advance() {
	if r.front == nil && len(r.live) > 0 {
		r.front = r.live[0]
	}
	if r.front == nil {
		return
	}
	for _, s := range r.front.waiting {
		r.span(r.front, s)
	}
	r.front.waiting = nil
}

func (r *Renderer) span(m *message, s span) {
	if s.typ == event.EventThought {
		r.thought(m, s.text)
		return
	}
	if s.text == "" {
		return
	}
	r.closeThought(m)
	if r.owner != m || m.mode != event.EventStream {
		r.heading(m)
	}
	r.write(prose, s.text)
	m.mode, m.begun = event.EventStream, true
}

func (r *Renderer) thought(m *message, text string) {
	m.thoughtWords += len(strings.Fields(text))
	if r.opts.Thoughts == Show {
		if r.owner != m || m.mode != event.EventThought {
			r.endLine()
			r.write(dim, name(m.agent)+" thinks › ")
			r.owner = m
		}
		r.write(dim, text)
		m.begun = true
	}
	m.mode = event.EventThought
}

// closeThought ends a thought when something else follows it.
func (r *Renderer) closeThought(m *message) {
	if m.mode != event.EventThought {
		return
	}
	if r.opts.Thoughts == Collapse {
		r.line(dim, fmt.Sprintf("%s thought for %d words", name(m.agent), m.thoughtWords))
	} else if r.owner == m {
		r.endLine()
	}
	m.mode, m.thoughtWords = "", 0
}

func (r *Renderer) heading(m *message) {
	r.endLine()
	r.write(cyan, name(m.agent)+" › ")
	r.owner = m
}

func name(agent string) string {
	return visible(cmp.Or(agent, "agent"))
}

// reset discards the written text of a message: a terminal gets a line that says so.
func (r *Renderer) reset(id, agent string, attempt int) {
	m := r.find(id, agent)
	if m == nil || attempt != 0 && attempt < m.attempt {
		return
	}
	r.restart(m, attempt)
}

func (r *Renderer) restart(m *message, attempt int) {
	written := m.begun
	m.text.Reset()
	m.waiting, m.begun, m.mode, m.thoughtWords = nil, false, "", 0
	m.attempt = max(m.attempt, attempt)
	if written {
		r.line(yellow, fmt.Sprintf("↻ %s is restarting this reply; ignore the partial text above", name(m.agent)))
	}
}

// message writes a complete message, the rest of a streamed one, or one that a hook has changed.
func (r *Renderer) message(msg event.Message) {
	switch msg.SenderType {
	case event.CreatedByAgent:
		r.reply(msg)
	case event.CreatedByTool:
		r.result(resultID(msg), msg.ToolName, msg.Content, msg.IsError)
	case event.CreatedByUser, event.CreatedBySystem:
		if news := r.newsOf(msg); news != known {
			r.block(bold, msg, news)
		}
	}
}

// resultID identifies a tool's message: by its call, if there is one.
func resultID(msg event.Message) string {
	return cmp.Or(msg.ToolCallID, msg.ID)
}

// newsOf returns the novelty of a message. A shortened copy of a long message counts as the
// message.
func (r *Renderer) newsOf(msg event.Message) novel {
	if msg.Truncated {
		if !r.once("message", msg.ID) {
			return known
		}
		r.once("short", msg.ID)
		return fresh
	}
	news := r.novelty("message", msg.ID, msg.Content)
	if short := "short/" + msg.ID; news == changed && r.shown[short] {
		delete(r.shown, short)
		return known
	}
	return news
}

func (r *Renderer) reply(msg event.Message) {
	news := r.newsOf(msg)
	switch m := r.find(msg.ID, ""); {
	case news == known:
		return
	case m != nil:
		r.complete(m, msg)
	case msg.Content != "" || news == changed:
		r.block(cyan, msg, news)
	}
	for _, call := range msg.ToolCalls {
		r.call(call.ID, call.Function.Name, call.Function.Arguments)
	}
}

// complete makes the streamed text of a message agree with the stored message.
func (r *Renderer) complete(m *message, msg event.Message) {
	r.bringToFront(m)
	got := m.text.String()
	switch rest, more := strings.CutPrefix(msg.Content, got); {
	case more:
		if rest != "" {
			r.span(m, span{event.EventStream, rest})
		}
	case msg.Truncated:
	default:
		r.closeThought(m)
		r.line(yellow, "↻ the complete reply:")
		r.heading(m)
		r.write(prose, msg.Content)
	}
	r.closeThought(m)
	if msg.Interrupted {
		r.interrupted()
	}
	r.drop(m)
	r.advance()
}

// bringToFront makes m the message in front, and writes its waiting pieces.
func (r *Renderer) bringToFront(m *message) {
	if r.front != m {
		r.leave()
		r.front = m
	}
	r.advance()
}

func (r *Renderer) drop(m *message) {
	r.leave()
	r.live = slices.DeleteFunc(r.live, func(other *message) bool { return other == m })
	r.front = nil
}

// block writes a message that was not streamed.
func (r *Renderer) block(s style, msg event.Message, news novel) {
	r.leave()
	if news == changed {
		r.write(yellow, "↻ ")
	}
	r.write(s, name(msg.SenderID)+" › ")
	if msg.Content == "" {
		r.write(dim, "(nothing)")
	}
	if msg.SenderType == event.CreatedByAgent {
		r.write(prose, msg.Content)
	} else {
		r.write(plain, msg.Content)
	}
	if msg.Truncated {
		r.write(dim, " … [shortened; `starter show` shows all of it]")
	}
	if msg.Interrupted {
		r.interrupted()
	}
	r.endLine()
}

func (r *Renderer) interrupted() {
	if r.open {
		r.write(plain, " ")
	}
	r.write(dim, "[interrupted]")
}

// final ends a reply, including one with thoughts only, which has no message event. In the base
// protocol it does not name the message: there is one without an id.
func (r *Renderer) final(messageID string) {
	if m := r.find(messageID, ""); m != nil && m.id == messageID {
		r.end(m)
		r.advance()
	}
	if len(r.live) == 0 {
		r.leave()
	}
}

// endAll writes all waiting pieces and ends all messages in progress, whether or not they are
// complete.
func (r *Renderer) endAll() {
	for len(r.live) > 0 {
		r.end(r.live[0])
	}
	r.leave()
}

func (r *Renderer) end(m *message) {
	r.bringToFront(m)
	r.closeThought(m)
	r.drop(m)
	if m.id != "" {
		r.ended[m.id] = m
	}
}
