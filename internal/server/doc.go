// Package server is the HTTP API: threads, messages, events, approvals, and the stream of server-sent
// events. It depends on the ports (store, stream) and on a thread client, not on drivers.
//
// Errors are RFC 9457 problem documents that name the field in errors[].location: 400 for an
// unreadable request, 422 for an invalid one, 404 for something that does not exist, 409 for a
// conflict with the state of the thread, 413 for a request that is too large, and 503 when no worker
// answers. Only the route of prompts has another form of errors.
//
// # Events
//
// GET /v1/threads/{id}/events returns a page of JSON or, with Accept: text/event-stream, a stream:
// each "data" is one AgentEvent, and each "id" a cursor from which the stream resumes, with
// Last-Event-ID. There is no "event" field, so that onmessage receives everything.
//
// The stream of an open thread does not end. The stream of a closed thread ends with its last event;
// a client that reconnects then gets 204, which tells browsers to stop.
//
// With view=base, pages and streams contain the seven types of the base protocol alone; with
// view=env, environment events; with view=world, the events of a world of agents.
package server
