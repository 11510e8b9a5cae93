// Package mcpserver offers agents and threads as the tools and resources of an MCP server. Each tool is
// a few requests to the HTTP API, with the credentials of the client, so that the API alone decides who
// may do what, and within which limits.
//
// # Turns that take long
//
// ask_agent and wait_for_turn follow a turn until it ends, a call of it waits for a person, or their
// time is over. Each result has the ids of the thread and the event: with them, wait_for_turn continues
// after a timeout, a lost connection or a restart of the server. A client that cancels or disconnects
// ends the wait, never the turn.
package mcpserver
