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
package sqlite
