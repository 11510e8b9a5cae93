// Package toolserver keeps what belongs to MCP servers in the store: the servers that are declared at run
// time, the last state of each server, and requests to restart one. Processes learn of each other's
// changes by reading it.
package toolserver

// The kinds of documents.
const (
	kindDeclared = "mcp_server"
	kindState    = "mcp_state"
	kindRestart  = "mcp_restart"
)
