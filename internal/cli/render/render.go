// Package render turns the agent events of a thread into text for a terminal. It does no I/O: every
// method returns the text to write next, so that a transcript is a function of the events.
//
// Written text is never changed. One message is in front and is written piece by piece; pieces of
// other messages, from concurrent agents, wait until it is complete. Repeated events, such as a
// record after a reconnect, are written once; messages that hooks have changed are written again.
package render

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/text/term"
)

// Thoughts determines the output of an agent's thoughts.
type Thoughts string

// The values of [Thoughts].
const (
	// Show writes them, dimmed. The default.
	Show Thoughts = "show"
	// Collapse writes one line with their length.
	Collapse Thoughts = "collapse"
	// Hide omits them.
	Hide Thoughts = "hide"
)

// Valid reports whether t is one of the three.
func (t Thoughts) Valid() bool { return t == Show || t == Collapse || t == Hide }

// Options configure a [Renderer].
type Options struct {
	// Thoughts defaults to [Show].
	Thoughts Thoughts

	// ResultLines is the number of lines of a tool's result. Default 6.
	ResultLines int

	// Width is the maximum length of a tool card's lines, in characters. Default 160.
	Width int

	// Times begins lines with the time of their event.
	Times bool

	// Location is the time zone of times. Default: local.
	Location *time.Location

	// Hints adds the commands with which a viewer can react. They need ThreadID.
	Hints    bool
	ThreadID string
}

// Renderer writes one thread. It is not safe for concurrent use.
type Renderer struct {
	opts Options
	out  term.Text

	// at is the time of the event, if lines begin with it.
	at string

	// open means that the current line has text; owner is the message of that text.
	open  bool
	prose bool // whether it is Markdown, which has not ended
	owner *message

	// live are the messages in progress; front is the one being written. ended are those whose turn
	// ended before they were complete.
	live  []*message
	front *message
	ended map[string]*message

	// shown are the ids of written messages, tool calls, results and decisions, and the digests of
	// their forms; for a thread, they are small beside its text.
	shown map[string]bool
	cards map[string]*card

	// found are the passages of an agent's run that has not ended.
	found map[string][]event.Passage
}

// New returns a renderer.
func New(opts Options) *Renderer {
	opts.Thoughts, opts.Location = cmp.Or(opts.Thoughts, Show), cmp.Or(opts.Location, time.Local)
	opts.ResultLines, opts.Width = cmp.Or(opts.ResultLines, 6), cmp.Or(opts.Width, 160)
	return &Renderer{opts: opts, ended: map[string]*message{}, shown: map[string]bool{}, cards: map[string]*card{}, found: map[string][]event.Passage{}}
}

// Event returns the text for the next event of the thread.
func (r *Renderer) Event(e event.AgentEvent) term.Text {
	r.setTime(e.CreatedAt)
	switch e.Type {
	case event.EventThought, event.EventStream:
		r.piece(e)
	case event.EventReset:
		r.reset(e.MessageID, e.Agent, e.Attempt)
	case event.EventMessage:
		if e.Message != nil {
			r.message(*e.Message)
		}
	case event.EventFinal:
		r.final(e.MessageID)
		r.sources(e.Agent)
	case event.EventError:
		r.endAll()
		r.line(red, "error: "+e.Error)
	case event.EventToolCall:
		r.call(e.ToolCallID, e.ToolName, e.ToolArgs)
	case event.EventToolProgress:
		r.progress(e)
	case event.EventToolResult:
		r.result(e.ToolCallID, e.ToolName, e.Output, e.IsError)
	case event.EventApprovalRequest:
		if e.Request != nil {
			r.request(*e.Request)
		}
	case event.EventApproval:
		if e.Approval != nil {
			r.decision(*e.Approval)
		}
	case event.EventClientCall:
		if e.ClientCall != nil {
			r.clientCall(*e.ClientCall)
		}
	case event.EventInputRequest:
		if e.Input != nil {
			r.input(*e.Input)
		}
	case event.EventInputReceived:
		if e.Received != nil {
			r.received(*e.Received)
		}
	case event.EventEnvironment:
		if e.Env != nil {
			r.line(dim, "· event "+visible(e.Env.Type)+suffix(": ", shorten(oneLine(visible(string(e.Env.Payload))), 200)))
		}
	case event.EventStatus:
		if e.Status != nil {
			r.status(*e.Status)
		}
	case event.EventRetrieval:
		if e.Retrieval != nil {
			r.found[e.Agent] = e.Retrieval.Passages
		}
	case event.EventGap:
		r.line(yellow, "… some streamed output was lost; the complete messages follow")
	}
	return r.take()
}

// sources lists the passages that an agent was given, by the numbers by which its reply cites them.
func (r *Renderer) sources(agent string) {
	for i, p := range r.found[agent] {
		place := cmp.Or(p.Title, p.Source)
		if len(p.Path) > 0 {
			place += " › " + strings.Join(p.Path, " › ")
		}
		if p.Page > 0 {
			place += fmt.Sprintf(", page %d", p.Page)
		}
		r.line(dim, shorten(fmt.Sprintf("[%d] %s", i+1, oneLine(visible(place))), r.opts.Width)+suffix(" · ", visible(p.ID)))
	}
	delete(r.found, agent)
}

