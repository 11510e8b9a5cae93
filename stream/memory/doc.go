// Package memory is the live stream of a single process: the driver for the development server, for
// tests, and for a worker that also serves the API.
//
// Subscribers read directly from the log of a thread, each at its own position, so a viewer costs a
// position and a wake-up. The offsets of a log start at the current time in microseconds and
// increase by one per entry. The offsets of a lost log are therefore below those of its successor,
// as long as the machine's clock does not go back between two runs of the process and a thread does
// not publish more than a million entries per second.
//
// The records of a notice stay in the log until the subscriptions that existed then have read them, at most 256 KiB for
// each thread. Notices beyond that are delivered without records. Later subscriptions get none.
//
// An empty log without subscribers is dropped. A subscription from one of its offsets then reports
// a gap.
package memory
