// Package postgres keeps threads in PostgreSQL: the store of several workers and API
// servers.
//
//	s, err := postgres.Open(ctx, postgres.Config{URL: "postgres://…", Schema: "threadmill"})
//
// An append is one round trip and one transaction: its statements go to the server in one pipeline,
// the first of which locks the thread's row. So appends to one thread are serialized, and appends to
// different threads are independent.
//
// [Open] creates and migrates the tables (threads, records, tool_logs); many processes may call it
// at the same time. Payloads are columns of type json: they are returned as they were written, and
// can be queried (payload->>'content'), except for a field that contains \u0000, which PostgreSQL
// keeps but cannot extract.
package postgres
