// Package auth says who sends a request to the HTTP API, and what they may do.
//
// An [Authenticator] turns a request into a [Principal]: a name, a namespace and a set of
// roles. [Keys] does so with API keys. An application that embeds the API may use its own,
// such as one for single sign-on: the API knows principals only.
//
// The name of a principal becomes the sender of its messages and the "by" of its decisions:
// a request that claims another name is rejected. A principal without a name is trusted to
// say who it speaks for, as on a listener that nobody else can reach.
package auth
