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
	s.Decisions.applyEarlyResults(now)
	c.Stage = CallAtClient
	c.Client = &event.ClientCall{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Arguments: c.Plan.Arguments, Agent: r.Agent, MessageID: r.MessageID,
		RequestedAt: now, ExpiresAt: now.Add(c.Plan.ClientTime),
	}
	t.record(now, recordid.ClientCall(c.Plan.ID), event.TypeClientCall, *c.Client)
	s.Decisions.applyEarlyResults(now)
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
func (ds *Decisions) IsEarlyResult(toolCallID string) bool {
	s := ds.thread
	found, waits := false, false
	s.Turns.eachCall(func(c *Call) {
		if c.Plan.ID == toolCallID {
			found, waits = true, c.Plan.By == step.ByClient && c.Stage == CallReady && c.Round <= event.FirstRound
		}
	})
	answered := func(x Settled) bool { return x.Key == answerKey(toolCallID) }
	return waits || !found && ds.IsEarly(toolCallID) && !slices.ContainsFunc(ds.Settled, answered)
}

// maxEarlyResultBytes limits the early results, since the state carries them over continue-as-new:
// there is room for one result of maximum size and some small ones.
const maxEarlyResultBytes = signals.MaxPayload + 64<<10

// BufferEarlyResult keeps a result until its call is known, and returns the outcome.
func (ds *Decisions) BufferEarlyResult(res signals.ToolResult) signals.DecideOutcome {
	s := ds.thread
	size := len(rawJSON(res))
	for _, held := range ds.EarlyResults {
		if held == res {
			return signals.DecideAccepted
		}
		size += len(rawJSON(held))
	}
	switch {
	case s.isAgent(res.By):
		return signals.DecideNotAllowed
	case len(ds.EarlyResults) >= maxEarly || size > maxEarlyResultBytes:
		return signals.DecideNotPending
	}
	ds.EarlyResults = append(ds.EarlyResults, res)
	return signals.DecideAccepted
}

// TakeResult applies a result that was sent by signal. A result that changes nothing leaves an
// audit record.
func (ds *Decisions) TakeResult(now time.Time, res signals.ToolResult) {
	s := ds.thread
	var out signals.DecideOutcome
	if ds.IsEarlyResult(res.ToolCallID) {
		out = ds.BufferEarlyResult(res)
	} else {
		out = ds.ToolResult(now, res)
	}
	if out != signals.DecideAccepted && out != signals.DecideAlreadyResolved {
		s.Reject(now, signals.SignalToolResult, res, errors.New(string(out)))
	}
}

// applyEarlyResults is [Decisions.applyEarly] for results of clients.
func (ds *Decisions) applyEarlyResults(now time.Time) {
	early := func(res signals.ToolResult) bool { return ds.IsEarlyResult(res.ToolCallID) }
	release(&ds.EarlyResults, early, func(res signals.ToolResult) { ds.TakeResult(now, res) })
}

// ToolResult applies the result of a call that a connected client ran. If no such call waits for a
// client, it changes nothing and returns the reason.
func (ds *Decisions) ToolResult(now time.Time, res signals.ToolResult) signals.DecideOutcome {
	s := ds.thread
	var call *Call
	s.Turns.eachCall(func(c *Call) {
		if c.Stage == CallAtClient && c.Plan.ID == res.ToolCallID {
			call = c
		}
	})
	switch {
	case call == nil:
		return ds.answeredAs(res)
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
	ds.Settled = keepLast(append(ds.Settled, Settled{answerKey(res.ToolCallID), answerSum(res)}), maxDecided)
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
