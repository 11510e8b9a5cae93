package event

// OnWaiting says what becomes of a person's message while a turn waits for people: for a
// decision on a tool call, or for a client that runs one.
type OnWaiting string

// What a message can do to a turn that waits for people.
const (
	// OnWaitingAnswer answers the message while the turn waits. The default.
	OnWaitingAnswer OnWaiting = "answer"
	// OnWaitingHold holds the message back until the turn has ended.
	OnWaitingHold OnWaiting = "hold"
	// OnWaitingCancel cancels the calls that wait, and has the turn go on with the message.
	OnWaitingCancel OnWaiting = "cancel"
)

// Valid reports whether o is one of the three.
func (o OnWaiting) Valid() bool {
	return o == OnWaitingAnswer || o == OnWaitingHold || o == OnWaitingCancel
}
