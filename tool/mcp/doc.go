// Package mcp provides the tools of MCP servers. It is built on the official SDK and speaks all versions
// of the protocol up to 2026-07-28, over stdio and streamable HTTP.
//
//	servers, err := mcp.New(mcp.Config{Servers: []mcp.Server{
//		{Name: "files", Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/data"}},
//		{Name: "tracker", URL: "https://tracker.example/mcp", Headers: map[string]mcp.Secret{"Authorization": "Bearer …"}},
//	}})
//	go servers.Run(ctx)
//
// A [Manager] is a [tool.Source]. A tool is called server__tool for agents and models; an agent names it,
// or server__* for all tools of a server. Names that are not valid or too long for models get a hash.
//
// # Connections
//
// [Manager.Run] keeps one connection to each local server, shared by all calls. A connection that ends is
// made again after a delay that doubles from half a second to a minute, with jitter. [Manager.States]
// tells what each server is doing and offers. The servers that a namespace declares are connected when somebody
// uses the namespace, and disconnected when nobody has for an hour. The [Catalog] keeps that for all processes, so tools
// are offered also while their server is down.
//
//	connecting ──▶ ready ──▶ failed ──▶ connecting …
//	     └───────────────────▶ needs_login, if the server answers 401, or nobody is logged in
//
// A server with [Login] has a connection for each namespace that uses it or for each person who does. A call without a login
// returns [tool.InputRequired], and continues when somebody has logged in: see [Logins].
//
// A program sees only the environment variables of its declaration and those that commands of package
// shell see. Neither it nor anything that it starts outlives the worker: see package internal/process.
//
// # Calls
//
// A call waits at most 10 s for a server that is being connected. When it fails, the result names
// the server and the tool, and says what happened and whether the call may have taken effect. A call that is
// cancelled returns within about a second, and the server is told.
//
// A server can ask for a person's input during a call. The call then returns [tool.InputRequired]. Servers of
// version 2026-07-28 get the answers with the next call. For older servers the call is made again from its
// beginning, and the same questions get the stored answers.
//
// Hints of a server count only if it is trusted: a tool that changes nothing needs no approval, one that is
// idempotent is retried, and one that is destructive needs approval. Each call of any other server needs
// approval, unless the agent's policy says otherwise. Sampling and roots are not offered to servers.
//
// # Bounds
//
// Servers are not trusted to be correct. A message has at most 10 MiB; a result is cut at MaxResult; a server
// offers at most MaxTools tools, and descriptions and schemas of at most MaxCatalog bytes. A tool with an
// invalid name or schema is left out, and the state of the server says why; the others work. Schemas are
// bounded in size, depth and complexity. Texts of servers lose control characters and bidirectional
// overrides. What a server writes faster than 1,000 messages or 8 MiB a second waits; progress is shown at most
// ten times a second. A description can still contain instructions to the model: people see it in the
// state, and approvals ask again when it changes.
package mcp
