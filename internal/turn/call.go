package turn

import (
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
)

// State is what has become of a call.
type State string

// The states of a call. Records do not tell whether a call that may run has begun.
const (
	Running          State = "running"
	WaitsForApproval State = "waits for a decision"
	WaitsForClient   State = "waits for a client"
	WaitsForInput    State = "waits for input"

	Denied      State = "denied"
	Expired     State = "expired" // without a decision
	Done        State = "done"
	Failed      State = "failed"
	Interrupted State = "interrupted" // the turn has ended without a result
)

// Refused reports whether people did not let the call run.
func (s State) Refused() bool { return s == Denied || s == Expired }

// Settled reports whether the state is final.
func (s State) Settled() bool { return s.Refused() || s == Done || s == Failed || s == Interrupted }

// Call is a tool call.
type Call struct {
	ID, EventID, Agent string
	Tool, Arguments    string

	// Foreign means that the events have no such call: it is one of a sub-agent, of which they tell only that it asks, and
	// the answers.
	Foreign bool

	// Request is the last request for a decision or its last reminder, and Votes are the approvals of its round so far.
	// Decision is the last decision or vote, which may be of an earlier round.
	Request  *event.ApprovalRequest
	Votes    []event.Vote
	Decision *event.Approval

	// Client is the open request to connected clients to run the call.
	Client *event.ClientCall

	// Input is the open request for input. It is no state of a Foreign call.
	Input *event.InputRequest

	Result *Result

	// Over means that the turn has ended without a result.
	Over bool

	decisions []*event.Approval // without votes
	answered  int               // the last round of input
}

// Result is the result of a call.
type Result struct {
	Output  string
	IsError bool
}

// State returns what has become of the call.
func (c *Call) State() State {
	d := c.Decided()
	switch {
	case d != nil && d.Decision == event.DecisionDeny:
		return Denied
	case d != nil && d.Decision == event.DecisionExpired:
		return Expired
	case c.Result != nil && c.Result.IsError:
		return Failed
	case c.Result != nil:
		return Done
	case c.Over:
		return Interrupted
	case c.Foreign && (d != nil || c.Request == nil):
		return Done // what follows is in the sub-agent's thread
	case c.Input != nil:
		return WaitsForInput
	case c.Client != nil:
		return WaitsForClient
	case c.Request != nil && d == nil:
		return WaitsForApproval
	}
	return Running
}

// Waits reports whether the call goes on only after somebody has answered.
func (c *Call) Waits() bool {
	s := c.State()
	return s == WaitsForApproval || s == WaitsForClient || c.Input != nil
}

// Decided returns the decision that counts, or nil: the one on the last request or, without a request, that of a policy or
// a grant. There is none on a nil call.
func (c *Call) Decided() *event.Approval {
	if c == nil || len(c.decisions) == 0 {
		return nil
	}
	d := c.decisions[len(c.decisions)-1]
	if c.Request != nil && round(d.Round) < round(c.Request.Round) {
		return nil
	}
	return d
}

// DecidedIn returns the decision that ended the request of a round, or nil. There is none on a nil call.
func (c *Call) DecidedIn(n int) *event.Approval {
	if c == nil {
		return nil
	}
	for _, d := range slices.Backward(c.decisions) {
		if round(d.Round) == n {
			return d
		}
	}
	return nil
}

// show notes what the agent calls, which a hook may have changed.
func (c *Call) show(e event.AgentEvent) {
	if c.Foreign {
		c.Agent, c.Foreign = e.Agent, false
	}
	c.Tool, c.Arguments = e.ToolName, e.ToolArgs
}

// ask notes a request for a decision, and reports whether it begins a round.
func (c *Call) ask(q *event.ApprovalRequest) (begins bool) {
	begins = c.Request == nil || round(q.Round) > round(c.Request.Round)
	switch {
	case !begins && round(q.Round) < round(c.Request.Round):
		return false
	case begins && c.Foreign && c.Request == nil:
		c.Agent, c.Tool, c.Arguments = q.Agent, q.ToolName, q.Arguments
	}
	if begins || len(q.Votes) > len(c.Votes) {
		c.Votes = slices.Clip(q.Votes)
	}
	if c.Request = q; begins {
		c.Input, c.Client = nil, nil
	}
	return begins
}

func (c *Call) decide(a *event.Approval) {
	before := len(c.decisions) > 0 && round(a.Round) < round(c.decisions[len(c.decisions)-1].Round)
	if a.Decision == event.DecisionRevoked || before {
		return
	}
	c.Decision = a
	if a.Missing == 0 {
		c.decisions = append(c.decisions, a)
		return
	}
	voted := func(v event.Vote) bool { return addressing.SamePerson(v.By, a.By) }
	if c.Request != nil && round(a.Round) == round(c.Request.Round) && !slices.ContainsFunc(c.Votes, voted) {
		c.Votes = append(c.Votes, event.Vote{By: a.By, At: a.DecidedAt, Reason: a.Reason})
	}
}

// askInput notes a request for input, and reports whether it is a new one.
func (c *Call) askInput(q *event.InputRequest) bool {
	if c.Result != nil || c.Over || round(q.Round) <= c.answered || c.Input != nil && round(q.Round) <= round(c.Input.Round) {
		return false
	}
	if c.Foreign && c.Request == nil {
		c.Agent, c.Tool = q.Agent, q.ToolName
	}
	c.Input, c.Client = q, nil
	return true
}

func (c *Call) receive(a *event.InputReceived) {
	c.answered = max(c.answered, round(a.Round))
	if c.Input != nil && round(c.Input.Round) <= c.answered {
		c.Input = nil
	}
}

// round counts from 1.
func round(n int) int { return max(n, event.FirstRound) }
