package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// ended is an own turn that has ended, while its last events may not have arrived.
type ended struct {
	result signals.TurnResult

	// before are the counts at the beginning of the turn.
	before ends

	// late means that the stream has exceeded its time.
	late bool
}

const helpText = `/help               this
/steer text         say it into the turn in progress, without waiting for its end
/interrupt          stop the turn; what was said so far is kept
/approvals          tool calls that wait for an answer
/answer field=value …   answer a tool that asks for input
/decline            decline to answer it
/state              what the thread is doing
/retry [eventId]    process what failed last, or that event, again
/quit               leave; the thread stays
//text              send a message that begins with a slash`

// commandNames returns the commands of the help.
func commandNames() []string {
	var names []string
	for line := range strings.SplitSeq(helpText, "\n") {
		if name := strings.Fields(line)[0]; name != "//text" {
			names = append(names, name)
		}
	}
	return names
}

// immediate reports commands that do not wait for the end of the turn.
func immediate(line string) bool {
	switch name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name {
	case "/help", "/interrupt", "/approvals", "/state", "/steer", "/answer", "/decline":
		return true
	}
	return false
}

func (s *session) command(ctx context.Context, text string) {
	name, arg, _ := strings.Cut(text, " ")
	switch name {
	case "/help":
		s.print(s.view.Note(strings.Split(helpText, "\n")...))
	case "/steer":
		s.post(ctx, strings.TrimSpace(arg), event.OnBusySteer)
	case "/interrupt":
		s.control(ctx, signals.ControlInterrupt)
	case "/approvals":
		s.listApprovals(ctx)
	case "/answer":
		s.answerInput(ctx, answering{}, arg)
	case "/decline":
		s.answerInput(ctx, answering{decline: true}, "")
	case "/state":
		s.showState(ctx)
	case "/retry":
		s.retry(ctx, strings.TrimSpace(arg))
	case "/quit", "/exit":
		s.quit = true
	default:
		s.print(s.view.Fail(fmt.Sprintf("%s is not a command: /help lists them, //… sends a message that begins with a slash", name)))
	}
}

// send posts a message, behind the turn in progress.
func (s *session) send(ctx context.Context, text string) {
	if s.console != nil && len(s.asks()) == 0 && (s.active || s.turns > 0) {
		s.print(s.view.Note("queued: it is answered after this turn; /steer text is said into it"))
	}
	s.post(ctx, text, "")
}

// post posts a message and waits, beside the loop, for the end of its turn.
func (s *session) post(ctx context.Context, text string, busy event.OnBusy) {
	post, err := newMessage(s.thread, s.me, text)
	if err != nil {
		s.print(s.view.Fail(err.Error()))
		return
	}
	post.OnBusy = busy
	s.begin()
	s.turns++
	s.own[text]++
	end := ended{before: s.ends}
	go func() {
		err := s.persist(ctx, func(ctx context.Context) (err error) {
			end.result, err = s.threads.Turn(ctx, s.thread, post)
			return err
		})
		s.hand(ctx, func() {
			s.turns--
			s.turnEnded(ctx, end, err)
		})
	}()
}

func (s *session) turnEnded(ctx context.Context, end ended, err error) {
	s.failed = err != nil || end.result.Status == signals.TurnFailed
	if err != nil {
		if s.turns == 0 {
			s.atRest()
		}
		s.print(s.view.Fail(s.app.explain(about(s.thread, err))))
		s.closed = s.closed || errors.Is(err, signals.ErrThreadClosed)
		return
	}
	if s.settled(end) {
		s.finish(end.result)
		return
	}
	s.settling = append(s.settling, end)
	wait := s.settle
	if s.noStream || len(s.lost) > 0 {
		wait = 0
	}
	id := end.result.EventID
	time.AfterFunc(wait, func() { s.hand(ctx, func() { s.expire(id) }) })
}

