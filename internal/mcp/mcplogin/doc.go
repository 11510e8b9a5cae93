// Package mcplogin keeps people's logins to MCP servers: it leads a browser through OAuth 2.1 (discovery, registration,
// authorization code with PKCE), stores the tokens encrypted, and renews them.
//
// A login is begun with a link, which [Logins.Link] makes for somebody who may log in. The link, and the cookie
// that binds the browser, contain all that is known about a login that has not ended, encrypted. So any process of the API
// can continue it, also after a restart.
//
// All workers use the same tokens. Only one of them renews a token at a time, because authorization servers
// take a refresh token that is used twice for a stolen one.
package mcplogin
