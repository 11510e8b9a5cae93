package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/turn"
	"github.com/threadmill/threadmill/signals"
)

// questions are the tool calls that wait for an answer.
type questions struct {
	calls    turn.Calls
	deciding int

	// sent are the requests that were answered from here, by their ids: false if the answer did not arrive, so that they can
	// be asked again.
	sent map[string]bool
}

// asks returns the requests for approval that were not answered from here. The first is the current question.
func (q *questions) asks() (out []request) {
	for _, c := range q.calls.Waiting() {
		if c.State() == turn.WaitsForApproval && !q.answered(event.ApprovalCallID(c.ID, c.Request.Round)) {
			out = append(out, *c.Request)
		}
	}
	return out
}

// inputs returns the requests for input that were not answered from here, the oldest first.
func (q *questions) inputs() (out []event.InputRequest) {
	for _, c := range q.calls.Waiting() {
		if c.Input != nil && !q.answered(recordid.InputRequest(c.ID, c.Input.Round)) {
			out = append(out, *c.Input)
		}
	}
	return out
}

func (q *questions) answered(id string) bool {
	_, sent := q.sent[id]
	return sent
}

// reopen lets a request be asked again whose answer did not arrive.
func (q *questions) reopen(id string) {
	if !q.sent[id] {
		delete(q.sent, id)
	}
}

// change changes the questions, and asks the current one unless it was asked before.
func (s *session) change(how func()) {
	before := s.asks()
	how()
	now := s.asks()
	if len(now) > 0 && (len(before) == 0 || render.Asking(now[0]) != render.Asking(before[0])) {
		s.print(s.view.Question(now[0]))
	}
}

// asked handles an approval request: a first one, a later round, or a reminder.
func (s *session) asked(e event.AgentEvent) {
	if e.Request == nil {
		return
	}
	s.change(func() {
		s.reopen(event.ApprovalCallID(e.Request.ToolCallID, e.Request.Round))
		s.calls.Apply(e)
	})
	asks := slices.ContainsFunc(s.asks(), func(req request) bool { return req.ToolCallID == e.Request.ToolCallID })
	if e.Request.Reminder > 0 && !asks {
		s.print(s.view.Event(e))
	}
}

// answer takes a line as the answer to the current question.
func (s *session) answer(ctx context.Context, text string) {
	req := s.asks()[0]
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
	id := event.ApprovalCallID(d.ToolCallID, d.Round)
	s.change(func() { s.sent[id] = true })
	go func() {
		var got signals.DecideResult
		err := s.persist(ctx, func(ctx context.Context) (err error) {
			got, err = s.threads.Decide(ctx, s.thread, d)
			return err
		})
		s.hand(ctx, func() {
			s.deciding--
			if _, refused := errors.AsType[*signals.DecisionError](err); err != nil && !refused {
				s.sent[id] = false
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
		asks := s.asks()
		if len(asks) == 0 {
			s.print(s.view.Note(fmt.Sprintf("%d waiting, for others", len(waiting.Approvals)+len(waiting.ClientCalls)+len(waiting.Inputs))))
			return
		}
		s.print(s.view.Note(fmt.Sprintf("%d waiting", len(waiting.Approvals))))
		s.print(s.view.Question(asks[0]))
	})
}

// showWaiting asks the pending questions, and shows the pending client calls.
func (s *session) showWaiting(waiting signals.Approvals) {
	for _, req := range waiting.Approvals {
		s.asked(event.AgentEvent{Type: event.EventApprovalRequest, Request: &req})
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
