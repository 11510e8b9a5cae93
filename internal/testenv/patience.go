package testenv

import "time"

const (
	// Patience bounds every wait of a test for a condition: far above its duration on a machine that is busy and five
	// times slower, since a wait that is in vain costs time once, and one that is too short fails at random. A time
	// that a test is about does not belong here.
	Patience = 5 * time.Minute

	// Tick is the interval at which a test looks again.
	Tick = 10 * time.Millisecond
)
