package chat

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/turn"
)

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

// Call is a tool call, and the reply that makes it.
type Call struct {
	*turn.Call
	Reply string

	// AskedAt is the revision of the message in which a connected client was asked to run it, SettledAt that in which it was
	// settled.
	AskedAt, SettledAt int
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

// ApprovalID returns the id of a request for a decision. An answer to a request that has been replaced, such as one for
// arguments that have changed, has the id of that one.
func ApprovalID(r *event.ApprovalRequest) string {
	if r.Round <= event.FirstRound {
		return r.ToolCallID
	}
	return event.ApprovalCallID(r.ToolCallID, r.Round)
}
