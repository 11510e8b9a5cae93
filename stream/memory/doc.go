// Package memory is the live stream of a single process: the driver for the
// development server, for tests, and for a worker that also serves the API.
//
// Each thread has a log that subscribers read from directly, at an offset of their
// own, so a viewer costs a position and a wake-up. A log begins at the current time
// in microseconds and grows by one per entry: an offset of a log that is gone lies
// below every offset of the one that follows it, as long as the clock of the machine
// does not go back between two runs of the process and a thread does not publish
// more than a million entries per second throughout.
//
// A log that is empty and that nobody reads is dropped, and with it the knowledge of
// what it gave: asking for what follows one of its offsets gives a gap.
package memory
