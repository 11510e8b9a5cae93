package chat

import "github.com/threadmill/threadmill/event"

// Part is a part of an answer: a [Text], [Thought], [Call], [Ask], [Decided], [Question], [Found], [World], [Notice] or
// [Failure]. Parts change while a turn goes on, and stay at their place.
type Part interface{ part() }

// Text is what an agent says.
type Text struct {
	Reply, Agent string
	Content      string

	// Done means that it is stored, or that no more follows.
	Done bool
}

// Thought is what an agent thinks. It is live only.
type Thought struct {
	Reply, Agent string
	Content      string
	Done         bool
}

// Call is a tool call.
type Call struct {
	ID, Reply, Agent string
	Tool, Arguments  string

	// Foreign means that the call is one of a sub-agent, of which this thread knows only that it asks, and what was
	// decided.
	Foreign bool

	// Request is the last request for a decision, Decision the last decision or vote. They may be of different rounds.
	Request  *event.ApprovalRequest
	Decision *event.Approval

	// ForClient means that a connected client runs it, and has been asked to, in the revision AskedAt of the message.
	ForClient bool
	AskedAt   int

	// Question is the request for input that it waits for. It is no state of a Foreign call.
	Question *Question

	Result *Result

	// Over means that the turn has ended without a result.
	Over bool

	// SettledAt is the revision of the message in which it was denied, or done.
	SettledAt int
}

// Result is the result of a call.
type Result struct {
	Output  string
	IsError bool
}

// Ask stands where a decision on a call was asked for first.
type Ask struct{ Call *Call }

// Decided stands where the first decision or vote on a call was made.
type Decided struct{ Call *Call }

// Question is a tool's request for input.
type Question struct {
	Request  event.InputRequest
	Received *event.InputReceived

	// Foreign means that a sub-agent's call asks, which is no part of the answer unless it needed approval.
	Foreign bool

	// Withdrawn means that the call no longer waits for an answer.
	Withdrawn bool
}

// Found is what an agent was given for its reply.
type Found struct{ *event.Retrieval }

// World is an environment event.
type World struct{ *event.EnvEvent }

// Notice tells of hooks that decided, or of an event that nobody answers.
type Notice struct{ *event.StatusChange }

// Failure is the failure of an agent.
type Failure struct{ Agent, Reply, Error, Class string }

// Open reports whether the question waits for an answer.
func (q *Question) Open() bool { return q.Received == nil && !q.Withdrawn }

func (*Text) part()     {}
func (*Thought) part()  {}
func (*Call) part()     {}
func (*Ask) part()      {}
func (*Decided) part()  {}
func (*Question) part() {}
func (*Found) part()    {}
func (*World) part()    {}
func (*Notice) part()   {}
func (*Failure) part()  {}

// State is what has become of a call.
type State string

// The states of a call.
const (
	Running        State = "running"
	WaitsForPerson State = "waits for a decision"
	WaitsForClient State = "waits for a client"
	WaitsForInput  State = "waits for input"
	Denied         State = "denied"
	Done           State = "done"
)

// State returns what has become of the call.
func (c *Call) State() State {
	decided := c.decided()
	switch {
	case decided == event.DecisionDeny, decided == event.DecisionExpired:
		return Denied
	case c.Result != nil, c.Over:
		return Done
	case c.Foreign && (decided != "" || c.Request == nil):
		return Done // what follows is in the sub-agent's thread
	case c.Question != nil:
		return WaitsForInput
	case c.ForClient:
		return WaitsForClient
	case c.Request != nil && decided == "":
		return WaitsForPerson
	}
	return Running
}

// Waits reports whether the call goes on only after somebody has answered.
func (c *Call) Waits() bool {
	s := c.State()
	return s == WaitsForPerson || s == WaitsForClient || c.Question != nil
}

// Approved reports whether there was a request that has been decided on, and the decision.
func (c *Call) Approved() (approved, known bool) {
	d := c.decided()
	return d == event.DecisionApprove, d != ""
}

// decided returns the decision that counts: the one on the last request, once no vote is missing.
func (c *Call) decided() event.Decision {
	d := c.Decision
	if d == nil || d.Missing > 0 || c.Request != nil && round(d.Round) < round(c.Request.Round) {
		return ""
	}
	if d.Decision == event.DecisionRevoked {
		return ""
	}
	return d.Decision
}

func round(n int) int { return max(n, event.FirstRound) }

// ApprovalID returns the id of a request for a decision. An answer to a request that has been replaced, such as one for
// arguments that have changed, has the id of that one.
func ApprovalID(r *event.ApprovalRequest) string {
	if r.Round <= event.FirstRound {
		return r.ToolCallID
	}
	return event.ApprovalCallID(r.ToolCallID, r.Round)
}
