package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// AskInput makes a call wait for a person's input, here and in the parent threads. It then applies
// early answers.
func (c *Call) AskInput(now time.Time, q event.InputRequest) {
	s := c.run.turn.thread
	c.Stage, c.Input = CallAtInput, &q
	s.askParent(step.SubAgentRequest{Input: &q})
	s.applyEarlyInputs(now)
}

// withdrawn is the end of a request for input that nobody answered.
func withdrawn(now time.Time, q event.InputRequest) event.InputReceived {
	return event.InputReceived{
		ToolCallID: q.ToolCallID, ToolName: q.ToolName, Agent: q.Agent, Round: q.Round, Answers: map[string]event.InputAnswer{},
		By: "threadmill", ReceivedAt: now, Withdrawn: true,
	}
}

// InputRequests returns the requests for input that wait for a person, including those of sub-agents.
func (s *State) InputRequests() []event.InputRequest {
	out := []event.InputRequest{}
	for _, sub := range s.Children.SubAgents {
		out = append(out, sub.Inputs...)
	}
	s.Turns.eachCall(func(c *Call) {
		if c.Stage == CallAtInput {
			out = append(out, *c.Input)
		}
	})
	return out
}

// IsEarlyInput reports whether an answer may arrive before its request, as [State.IsEarlyDecision] does for decisions: the
// running call has stored it.
func (s *State) IsEarlyInput(a signals.InputAnswers) bool {
	if c := s.Turns.call(a.ToolCallID); c != nil {
		return c.Stage == CallReady && roundOf(a) == c.Answered+1
	}
	received := recordid.InputReceived(a.ToolCallID, roundOf(a))
	return !s.Children.Input(a) && s.mayAsk() && !slices.ContainsFunc(s.Decisions.Settled, func(x Settled) bool { return x.Key == received })
}

func roundOf(a signals.InputAnswers) int { return max(a.Round, event.FirstRound) }

// TakeInput applies an answer that was sent by signal. One that changes nothing leaves an audit
// record.
func (s *State) TakeInput(now time.Time, a signals.InputAnswers) {
	if s.IsEarlyInput(a) && s.Decisions.BufferEarlyInput(a) {
		return
	}
	out, err := s.AnswerInput(now, a)
	if err == nil && out != signals.DecideAccepted && out != signals.DecideAlreadyResolved {
		err = errors.New(string(out))
	}
	if err != nil {
		s.Reject(now, signals.SignalAnswerInput, a, err)
	}
}

// BufferEarlyInput keeps an answer until its request is known. It reports whether there was room.
func (ds *Decisions) BufferEarlyInput(a signals.InputAnswers) bool {
	size := len(rawJSON(a))
	for _, kept := range ds.EarlyInputs {
		size += len(rawJSON(kept))
	}
	if len(ds.EarlyInputs) >= maxEarly || size > maxDecisionBytes {
		return false
	}
	ds.EarlyInputs = append(ds.EarlyInputs, a)
	return true
}

func (s *State) applyEarlyInputs(now time.Time) {
	early := func(a signals.InputAnswers) bool { return s.Children.Input(a) || s.IsEarlyInput(a) }
	release(&s.Decisions.EarlyInputs, early, func(a signals.InputAnswers) { s.TakeInput(now, a) })
}

// AnswerInput gives a call the input for which it waits, so that it runs again. If no such call waits,
// it changes nothing and returns the reason. The error names a question without an answer, or an
// answer without a question.
func (s *State) AnswerInput(now time.Time, a signals.InputAnswers) (signals.DecideOutcome, error) {
	c := s.Turns.callAt(a.ToolCallID, CallAtInput)
	switch {
	case c == nil || roundOf(a) < c.Input.Round:
		return s.Decisions.inputReceivedAs(a), nil
	case roundOf(a) > c.Input.Round:
		return signals.DecideNotPending, nil
	case s.isAgent(a.By):
		return signals.DecideNotAllowed, nil
	}
	if err := checkAnswers(c.Input.Questions, a.Answers); err != nil {
		return "", err
	}
	got := event.InputReceived{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Agent: c.run.Agent, Round: c.Input.Round, Answers: a.Answers, By: a.By, ReceivedAt: now,
	}
	id := recordid.InputReceived(c.Plan.ID, c.Input.Round)
	c.run.turn.record(now, id, event.TypeInputReceived, got)
	c.Stage, c.Answered, c.Input = CallReady, c.Input.Round, nil
	s.Decisions.rememberSettled(id, inputSum(a.Answers))
	s.tellParent(step.SubAgentDecision{ToolCallID: c.Plan.ID, Input: &got})
	return signals.DecideAccepted, nil
}

// checkAnswers reports the first question without an answer, and the first answer without a question.
func checkAnswers(questions []event.InputQuestion, answers map[string]event.InputAnswer) error {
	for _, q := range questions {
		a, ok := answers[q.ID]
		switch {
		case !ok:
			return event.FieldErrorf("answers."+q.ID, "is required: the answer to %q", q.Message)
		case a.Action == event.InputAccept && q.Kind == event.InputForm && len(a.Content) == 0:
			return event.FieldErrorf("answers."+q.ID+".content", "is required with the action accept: the values")
		}
	}
	if len(answers) > len(questions) {
		return event.FieldErrorf("answers", "has an answer to a question that was not asked")
	}
	return nil
}

// inputReceivedAs returns the outcome of an answer for which no call waits.
func (ds *Decisions) inputReceivedAs(a signals.InputAnswers) signals.DecideOutcome {
	return ds.settled(recordid.InputReceived(a.ToolCallID, roundOf(a)), inputSum(a.Answers))
}

func inputSum(answers map[string]event.InputAnswer) event.Decision {
	sum := sha256.Sum256(rawJSON(answers))
	return event.Decision(hex.EncodeToString(sum[:8]))
}