// setTime sets the time of the next lines. Live events have none: they happen now.
func (r *Renderer) setTime(at time.Time) {
	if !r.opts.Times {
		return
	}
	if at.IsZero() {
		at = time.Now()
	}
	r.at = at.In(r.opts.Location).Format(time.DateTime) + " "
}

// Note returns lines from the program itself.
func (r *Renderer) Note(lines ...string) term.Text {
	for _, line := range lines {
		r.line(dim, line)
	}
	return r.take()
}

// Echo returns what a person has entered at a prompt.
func (r *Renderer) Echo(prompt, text string) term.Text {
	r.leave()
	r.write(dim, prompt)
	r.write(bold, strings.ReplaceAll(text, "\n", "\n  "))
	r.endLine()
	return r.take()
}

// Warn returns a warning from the program itself.
func (r *Renderer) Warn(text string) term.Text {
	r.line(yellow, text)
	return r.take()
}

// Fail returns a line about an error.
func (r *Renderer) Fail(text string) term.Text {
	r.line(red, "error: "+text)
	return r.take()
}

// Break ends the current line, if there is one.
func (r *Renderer) Break() term.Text {
	r.leave()
	return r.take()
}

// Seen reports whether the message has been written in this form; for a shortened copy, whether it
// has been written at all.
func (r *Renderer) Seen(m event.Message) bool {
	if m.Truncated {
		return r.Begun(m.ID)
	}
	return r.shown["message/"+form(m.ID, m.Content)]
}

// Begun reports whether any form of the message with this id has been written.
func (r *Renderer) Begun(messageID string) bool { return r.shown["message/"+messageID] }

// Changes reports whether the message supersedes a written form.
func (r *Renderer) Changes(m event.Message) bool {
	return r.Begun(m.ID) && !r.Seen(m) && !r.shown["short/"+m.ID]
}

// MarkSeen makes the renderer omit the message, but not a form that a hook has changed.
func (r *Renderer) MarkSeen(m event.Message) {
	if m.SenderType == event.CreatedByTool {
		r.novelty("result", resultID(m), resultForm(m.Content, m.IsError))
		return
	}
	r.newsOf(m)
}

// once reports whether this is the first call for kind and id. Things without an id are always new.
func (r *Renderer) once(kind, id string) bool {
	if id == "" {
		return true
	}
	key := kind + "/" + id
	if r.shown[key] {
		return false
	}
	r.shown[key] = true
	return true
}

// novel is the difference of a thing from earlier forms.
type novel int

const (
	known   novel = iota // none
	fresh                // it is new
	changed              // it supersedes the written form
)

// novelty distinguishes repeated things, such as a record after a reconnect, from those that hooks
// have changed, by their text. Things without an id are always new.
func (r *Renderer) novelty(kind, id, text string) novel {
	if id == "" {
		return fresh
	}
	first := r.once(kind, id)
	switch {
	case !r.once(kind, form(id, text)):
		return known
	case first:
		return fresh
	}
	return changed
}

// form returns the key of one form of the thing with that id.
func form(id, text string) string {
	sum := sha256.Sum256([]byte(text))
	return id + "/" + string(sum[:12])
}

func (r *Renderer) status(s event.StatusChange) {
	text := visible(s.Status)
	switch s.Status {
	case event.StatusOpened:
		text = "thread opened" + suffix(" with ", visible(strings.Join(s.Agents, ", ")))
	case event.StatusInterrupted:
		r.endAll()
		text = "interrupted"
	case event.StatusClosed:
		r.endAll()
		text = "thread closed"
	case event.StatusUnanswered:
		text = "nobody answers"
	case event.StatusRetried:
		text = "tried again"
	case string(event.ItemPending):
		if s.Detail == event.DetailEdited {
			r.line(dim, "· edited in the queue"+suffix(" by ", visible(s.By)))
			return
		}
		text = "moved in the queue"
	case event.StatusUpdated:
		r.line(dim, "· "+cmp.Or(oneLine(s.Detail), "thread")+" set"+suffix(" by ", visible(s.By))+suffix(": ", visible(cmp.Or(strings.Join(s.Agents, ", "), s.Title))))
		return
	case event.StatusRetrying:
		text = "the model is called again"
		if s.Retry != nil && s.Retry.Next != "" {
			text = "another model is called"
		}
	case event.StatusTurnEnded:
		r.endAll()
		return
	case event.StatusIntercepted:
		r.line(dim, "  ⤷ "+oneLine(s.Detail))
		return
	}
	r.line(dim, "· "+text+suffix(" by ", visible(s.By))+suffix(": ", oneLine(s.Detail)))
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// AtLineStart reports whether the next text begins a line.
func (r *Renderer) AtLineStart() bool { return !r.open }
