// Package threadmill runs durable agent threads on Temporal.
//
// A thread is a conversation between people, agents and the world. Each thread is one long-running
// Temporal workflow: model calls and tools are activities, approvals are signals, and the store
// keeps every message once and in order, whichever process dies in between.
//
// A [Config] declares agents and tools, and [New] returns a [Runtime]:
//
//   - [Runtime.Start] and [Runtime.Run] run a worker; [Runtime.Register] adds the workflows to a worker of your own.
//   - [Runtime.Send] sends a message and returns its [Turn], with the agent's reply.
//   - [Runtime.CloseThread] closes a thread.
//   - [Runtime.Client] is a client for everything else: decisions, queues, tasks, schedules.
//   - [Runtime.Documents] adds and finds documents that agents answer from.
//   - [Runtime.World] presents threads as a world of agents, see package world.
//
// Package httpapi serves the HTTP API of a runtime and its page, beside handlers of the application.
//
// Package app is a main function for such a configuration, with flags, roles, health and draining.
//
// Several agents can share a thread: mentions and rules decide which of them answers, see
// docs/routing.md. Approval rules decide which tool calls run, which need approval and which never
// run, see package approval.
package threadmill
