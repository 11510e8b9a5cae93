package event

// OnWaiting says how a thread handles a user's message while a turn waits for a decision on a tool
// call or for a client to run one.
type OnWaiting string

// The values of [OnWaiting].
const (
	// OnWaitingAnswer answers the message while the turn waits. The default.
	OnWaitingAnswer OnWaiting = "answer"
	// OnWaitingHold delays the message until the turn has ended.
	OnWaitingHold OnWaiting = "hold"
	// OnWaitingCancel cancels the waiting calls and continues the turn with the message.
	OnWaitingCancel OnWaiting = "cancel"
)

// Valid reports whether o is one of the three values.
func (o OnWaiting) Valid() bool {
	return o == OnWaitingAnswer || o == OnWaitingHold || o == OnWaitingCancel
}
