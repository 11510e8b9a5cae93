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
//
// Documents that agents search are indexed when they are finished: knowledge_words has the words of visible chunks,
// knowledge_word_chunks how many chunks of a namespace have a word. A text search reads the chunks that have the query's rarest
// words, 10,000 at most, and computes their scores of BM25 itself. It searches in a snapshot, so it finds one revision of a document.
//
// Vectors need the extension pgvector. [Open] creates it if the server has it and the user may; otherwise an administrator runs
// CREATE EXTENSION vector, in any schema. Without it, the store keeps no vectors (HasVectors). Searches read all vectors of the namespace, or
// their signs if they are long, and no index of pgvector: such an index finds fewer vectors the more namespaces share it.
package postgres
