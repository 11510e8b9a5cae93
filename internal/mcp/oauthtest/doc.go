// Package oauthtest tests clients of MCP servers that need a login.
//
// [New] starts a protected MCP server and its authorization server. Both are as strict as the strictest real ones:
// they reject what the specifications forbid, and record it ([Server.Violations]). Tests can expire and revoke
// tokens, inject failures, and choose the variants that real servers differ in ([Server.Configure]).
// [Visit] logs in like a person with a browser.
//
//	s := oauthtest.New(t)
//	… // a client connects to s.URL, gets 401, and offers an address to log in at
//	page, err := oauthtest.Visit(ctx, nil, address)
//	require.Empty(t, s.Violations())
//
// The MCP server has two tools. whoami returns the user of the token and needs the scope read, like each request.
// add_note stores a note of the user and needs the scope write.
//
// Specifications: RFC 6749 and OAuth 2.1 (codes and tokens), 7009 (revocation), 7591 (registration), 7636 (PKCE),
// 8414 (metadata), 8707 (resource), 9207 (iss), 9728 (metadata of the resource), and the MCP authorization
// specification of 2025-11-25.
package oauthtest
