package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// everyRound is the round of a call that needs no further decision.
const everyRound = math.MaxInt

// roundOf counts from 1.
func roundOf(round int) int { return max(round, 1) }

// questions are the tool calls that wait for an answer.
type questions struct {
	asks     []request      // the first is the current question
	decided  map[string]int // the last settled round of each call
	deciding int

	// inputs are the open requests for input, the oldest first.
	inputs []event.InputRequest
}

// add queues a question, and reports whether it is now the current one.
func (q *questions) add(req request) bool {
	known := func(other request) bool { return other.ToolCallID == req.ToolCallID }
	if roundOf(req.Round) <= q.decided[req.ToolCallID] || slices.ContainsFunc(q.asks, known) {
		return false
	}
	q.asks = append(q.asks, req)
	return len(q.asks) == 1
}

// settle removes the question about a call, up to a round. It returns the next question, if the
// removed one was the current one.
func (q *questions) settle(toolCallID string, round int) *request {
	if toolCallID == "" {
		return nil
	}
	q.decided[toolCallID] = max(q.decided[toolCallID], round)
	i := slices.IndexFunc(q.asks, func(req request) bool { return req.ToolCallID == toolCallID && roundOf(req.Round) <= round })
	if i < 0 {
		return nil
	}
	q.asks = slices.Delete(q.asks, i, i+1)
	if i > 0 || len(q.asks) == 0 {
		return nil
	}
	return &q.asks[0]
}

// asked handles an approval request: a first one, a later round, or a reminder.
func (s *session) asked(e event.AgentEvent) {
	if e.Request == nil {
		return
	}
	req := *e.Request
	at := slices.IndexFunc(s.asks, func(known request) bool { return known.ToolCallID == req.ToolCallID })
	switch {
	case req.Reminder == 0:
		s.ask(req)
	case roundOf(req.Round) <= s.decided[req.ToolCallID]:
		s.print(s.view.Event(e)) // a reminder
	case at < 0:
		s.ask(req)
	case at == 0:
		s.print(s.view.Question(req))
	}
}

// approval handles a decision.
func (s *session) approval(e event.AgentEvent) {
	a := e.Approval
	if a == nil {
		return
	}
	s.print(s.view.Event(e))
	if a.Missing == 0 && a.Decision != event.DecisionRevoked {
		s.settleAsk(a.ToolCallID, roundOf(a.Round))
	}
}

// ask asks the question about a tool call, or queues it behind the current one.
func (s *session) ask(req request) {
	if s.add(req) {
		s.print(s.view.Question(req))
	}
}

// settleAsk removes the question about a call, and asks the next one.
func (s *session) settleAsk(toolCallID string, round int) {
	if next := s.questions.settle(toolCallID, round); next != nil {
		s.print(s.view.Question(*next))
	}
}

// answer takes a line as the answer to the current question.
func (s *session) answer(ctx context.Context, text string) {
	req := s.asks[0]
	d := signals.Decide{
		ToolCallID: req.ToolCallID, Scope: event.ScopeOnce, By: s.me, Agent: req.Agent, ToolName: req.ToolName, Round: req.Round, Digest: req.Digest,
	}
	switch strings.ToLower(text) {
	case "":
		s.print(s.view.Question(req))
		return
	case "y", "yes":
		d.Decision = event.DecisionApprove
	case "s", "session":
		d.Decision, d.Scope = event.DecisionApprove, event.ScopeSession
	case "n", "no":
		d.Decision = event.DecisionDeny
	default:
		d.Decision, d.Reason = event.DecisionDeny, text
	}
	s.decide(ctx, d)
}

func (s *session) decide(ctx context.Context, d signals.Decide) {
	s.deciding++
	round := roundOf(d.Round)
	s.settleAsk(d.ToolCallID, round)
	go func() {
		var got signals.DecideResult
		err := s.persist(ctx, func(ctx context.Context) (err error) {
			got, err = s.threads.Decide(ctx, s.thread, d)
			return err
		})
		s.hand(ctx, func() {
			s.deciding--
			if _, refused := errors.AsType[*signals.DecisionError](err); err != nil && !refused {
				s.decided[d.ToolCallID] = round - 1 // so that it can be asked again
				s.print(s.view.Fail(s.app.explain(about(s.thread, err))))
			} else if problem := outcomeProblem(s.thread, d, got.Result); problem != "" {
				s.print(s.view.Warn(problem))
			}
		})
	}()
}

func (s *session) listApprovals(ctx context.Context) {
	var waiting signals.Approvals
	s.beside(ctx, func(ctx context.Context) (err error) {
		waiting, err = s.threads.Approvals(ctx, s.thread)
		return err
	}, func() {
		if len(waiting.Approvals)+len(waiting.ClientCalls)+len(waiting.Inputs) == 0 {
			s.print(s.view.Note("nothing waits for an answer"))
			return
		}
		s.showWaiting(waiting)
		if len(s.asks) == 0 {
			s.print(s.view.Note(fmt.Sprintf("%d waiting, for others", len(waiting.Approvals)+len(waiting.ClientCalls)+len(waiting.Inputs))))
			return
		}
		s.print(s.view.Note(fmt.Sprintf("%d waiting", len(waiting.Approvals))))
		s.print(s.view.Question(s.asks[0]))
	})
}

// showWaiting asks the pending questions, and shows the pending client calls.
func (s *session) showWaiting(waiting signals.Approvals) {
	for _, req := range waiting.Approvals {
		s.ask(req)
	}
	for _, q := range waiting.Inputs {
		e := event.AgentEvent{Type: event.EventInputRequest, Input: &q}
		s.asksInput(e)
		s.print(s.view.Event(e))
	}
	for _, call := range waiting.ClientCalls {
		s.print(s.view.Event(event.AgentEvent{Type: event.EventClientCall, ClientCall: &call}))
	}
}
