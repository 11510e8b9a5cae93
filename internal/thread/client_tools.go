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
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// AskClient makes a call wait for a connected client to run it. It first applies early results for
// the call.
func (c *Call) AskClient(now time.Time) {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	// Apply results of earlier rounds first: they are about the call as it was then.
	s.applyEarlyResults(now)
	c.Stage = CallAtClient
	c.Client = &event.ClientCall{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Arguments: c.Plan.Arguments, Agent: r.Agent, MessageID: r.MessageID,
		RequestedAt: now, ExpiresAt: now.Add(c.Plan.ClientTime),
	}
	t.record(now, recordid.ClientCall(c.Plan.ID), event.TypeClientCall, *c.Client)
	s.applyEarlyResults(now)
}

// ClientCalls returns the calls that wait for a connected client.
func (ts *Turns) ClientCalls() []event.ClientCall {
	out := []event.ClientCall{}
	ts.eachCall(func(c *Call) {
		if c.Stage == CallAtClient {
			out = append(out, *c.Client)
		}
	})
	return out
}

// IsEarlyResult reports whether a result may arrive before its call: clients see a call as soon as
// the reply is stored, before the thread receives the reply.
func (s *State) IsEarlyResult(toolCallID string) bool {
	if c := s.Turns.call(toolCallID); c != nil {
		return c.Plan.By == step.ByClient && c.Stage == CallReady && c.Round <= event.FirstRound
	}
	answered := func(x Settled) bool { return x.Key == answerKey(toolCallID) }
	return !s.knows(toolCallID) && s.mayAsk() && !slices.ContainsFunc(s.Decisions.Settled, answered)
}

// maxEarlyResultBytes limits the early results, since the state carries them over continue-as-new:
// there is room for one result of maximum size and some small ones.
const maxEarlyResultBytes = signals.MaxPayload + 64<<10

// BufferEarlyResult keeps a result until its call is known, and returns the outcome.
func (s *State) BufferEarlyResult(res signals.ToolResult) signals.DecideOutcome {
	switch {
	case slices.Contains(s.Decisions.EarlyResults, res):
		return signals.DecideAccepted
	case s.isAgent(res.By):
		return signals.DecideNotAllowed
	case !s.Decisions.keepEarlyResult(res):
		return signals.DecideNotPending
	}
	return signals.DecideAccepted
}

// keepEarlyResult keeps a result until its call is known. It reports whether there was room.
func (ds *Decisions) keepEarlyResult(res signals.ToolResult) bool {
	size := len(rawJSON(res))
	for _, held := range ds.EarlyResults {
		size += len(rawJSON(held))
	}
	if len(ds.EarlyResults) >= maxEarly || size > maxEarlyResultBytes {
		return false
	}
	ds.EarlyResults = append(ds.EarlyResults, res)
	return true
}

// TakeResult applies a result that was sent by signal. A result that changes nothing leaves an
// audit record.
func (s *State) TakeResult(now time.Time, res signals.ToolResult) {
	var out signals.DecideOutcome
	if s.IsEarlyResult(res.ToolCallID) {
		out = s.BufferEarlyResult(res)
	} else {
		out = s.ToolResult(now, res)
	}
	if out != signals.DecideAccepted && out != signals.DecideAlreadyResolved {
		s.Reject(now, signals.SignalToolResult, res, errors.New(string(out)))
	}
}

// applyEarlyResults is [State.applyEarly] for results of clients.
func (s *State) applyEarlyResults(now time.Time) {
	early := func(res signals.ToolResult) bool { return s.IsEarlyResult(res.ToolCallID) }
	release(&s.Decisions.EarlyResults, early, func(res signals.ToolResult) { s.TakeResult(now, res) })
}

// ToolResult applies the result of a call that a connected client ran. If no such call waits for a
// client, it changes nothing and returns the reason.
func (s *State) ToolResult(now time.Time, res signals.ToolResult) signals.DecideOutcome {
	call := s.Turns.callAt(res.ToolCallID, CallAtClient)
	switch {
	case call == nil:
		return s.Decisions.answeredAs(res)
	case s.isAgent(res.By):
		return signals.DecideNotAllowed
	case res.Agent != "" && !strings.EqualFold(res.Agent, call.run.Agent),
		res.ToolName != "" && !strings.EqualFold(res.ToolName, call.Plan.Name):
		return signals.DecideMismatch
	}
	m := call.result(call.editedPrefix()+res.Output, res.IsError)
	m.Metadata = map[string]any{"by": res.By}
	call.run.turn.recordUndecided(now, m.ID, event.TypeMessage, m)
	call.Stage, call.Failed, call.Undecided = CallRan, res.IsError, true
	s.Decisions.rememberSettled(answerKey(res.ToolCallID), answerSum(res))
	return signals.DecideAccepted
}

// answeredAs returns the outcome of a result for a call that does not wait for one.
func (ds *Decisions) answeredAs(res signals.ToolResult) signals.DecideOutcome {
	at := slices.IndexFunc(ds.Settled, func(x Settled) bool { return x.Key == answerKey(res.ToolCallID) })
	switch {
	case at < 0:
		return signals.DecideNotPending
	case ds.Settled[at].Decision == answerSum(res):
		return signals.DecideAlreadyResolved
	}
	return signals.DecideConflict
}

// answerKey returns the key of a client's result in Settled, distinct from that of a decision.
func answerKey(toolCallID string) string { return recordid.Result(toolCallID) }

func answerSum(res signals.ToolResult) event.Decision {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %s", res.IsError, res.Output))
	return event.Decision(hex.EncodeToString(sum[:8]))
}
