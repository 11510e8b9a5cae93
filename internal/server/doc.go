// Package server is the HTTP API: threads, messages, events, approvals, and the
// stream of server-sent events. It knows the ports (store, stream) and a client of
// threads, no driver.
//
// Errors are RFC 9457 problem documents that name the field in errors[].location: 400
// for what cannot be read, 422 for what can be read but not be right, 404 for what is
// not there, 409 for what contradicts the state of the thread, 413 for what is too
// large, 503 when no worker answers. The route of prompts alone has errors of another form.
//
// # Events
//
// GET /v1/threads/{id}/events is a page of JSON, or with Accept: text/event-stream a
// stream: each "data" is one AgentEvent, each "id" a place to resume at with
// Last-Event-ID. There is no "event" field, so that onmessage receives everything.
//
// The stream of an open thread has no end. The stream of a closed thread ends with
// its last event; who reconnects then gets 204, which tells browsers to stop.
//
// With view=env, either has environment events in place of agent events, with view=world
// those of a world of agents.
package server
