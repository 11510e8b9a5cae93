package thread

import (
	"crypto/sha256"
	"encoding/hex"
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
	release(now, &s.Decisions.EarlyInputs, s.ReadAnswer, reading.applicable)
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

// Answer is an answer that was read, with the request that waits for it here or in a sub-agent's thread.
type Answer struct {
	signals.InputAnswers
	About

	request *event.InputRequest // nil = no call waits for the answer
}

// ReadAnswer finds the call that an answer is for. A running call has stored its request before the thread knows it.
func (s *State) ReadAnswer(a signals.InputAnswers) Answer {
	r := Answer{InputAnswers: a, About: About{thread: s}}
	r.sub, r.request = s.Children.input(a)
	switch c := s.Turns.call(a.ToolCallID); {
	case c == nil:
		r.early = r.sub == nil && !s.Decisions.knows(r.key()) && s.mayAsk()
	case c.Stage == CallReady:
		r.early = roundOf(a) == c.Answered+1
	case c.Stage == CallAtInput:
		r.call, r.request = c, c.Input
	}
	return r
}

// key returns the key of the request that the answer is for in [SubAgent].Forwarded and [Decisions].Settled.
func (a Answer) key() string { return recordid.InputReceived(a.ToolCallID, roundOf(a.InputAnswers)) }

func roundOf(a signals.InputAnswers) int { return max(a.Round, event.FirstRound) }

// Keep keeps an answer until its request is known. ok is false if there is no room.
func (a Answer) Keep() (out signals.DecideOutcome, ok bool) {
	return signals.DecideAccepted, keep(&a.thread.Decisions.EarlyInputs, a.InputAnswers, maxDecisionBytes)
}

// Take applies an answer that was sent by signal. One that changes nothing leaves an audit
// record.
func (a Answer) Take(now time.Time) {
	if a.early {
		if _, kept := a.Keep(); kept {
			return
		}
	}
	out, err := a.Apply(now)
	if err != nil {
		a.thread.Reject(now, signals.SignalAnswerInput, a.InputAnswers, err)
		return
	}
	a.rejectUnless(now, out, signals.SignalAnswerInput, a.InputAnswers)
}

func (a Answer) restorable() bool {
	return a.call != nil && a.request.Round == roundOf(a.InputAnswers)
}

// Apply gives a call the input for which it waits, so that it runs again. If no such call waits,
// it changes nothing and returns the reason. The error names a question without an answer, or an
// answer without a question.
func (a Answer) Apply(now time.Time) (signals.DecideOutcome, error) {
	s, c := a.thread, a.call
	switch {
	case c == nil || roundOf(a.InputAnswers) < c.Input.Round:
		return s.Decisions.settled(a.key(), inputSum(a.Answers)), nil
	case roundOf(a.InputAnswers) > c.Input.Round:
		return signals.DecideNotPending, nil
	case isAgent(s.agentNames(), a.By):
		return signals.DecideNotAllowed, nil
	}
	if err := checkAnswers(c.Input.Questions, a.Answers); err != nil {
		return "", err
	}
	got := event.InputReceived{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Agent: c.run.Agent, Round: c.Input.Round, Answers: a.Answers, By: a.By, ReceivedAt: now,
	}
	id := a.key()
	c.run.turn.record(now, id, event.TypeInputReceived, got)
	c.Stage, c.Answered, c.Input = CallReady, c.Input.Round, nil
	s.Decisions.rememberSettled(id, inputSum(a.Answers))
	s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: c.Plan.ID, Input: &got})
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

func inputSum(answers map[string]event.InputAnswer) event.Decision {
	sum := sha256.Sum256(rawJSON(answers))
	return event.Decision(hex.EncodeToString(sum[:8]))
}
