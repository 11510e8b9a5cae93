// Package sqlite keeps threads in one SQLite file, or in memory: the store of a
// single machine.
//
//	s, err := sqlite.Open(ctx, sqlite.Config{Path: "threadmill.db"})
//
// Writes go through one connection, one after the other; reads have connections of
// their own and do not wait for writes. The file is in WAL mode with synchronous =
// NORMAL: what was committed survives the end of the process, however it ends; a
// loss of power may cost the last commits, and never leaves half of one.
//
// Several processes may share a file on a local disk. The tables (threads, records,
// tool_logs) are made and migrated by [Open]; times in them are microseconds since
// 1970, UTC.
package sqlite
