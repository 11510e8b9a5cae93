// Package postgres keeps threads in PostgreSQL: the store of several workers and API
// servers.
//
//	s, err := postgres.Open(ctx, postgres.Config{URL: "postgres://…", Schema: "threadmill"})
//
// An append is one round trip and one transaction: its statements go to the server
// in one pipeline, the first of which locks the thread's row. Appends to one thread
// follow each other so; appends to different threads do not meet.
//
// The tables (threads, records, tool_logs) are made and migrated by [Open], which
// many processes may call at the same time. Payloads are columns of type json: they
// come back as they were written, and can be queried (payload->>'content'), except
// for a field that contains \u0000, which PostgreSQL keeps but cannot extract.
package postgres
