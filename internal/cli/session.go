package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/console"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
)

// session is one chat. All fields but the channels belong to the loop; slow work runs beside it and
// passes its result as a function.
type session struct {
	app        *app
	threads    threads
	stream     *api.Client
	thread, me string
	settle     time.Duration
	after      string
	again      string // the command that returns to the chat

	screen
	input
	questions
	progress

	items chan event.AgentEvent
	done  chan func()

	quit   bool
	failed bool // the last turn failed
	closed bool

	workerless bool // no worker runs the thread

	unanswered map[string]bool // events of which the person was told that nobody answers
	noStream   bool
	lost       map[string]bool // servers that do not respond

	title string
	names []string // of the agents

	own     map[string]int // texts sent from here that have not come back
	swallow map[string]int // errors that were shown before they arrive as events
}

// screen is the chat's output.
type screen struct {
	out     *term.Writer
	view    *render.Renderer
	console *console.Console // nil over pipes
}

// print writes text, on a terminal above the input line.
func (s *screen) print(text term.Text) {
	switch {
	case len(text) == 0:
	case s.console != nil:
		s.console.Print(text)
	default:
		_ = s.out.Print(text)
	}
}

// input has the lines that a person types.
type input struct {
	lines   <-chan string
	backlog *string // a line that waits until the turn has ended
	eof     bool
}

// next is the channel of lines, or nil while a line waits and after the last one.
func (i *input) next() <-chan string {
	if i.eof || i.backlog != nil {
		return nil
	}
	return i.lines
}

// progress is the known state of the turns.
type progress struct {
	turns    int     // own turns in progress
	settling []ended // own turns that have ended, whose replies have not arrived
	retrying bool    // a retried event is being processed
	active   bool    // according to events a turn is in progress, whoever started it
	since    time.Time
	stopping bool // the turn has been interrupted from here
	changing bool // a hook has changed a message; its status event follows
	ends     ends
}

// ends counts the ends of turns and replies that have been shown.
type ends struct{ errors, cuts, finals int }

// begin sets the state at the beginning of a turn.
func (p *progress) begin() {
	if !p.active {
		p.active, p.since = true, time.Now()
	}
}

// atRest sets the state after the end of a turn.
func (p *progress) atRest() {
	p.active, p.retrying, p.stopping = false, false, false
	p.since = time.Now() // of the next one in the queue
}

type request = event.ApprovalRequest

// loop runs the chat until it ends.
func (s *session) loop(ctx context.Context, interrupts <-chan os.Signal) error {
	var stops <-chan os.Signal
	if s.console != nil {
		stops = s.console.Interrupts()
	}
	for !s.over() {
		s.showStatus()
		select {
		case line, ok := <-s.next():
			if !ok {
				s.eof = true
				break
			}
			s.accept(ctx, line)
		case e := <-s.items:
			s.event(e)
		case outcome := <-s.done:
			outcome()
		case <-interrupts:
			s.interrupted(ctx)
		case <-stops:
			s.interrupted(ctx)
		case <-ctx.Done():
			s.quit = true
		}
		s.check()
		if s.backlog != nil && s.ready() {
			line := *s.backlog
			s.backlog = nil
			s.line(ctx, line)
		}
	}
	return s.leave()
}

// over reports whether the chat has ended. Without a terminal, the end of the input ends the chat
// only once the turn has ended, or waits for an answer that cannot come.
func (s *session) over() bool {
	if s.quit || s.closed {
		return true
	}
	return s.eof && s.backlog == nil && (s.console != nil || s.ready())
}

func (s *session) busy() bool {
	return s.turns > 0 || len(s.settling) > 0 || s.retrying || s.deciding > 0
}

// ready reports whether the next line can be processed now.
func (s *session) ready() bool {
	return s.console != nil || !s.busy() || len(s.asks())+len(s.inputs()) > 0 && s.deciding == 0
}

// accept handles a line of input.
func (s *session) accept(ctx context.Context, line string) {
	if s.console != nil && strings.TrimSpace(line) != "" {
		s.print(s.view.Echo(s.prompt(), line))
	}
	if s.ready() || immediate(line) {
		s.line(ctx, line)
		return
	}
	s.backlog = &line
}

func (s *session) line(ctx context.Context, line string) {
	text := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(text, "//"):
		s.send(ctx, text[1:])
	case strings.HasPrefix(text, "/"):
		s.command(ctx, text)
	case len(s.asks()) > 0:
		s.answer(ctx, text)
	case text != "":
		s.send(ctx, line)
	}
}

