// Package feed merges the records of a thread (package store) with its live log
// (package stream) into the one ordered sequence of agent events that viewers see.
//
// # Order
//
// The live log determines the place of a record among the pieces: record n comes at the first entry
// of the log that implies it, which announces record n or a later one, or is a piece whose publisher
// knew of n. Every reader therefore sees the same sequence, and a cursor is a position in it:
//
//   - all pieces of a message come before its record, and none after;
//   - records come in the order of Seq, each once;
//   - pieces come in the order of the log, each once.
//
// A record whose announcement was lost or has expired comes when the reader has caught up with the
// log, or at the next check of the store, every [Config.HeartbeatInterval]. Records are not polled
// otherwise, and a piece costs no read of the store. Neither does a notice in the process of its publisher, which has the
// records with it: the reader reads the store only if they do not follow its position without a gap. Whoever replaces
// stored records purges the log, and with it the records that readers have not read yet, and purges it once more in the end: a
// notice may have been on its way.
//
// # Resuming
//
// A reader that resumes at a [Cursor] gets exactly the following events, as long as the live log
// keeps them; a message that was stored meanwhile still comes piece by piece. If pieces are lost,
// the reader gets one "gap" event, and the messages follow whole, as records. A reader without a
// cursor gets the thread's records from the first on, and only those pieces of the log whose
// messages are not stored yet.
//
// Pieces of superseded attempts, and pieces that come after their message, are dropped.
//
// # Joining
//
// A [Reader] attaches a subscription to the live log in one of two ways. With an offset it continues
// after it. Without one it reads the log from its beginning: a reader that resumes after a record
// seeks the entry that implies the record, and drops the pieces before it; if no entry does, all of
// them follow.
//
//	attach ─→ seeking ─→ joining ─→ following
//	  │                    ↑
//	  └────────────────────┘  an offset, or the thread's beginning
//
// It joins until it has read the entries that existed when the subscription began: then the records
// that were stored at that time without an announcement are due. A broken subscription is attached
// again after the last entry that was read. As long as that fails, records come as if the log had not announced them, and a reader
// can be opened, too; a finite one ends with the records.
//
// # Projections
//
// Other views of a thread are derived from its items, which have further fields for them: see
// package projection.
package feed
