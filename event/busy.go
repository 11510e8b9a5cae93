package event

// OnBusy says how a thread handles a message while a turn is in progress.
type OnBusy string

// The values of [OnBusy].
const (
	// OnBusyEnqueue processes the message after the turn. The default.
	OnBusyEnqueue OnBusy = "enqueue"
	// OnBusySteer adds the message to the turn before its next model call.
	OnBusySteer OnBusy = "steer"
	// OnBusyInterrupt ends the turn and keeps its partial output.
	OnBusyInterrupt OnBusy = "interrupt"
	// OnBusyReject rejects the message.
	OnBusyReject OnBusy = "reject"
)

// Valid reports whether o is one of the four values.
func (o OnBusy) Valid() bool {
	return o == OnBusyEnqueue || o == OnBusySteer || o == OnBusyInterrupt || o == OnBusyReject
}

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
