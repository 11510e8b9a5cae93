// Package guard protects HTTP listeners from browsers and from slow or greedy network
// neighbours. [Hosts] decides by which names a listener may be called, so that no web page
// reaches it by DNS rebinding. [Limits] gives every request a deadline for its body and every
// response a deadline for each part of it.
package guard
