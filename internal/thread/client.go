package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// AskClient lets a call wait for a connected client that runs it. A result that is ahead of
// it counts at once.
func (s *State) AskClient(now time.Time, r *Run, c *Call) {
	// First those from before people were asked again: they are about the call as it was then.
	s.catchUpResults(now)
	c.Stage = AtClient
	c.Client = &event.ClientCall{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Arguments: c.Plan.Arguments, Agent: r.Agent, MessageID: r.MessageID,
		RequestedAt: now, ExpiresAt: now.Add(c.Plan.ClientTime),
	}
	s.record(event.ClientCallID(c.Plan.ID), event.TypeClientCall, s.Turn.Item.TraceID, s.Turn.Item.ID, now, *c.Client)
	s.catchUpResults(now)
}

// ClientCalls lists the calls that wait for a connected client.
func (s *State) ClientCalls() []event.ClientCall {
	out := []event.ClientCall{}
	s.eachCall(func(_ *Run, c *Call) {
		if c.Stage == AtClient {
			out = append(out, *c.Client)
		}
	})
	return out
}

// EarlyResult reports whether a result may be ahead of its call: a client sees the call as
// soon as the reply that makes it is stored, which is before the thread hears of it.
func (s *State) EarlyResult(toolCallID string) bool {
	found, waits := false, false
	s.eachCall(func(_ *Run, c *Call) {
		if c.Plan.ID == toolCallID {
			found, waits = true, c.Plan.By == ByClient && c.Stage == Ready && c.Round <= event.FirstRound
		}
	})
	answered := func(x Settled) bool { return x.ToolCallID == answerKey(toolCallID) }
	return waits || !found && s.Early(toolCallID) && !slices.ContainsFunc(s.Settled, answered)
}

// maxAheadBytes bounds the results that are held back, as the next run of the workflow takes
// them: one that is as large as results may be, and some small ones.
const maxAheadBytes = signals.MaxPayload + 64<<10

// HoldResult keeps a result that is ahead of its call, and says what becomes of it.
func (s *State) HoldResult(res signals.ToolResult) signals.DecideOutcome {
	size := len(rawJSON(res))
	for _, held := range s.AheadResults {
		if held == res {
			return signals.Accepted
		}
		size += len(rawJSON(held))
	}
	switch {
	case s.isAgent(res.By):
		return signals.NotAllowed
	case len(s.AheadResults) >= maxAhead || size > maxAheadBytes:
		return signals.NotPending
	}
	s.AheadResults = append(s.AheadResults, res)
	return signals.Accepted
}

// TakeResult takes in a result that nobody waits for an answer to: one that changes nothing
// leaves an audit record.
func (s *State) TakeResult(now time.Time, res signals.ToolResult) {
	var out signals.DecideOutcome
	if s.EarlyResult(res.ToolCallID) {
		out = s.HoldResult(res)
	} else {
		out = s.ToolResult(now, res)
	}
	if out != signals.Accepted && out != signals.AlreadyResolved {
		s.Reject(now, signals.SignalToolResult, res, errors.New(string(out)))
	}
}

// catchUpResults is [State.catchUp] for the results of clients.
func (s *State) catchUpResults(now time.Time) {
	early := func(res signals.ToolResult) bool { return s.EarlyResult(res.ToolCallID) }
	release(&s.AheadResults, early, func(res signals.ToolResult) { s.TakeResult(now, res) })
}

// ToolResult takes in the result of a call that a connected client has run, if that call
// waits for one. Whatever else comes back changes nothing.
func (s *State) ToolResult(now time.Time, res signals.ToolResult) signals.DecideOutcome {
	var turn *Turn
	var run *Run
	var call *Call
	s.eachCall(func(r *Run, c *Call) {
		if c.Stage == AtClient && c.Plan.ID == res.ToolCallID {
			turn, run, call = s.Turn, r, c
		}
	})
	switch {
	case call == nil:
		return s.answeredAs(res)
	case s.isAgent(res.By):
		return signals.NotAllowed
	case res.Agent != "" && !strings.EqualFold(res.Agent, run.Agent),
		res.ToolName != "" && !strings.EqualFold(res.ToolName, call.Plan.Name):
		return signals.Mismatch
	}
	m := s.result(run, call, call.told()+res.Output, res.IsError)
	m.Metadata = map[string]any{"by": res.By}
	s.recordUndecided(s.eventOf(turn.Item.TraceID, turn.Item.ID), m.ID, event.TypeMessage, turn.Item.TraceID, turn.Item.ID, now, m)
	call.Stage, call.Failed, call.Undecided = Ran, res.IsError, true
	s.Settled = keepLast(append(s.Settled, Settled{answerKey(res.ToolCallID), answerSum(res)}), maxDecided)
	return signals.Accepted
}

// answeredAs says what a result is to a call that waits for none.
func (s *State) answeredAs(res signals.ToolResult) signals.DecideOutcome {
	at := slices.IndexFunc(s.Settled, func(x Settled) bool { return x.ToolCallID == answerKey(res.ToolCallID) })
	switch {
	case at < 0:
		return signals.NotPending
	case s.Settled[at].Decision == answerSum(res):
		return signals.AlreadyResolved
	}
	return signals.Conflict
}

// answerKey keeps the results of clients apart from what people have decided.
func answerKey(toolCallID string) string { return event.ResultID(toolCallID) }

func answerSum(res signals.ToolResult) event.Decision {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %s", res.IsError, res.Output))
	return event.Decision(hex.EncodeToString(sum[:8]))
}
