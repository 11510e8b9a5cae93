// Package stream is the port to the live stream: tokens and tool progress on
// their way to viewers, and the notices that stop a running step at once.
//
// Facts go through the store, never through here. The live log of a thread is kept
// for a while (10 minutes by default), so that a viewer who was cut off continues
// with the next piece; a viewer who comes later gets the record instead.
//
// # Offsets
//
// Each entry of a thread's log has an offset: greater than the one before, also
// after the log was lost with the process that held it. A subscriber that asks for
// what follows an offset either gets exactly that, or is told that entries are
// missing ([Start.Gap]): never silence.
//
// Drivers lie beside this package; stream/streamtest is the suite that all of them run.
package stream
