// Package stream is the port to the live stream: tokens and tool progress for viewers, and notices
// that stop a running step immediately.
//
// Records go through the store, never through the stream. The stream keeps a log per thread for a
// while (10 minutes by default), so that a viewer who was disconnected continues with the next
// entry. Later viewers get the record instead.
//
// # Offsets
//
// Each entry of a thread's log has an offset greater than that of the previous entry, even after
// the log was lost with its process. A subscriber that continues after an offset either gets all
// following entries or is told that some are missing ([Start.Gap]).
//
// Drivers are subpackages of this package. They all run the conformance suite in stream/streamtest.
package stream
