// Package feed merges the records of a thread (package store) with its live log
// (package stream) into the one ordered sequence of agent events that viewers see.
//
// # Order
//
// The live log decides where a record stands among the pieces: record n comes at
// the first entry of the log that implies it, which announces that records up to n
// or beyond are stored, or is a piece whose publisher knew of n. Every reader therefore
// sees the same sequence, and a cursor is a place in it:
//
//   - all pieces of a message come before its record, and none after;
//   - records come in the order of Seq, each once;
//   - pieces come in the order of the log, each once.
//
// A record that the log does not announce (that was lost, or has expired) comes
// when the reader has caught up with the log, or at the next look into the store,
// which it takes every [Config.HeartbeatInterval]. Records are not polled otherwise,
// and a piece costs no read of the store.
//
// # Resuming
//
// A reader that resumes at a [Cursor] gets exactly what follows it, as long as the
// live log keeps it; a message that has become a record meanwhile still comes piece
// by piece. When pieces are lost the reader gets one "gap" event: the messages follow
// whole, as records. A reader without a cursor gets the thread's records from the
// first on, and of the kept log only pieces of messages that are not stored yet.
//
// Pieces of an attempt that a later one has replaced, and pieces that come after
// their message, are dropped.
//
// # Joining
//
// A [Reader] attaches a subscription to the live log in one of two ways. With an offset it reads
// on behind it. Without one it reads the log from its beginning: a reader that resumes behind a
// record seeks the entry that implies the record, and drops the pieces before it; if no entry
// does, all of them follow.
//
//	attach ─→ seeking ─→ joining ─→ following
//	  │                    ↑
//	  └────────────────────┘  a place in the log, or the thread's beginning
//
// It joins until it has read what the log had when the subscription began: then the records that
// were stored at that time, and were not announced, are due. A subscription that breaks is
// attached again where it was read to.
//
// # Projections
//
// Other views of a thread are derived from its items: see package projection. What they need
// beyond the events stands in each [Item].
package feed
