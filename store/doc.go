// Package store is the port to what Threadmill keeps: threads, their records, the log of
// their tools, and agents that are made while it runs, see [Agents].
//
// # Invariants
//
//   - Records are append-only. Seq is per thread, from 1, without gaps, and given
//     inside the appending transaction under a lock on the thread: commit order is
//     read order, so that a reader that has seen n never finds a late n-1.
//   - A record's id is unique in its thread. Appending an id that is there already
//     changes nothing and returns the stored record: it is the retry of an append
//     that succeeded.
//   - A late retry does not take a thread's row back: of updates with numbers, the one
//     with the greatest stays, in whatever order they come.
//   - One [Batch] is one transaction: all of it is visible, or none.
//   - Nothing crosses a namespace.
//   - What an append returns is what queries return later: [CheckBatch] says what is
//     refused, and brings the rest into the form in which all drivers store it.
//
// Drivers lie beside this package; store/storetest is the suite that all of them run.
package store
