// Package auth authenticates requests to the HTTP API and defines the roles that authorize them.
//
// An [Authenticator] returns the [Principal] of a request: a name, a namespace and a set of roles.
// [Keys] authenticates by API key. An application that embeds the API may use its own, for example
// for single sign-on: the API depends on principals only.
//
// The name of a principal becomes the sender of its messages and the "by" of its decisions.
// Requests that claim another name are rejected. A principal without a name may claim any sender,
// as on a listener that other machines cannot reach.
package auth
