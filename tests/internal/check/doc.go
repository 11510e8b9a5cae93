// Package check has what tests of threads share: they post and decide, and look at the records, model calls,
// streams and histories that come of it. [Gate], [Spy] and [Desk] are tools and hooks that they control.
package check
