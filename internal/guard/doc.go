// Package guard protects HTTP listeners from web pages and from slow or greedy clients. [Hosts]
// decides which names requests may call a listener by, which prevents DNS rebinding. [Limits] gives
// every request a deadline for its body, and every part of a response a deadline of its own.
package guard
