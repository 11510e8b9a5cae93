// Package toolserver keeps what belongs to MCP servers in the store: the servers that are declared at run
// time, the last state of each server, and requests to restart one. Processes learn of each other's
// changes by reading it.
package toolserver

import "errors"

// The reasons that a login cannot be begun or ended.
var (
	ErrNoServer    = errors.New("there is no such MCP server")
	ErrNoLogin     = errors.New("the MCP server has no login: the operator configures it")
	ErrNotLoggedIn = errors.New("there is no login")
)

// LoggedIn is a login that has succeeded. The user is empty for the login of a namespace.
type LoggedIn struct{ Namespace, Server, User, By string }

// The kinds of documents.
const (
	kindDeclared = "mcp_server"
	kindState    = "mcp_state"
	kindRestart  = "mcp_restart"
)
