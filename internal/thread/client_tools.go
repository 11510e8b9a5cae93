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
func (c *Call) AskClient(now time.Time) {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	// First those from before people were asked again: they are about the call as it was then.
	s.applyEarlyResults(now)
	c.Stage = AtClient
	c.Client = &event.ClientCall{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Arguments: c.Plan.Arguments, Agent: r.Agent, MessageID: r.MessageID,
		RequestedAt: now, ExpiresAt: now.Add(c.Plan.ClientTime),
	}
	t.record(now, event.ClientCallID(c.Plan.ID), event.TypeClientCall, *c.Client)
	s.applyEarlyResults(now)
}

// ClientCalls lists the calls that wait for a connected client.
func (ts *Turns) ClientCalls() []event.ClientCall {
	out := []event.ClientCall{}
	ts.eachCall(func(c *Call) {
		if c.Stage == AtClient {
			out = append(out, *c.Client)
		}
	})
	return out
}

// IsEarlyResult reports whether a result may be ahead of its call: a client sees the call as
// soon as the reply that makes it is stored, which is before the thread hears of it.
func (ds *Decisions) IsEarlyResult(toolCallID string) bool {
	s := ds.thread
	found, waits := false, false
	s.eachCall(func(c *Call) {
		if c.Plan.ID == toolCallID {
			found, waits = true, c.Plan.By == ByClient && c.Stage == Ready && c.Round <= event.FirstRound
		}
	})
	answered := func(x Settled) bool { return x.ToolCallID == answerKey(toolCallID) }
	return waits || !found && ds.IsEarly(toolCallID) && !slices.ContainsFunc(ds.Settled, answered)
}

// maxEarlyResultBytes bounds the results that are held back, as the next run of the workflow takes
// them: one that is as large as results may be, and some small ones.
const maxEarlyResultBytes = signals.MaxPayload + 64<<10

// BufferEarlyResult keeps a result that is ahead of its call, and says what becomes of it.
func (ds *Decisions) BufferEarlyResult(res signals.ToolResult) signals.DecideOutcome {
	s := ds.thread
	size := len(rawJSON(res))
	for _, held := range ds.EarlyResults {
		if held == res {
			return signals.Accepted
		}
		size += len(rawJSON(held))
	}
	switch {
	case s.isAgent(res.By):
		return signals.NotAllowed
	case len(ds.EarlyResults) >= maxEarly || size > maxEarlyResultBytes:
		return signals.NotPending
	}
	ds.EarlyResults = append(ds.EarlyResults, res)
	return signals.Accepted
}

// TakeResult takes in a result that nobody waits for an answer to: one that changes nothing
// leaves an audit record.
func (ds *Decisions) TakeResult(now time.Time, res signals.ToolResult) {
	s := ds.thread
	var out signals.DecideOutcome
	if ds.IsEarlyResult(res.ToolCallID) {
		out = ds.BufferEarlyResult(res)
	} else {
		out = ds.ToolResult(now, res)
	}
	if out != signals.Accepted && out != signals.AlreadyResolved {
		s.Reject(now, signals.SignalToolResult, res, errors.New(string(out)))
	}
}

// applyEarlyResults is [State.applyEarly] for the results of clients.
func (ds *Decisions) applyEarlyResults(now time.Time) {
	early := func(res signals.ToolResult) bool { return ds.IsEarlyResult(res.ToolCallID) }
	release(&ds.EarlyResults, early, func(res signals.ToolResult) { ds.TakeResult(now, res) })
}

// ToolResult takes in the result of a call that a connected client has run, if that call
// waits for one. Whatever else comes back changes nothing.
func (ds *Decisions) ToolResult(now time.Time, res signals.ToolResult) signals.DecideOutcome {
	s := ds.thread
	var call *Call
	s.eachCall(func(c *Call) {
		if c.Stage == AtClient && c.Plan.ID == res.ToolCallID {
			call = c
		}
	})
	switch {
	case call == nil:
		return ds.answeredAs(res)
	case s.isAgent(res.By):
		return signals.NotAllowed
	case res.Agent != "" && !strings.EqualFold(res.Agent, call.run.Agent),
		res.ToolName != "" && !strings.EqualFold(res.ToolName, call.Plan.Name):
		return signals.Mismatch
	}
	m := call.result(call.editedPrefix()+res.Output, res.IsError)
	m.Metadata = map[string]any{"by": res.By}
	call.run.turn.recordUndecided(now, m.ID, event.TypeMessage, m)
	call.Stage, call.Failed, call.Undecided = Ran, res.IsError, true
	ds.Settled = keepLast(append(ds.Settled, Settled{answerKey(res.ToolCallID), answerSum(res)}), maxDecided)
	return signals.Accepted
}

// answeredAs says what a result is to a call that waits for none.
func (ds *Decisions) answeredAs(res signals.ToolResult) signals.DecideOutcome {
	at := slices.IndexFunc(ds.Settled, func(x Settled) bool { return x.ToolCallID == answerKey(res.ToolCallID) })
	switch {
	case at < 0:
		return signals.NotPending
	case ds.Settled[at].Decision == answerSum(res):
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