// settled reports whether all events of an ended turn have arrived.
func (s *session) settled(end ended) bool {
	if s.changing {
		return false
	}
	if m := end.result.Message; m != nil && !s.view.Seen(*m) {
		// A hook or a callback may have changed the shown text: the end of the reply follows in
		// both cases.
		if !s.view.Begun(m.ID) || s.ends.finals == end.before.finals {
			return false
		}
	}
	switch end.result.Status {
	case signals.TurnFailed:
		return s.ends.errors > end.before.errors
	case signals.TurnInterrupted:
		return s.ends.cuts > end.before.cuts
	case signals.TurnCompleted, signals.TurnExpired, signals.TurnUnanswered, signals.TurnUnhandled, signals.TurnHeld, signals.TurnContinues:
	}
	return true
}

func (s *session) expire(eventID string) {
	for i := range s.settling {
		if s.settling[i].result.EventID == eventID {
			s.settling[i].late = true
		}
	}
}

// check finishes the turns whose events have arrived or are late.
func (s *session) check() {
	waiting := s.settling[:0]
	for _, end := range s.settling {
		switch {
		case s.settled(end):
			s.finish(end.result)
		case end.late:
			s.showResult(end)
			s.finish(end.result)
		default:
			waiting = append(waiting, end)
		}
	}
	s.settling = waiting
}

// showResult shows a turn's end as Temporal returned it.
func (s *session) showResult(end ended) {
	if m := end.result.Message; m != nil {
		s.print(s.view.Event(event.AgentEvent{Type: event.EventMessage, Message: m}))
	}
	if end.result.Status == signals.TurnFailed && s.ends.errors == end.before.errors {
		s.failure(event.AgentEvent{Type: event.EventError, Error: end.result.Error})
		s.swallow[end.result.Error]++
	}
	if end.result.Status == signals.TurnInterrupted {
		s.print(s.view.Warn(turnText(end.result)))
	}
}

// finish closes a turn, and reports if nobody answers, for which there is no event.
func (s *session) finish(result signals.TurnResult) {
	if s.turns == 0 {
		s.atRest()
	}
	switch result.Status {
	case signals.TurnUnanswered:
		if !s.told(result.EventID) {
			s.print(s.view.Warn(turnText(result)))
		}
	case signals.TurnUnhandled, signals.TurnExpired, signals.TurnHeld:
		s.print(s.view.Warn(turnText(result)))
	case signals.TurnCompleted, signals.TurnFailed, signals.TurnInterrupted, signals.TurnContinues:
	}
}

func (s *session) control(ctx context.Context, action signals.ControlAction) {
	s.beside(ctx, func(ctx context.Context) error {
		return s.threads.Control(ctx, s.thread, signals.Control{Action: action, By: s.me})
	}, func() {})
}

func (s *session) retry(ctx context.Context, eventID string) {
	s.retrying = true
	go func() {
		err := s.persist(ctx, func(ctx context.Context) error {
			_, err := s.threads.Retry(ctx, s.thread, eventID, s.me)
			return err
		})
		if err != nil {
			s.hand(ctx, func() {
				s.retrying = false
				s.print(s.view.Fail(s.app.explain(about(s.thread, err))))
			})
		}
	}()
}

func (s *session) showState(ctx context.Context) {
	var state signals.State
	s.beside(ctx, func(ctx context.Context) (err error) {
		state, err = s.threads.State(ctx, s.thread)
		return err
	}, func() { s.print(s.view.Note(stateLines(state)...)) })
}

// beside runs op beside the loop, and then shows its result.
func (s *session) beside(ctx context.Context, op func(context.Context) error, then func()) {
	go func() {
		limited, cancel := context.WithTimeout(ctx, s.app.flags.timeout)
		defer cancel()
		err := s.app.diagnosed(ctx, s.threads, about(s.thread, op(limited)))
		s.hand(ctx, func() {
			if err != nil {
				s.print(s.view.Fail(s.app.explain(about(s.thread, err))))
				return
			}
			then()
		})
	}()
}

// persist repeats op while Temporal does not respond, and reports that.
func (s *session) persist(ctx context.Context, op func(context.Context) error) error {
	stop := s.app.mindThread(ctx, s.threads, s.thread, func(problem string) {
		s.hand(ctx, func() { s.setWorkerless(problem) })
	})
	defer stop()
	told := false
	err := persist(ctx, op, func(error) {
		told = true
		s.hand(ctx, func() { s.setLost("temporal", true) })
	})
	if told {
		s.hand(ctx, func() { s.setLost("temporal", false) })
	}
	return err
}