// event shows an event of the thread.
func (s *session) event(e event.AgentEvent) {
	switch e.Type {
	case event.EventApprovalRequest:
		s.asked(e)
		return
	case event.EventMessage:
		if s.isOwn(e.Message) {
			return
		}
		if m := e.Message; m != nil && s.view.Changes(*m) {
			s.changing = true
		}
	case event.EventError:
		s.failure(e)
		return
	case event.EventFinal:
		s.atRest()
		s.ends.finals++
	case event.EventStatus:
		if e.Status != nil && e.Status.Status == event.StatusUnanswered && s.told(e.EventID) {
			return
		}
		s.status(e)
	case event.EventInputRequest:
		s.begin()
		s.asksInput(e)
	case event.EventStream, event.EventThought, event.EventToolCall, event.EventToolProgress, event.EventClientCall:
		s.begin()
	case event.EventApproval, event.EventInputReceived, event.EventToolResult, event.EventEnvironment, event.EventRetrieval, event.EventReset, event.EventGap:
	}
	s.print(s.view.Event(e))
	s.change(func() { s.calls.Apply(e) })
}

func (s *session) status(e event.AgentEvent) {
	if e.Status == nil {
		return
	}
	switch e.Status.Status {
	case event.StatusInterrupted:
		s.atRest()
		s.ends.cuts++
	case event.StatusOpened, event.StatusUpdated:
		if e.Status.Title != "" {
			s.title = e.Status.Title
		}
		if len(e.Status.Agents) > 0 {
			s.names = e.Status.Agents
		}
	case event.StatusClosed:
		s.closed = true
	case event.StatusTurnEnded:
		s.atRest()
	case event.StatusIntercepted:
		s.changing = false
	}
}

// told reports whether the person was told before that nobody answers an event.
func (s *session) told(eventID string) bool {
	before := s.unanswered[eventID]
	s.unanswered[eventID] = true
	return before
}

func (s *session) failure(e event.AgentEvent) {
	s.atRest()
	if s.swallow[e.Error] > 0 {
		s.swallow[e.Error]--
		return
	}
	s.ends.errors++
	s.print(s.view.Event(e))
	s.print(s.view.Note("/retry tries it again"))
}

// isOwn reports messages that were typed here, which the terminal already shows.
func (s *session) isOwn(m *event.Message) bool {
	if m == nil || m.SenderType != event.CreatedByUser || m.SenderID != s.me || s.own[m.Content] == 0 {
		return false
	}
	s.own[m.Content]--
	if s.console == nil {
		return false
	}
	s.view.MarkSeen(*m)
	return true
}

// interrupted handles Ctrl-C.
func (s *session) interrupted(ctx context.Context) {
	if s.stopping || !(s.busy() || s.active) {
		s.quit = true
		return
	}
	s.stopping = true
	s.print(s.view.Note("interrupting… (once more leaves)"))
	s.control(ctx, signals.ControlInterrupt)
}

// setLost shows the loss or the return of a server, once for both.
func (s *session) setLost(server string, gone bool) {
	before := len(s.lost) > 0
	if gone {
		s.lost[server] = true
	} else {
		delete(s.lost, server)
	}
	switch after := len(s.lost) > 0; {
	case after && !before:
		s.print(s.view.Warn(lostText))
	case before && !after:
		s.print(s.view.Note(backText))
	}
}

// setWorkerless shows that no worker runs the thread, or that one does again, once.
func (s *session) setWorkerless(problem string) {
	switch gone := problem != ""; {
	case gone && !s.workerless:
		s.print(s.view.Warn(problem))
	case !gone && s.workerless:
		s.print(s.view.Note(againText))
	}
	s.workerless = problem != ""
}

// hand passes outcome to the loop.
func (s *session) hand(ctx context.Context, outcome func()) {
	select {
	case s.done <- outcome:
	case <-ctx.Done():
	}
}

// prompt stands before the input.
func (s *session) prompt() string {
	if len(s.asks()) > 0 {
		return "allow? › "
	}
	return "› "
}

// showStatus shows what the thread is doing around the input.
func (s *session) showStatus() {
	if s.console == nil {
		return
	}
	at := console.Status{Prompt: s.prompt(), Title: s.thread, Names: s.names}
	if s.title != "" {
		at.Title = s.title + " · " + s.thread
	}
	switch {
	case len(s.lost) > 0:
		at.Busy = lostText
	case s.stopping:
		at.Busy = "stopping · Ctrl-C again leaves"
	case len(s.asks()) > 0:
	case s.busy() || s.active:
		at.Busy, at.Since = "working · Ctrl-C stops", s.since
		if waiting := s.turns - 1; waiting > 0 {
			at.Busy = fmt.Sprintf("working, %d queued · Ctrl-C stops", waiting)
		}
	}
	s.console.SetStatus(at)
}

// leave prints the command that returns to the chat.
func (s *session) leave() error {
	s.print(s.view.Break())
	if !s.closed {
		text := "come back with: " + s.again
		if s.busy() || s.active {
			text = "the turn continues without you; " + text
		}
		s.print(s.view.Note(text))
	}
	if s.failed && s.console == nil {
		return silentError{}
	}
	return nil
}
