package thread

import (
	"crypto/sha256"
	"encoding/hex"
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
	release(now, &s.Decisions.EarlyResults, s.ReadResult, reading.applicable)
	c.Stage = CallAtClient
	c.Client = &event.ClientCall{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Arguments: c.Plan.Arguments, Agent: r.Agent, MessageID: r.MessageID,
		RequestedAt: now, ExpiresAt: now.Add(c.Plan.ClientTime),
	}
	t.record(now, recordid.ClientCall(c.Plan.ID), event.TypeClientCall, *c.Client)
	release(now, &s.Decisions.EarlyResults, s.ReadResult, reading.applicable)
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

// ClientResult is the result of a client that was read, with the call that waits for it.
type ClientResult struct {
	signals.ToolResult
	About
}

// ReadResult finds the call that a result is for. Clients see a call as soon as the reply is stored, before the thread receives the reply.
func (s *State) ReadResult(res signals.ToolResult) ClientResult {
	r := ClientResult{ToolResult: res, About: About{thread: s}}
	switch c := s.Turns.call(res.ToolCallID); {
	case c == nil:
		ds := &s.Decisions
		sub, _ := s.Children.approval(res.ToolCallID)
		r.early = sub == nil && !ds.knows(res.ToolCallID) && !ds.knows(answerKey(res.ToolCallID)) && s.mayAsk()
	case c.Stage == CallAtClient:
		r.call = c
	default:
		r.early = c.Plan.By == step.ByClient && c.Stage == CallReady && c.Round <= event.FirstRound
	}
	return r
}

// maxEarlyResultBytes limits the early results, since the state carries them over continue-as-new:
// there is room for one result of maximum size and some small ones.
const maxEarlyResultBytes = signals.MaxPayload + 64<<10

// Keep keeps a result until its call is known, and returns the outcome.
func (r ClientResult) Keep() (out signals.DecideOutcome, ok bool) {
	kept := &r.thread.Decisions.EarlyResults
	switch {
	case slices.Contains(*kept, r.ToolResult):
		return signals.DecideAccepted, true
	case isAgent(r.thread.agentNames(), r.By):
		return signals.DecideNotAllowed, true
	case !keep(kept, r.ToolResult, maxEarlyResultBytes):
		return signals.DecideNotPending, true
	}
	return signals.DecideAccepted, true
}

// Take applies a result that was sent by signal. A result that changes nothing leaves an
// audit record.
func (r ClientResult) Take(now time.Time) {
	var out signals.DecideOutcome
	if r.early {
		out, _ = r.Keep()
	} else {
		out = r.Apply(now)
	}
	r.rejectUnless(now, out, signals.SignalToolResult, r.ToolResult)
}

func (r ClientResult) restorable() bool { return r.call != nil }

// Apply applies the result of a call that a connected client ran. If no such call waits for a
// client, it changes nothing and returns the reason.
func (r ClientResult) Apply(now time.Time) signals.DecideOutcome {
	s, call, res := r.thread, r.call, r.ToolResult
	switch {
	case call == nil:
		return s.Decisions.answeredAs(res)
	case isAgent(s.agentNames(), res.By):
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
