// Package threadmill runs durable agent threads on Temporal.
//
// A thread is a conversation between people, agents and the world. Each thread is
// one long-running Temporal workflow; model calls and tools are activities that are
// retried, approvals are signals that are waited for, and whatever is said is kept
// in a store, once and in order, whichever process dies in between.
//
// An application declares its agents and tools in a [Config], makes a [Runtime]
// with [New], and then runs a worker ([Runtime.Work], or [Runtime.Register] with a
// worker of its own), serves the HTTP API ([Runtime.Handler]), posts messages and
// follows them ([Runtime.Run]), or talks to threads ([Runtime.Client]).
//
// Several agents can share a thread: who answers is said by mentions and by plain
// rules, see docs/routing.md. Which tool calls run, which wait for people and which
// never run is said by Config.ApprovalRules and by each agent, see package approval.
// [Runtime.World] is the same threads for programs that know agents as a world.
package threadmill
