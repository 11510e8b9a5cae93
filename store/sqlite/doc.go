// Package sqlite keeps threads in one SQLite file, or in memory: the store of a
// single machine.
//
//	s, err := sqlite.Open(ctx, sqlite.Config{Path: "threadmill.db"})
//
// Writes share one connection and are serialized; reads have separate connections and do not wait
// for writes. The file is in WAL mode with synchronous = NORMAL: commits survive a crash of the
// process; a power loss may lose the last commits, but never a part of one.
//
// Several processes may share a file on a local disk. [Open] creates and migrates the tables
// (threads, records, tool_logs); times in them are microseconds since 1970, UTC.
//
// Documents that agents search are in the tables knowledge_*, with a full-text index (FTS5) for each namespace that has
// some. A search by a vector compares it with all vectors of the namespace: 100,000 of them, with 768 numbers each, take
// about half a second.
package sqlite
