// Package workflows contains the workflows of Threadmill. Their decisions are functions of
// internal/thread.
//
// # Where to begin
//
// The thread workflow reads from the top of Workflows.thread down: thread.go is its life cycle,
// turn.go the steps of a turn, and intercept.go the interception of events by hooks before they
// take effect. Each of the other concerns is a file with its signals, updates, queries and timers:
// posts.go, control.go, approvals.go, clientcalls.go, tasks.go, children.go, title.go. handlers.go
// registers them all.
//
// The other workflows have their own files: hook.go runs the hooks of one event, task.go runs a
// background task, delegate.go is the thread of a sub-agent, and schedule.go delivers the post of a
// schedule.
//
// # Coroutines
//
// One coroutine processes the turns and one handles signals. Others store overdue records, fire
// timers, validate decisions, update the search attribute for approvals and generate the title. A
// turn has a coroutine for each of its runs. Waiting for people does not block the thread: waiting
// calls are state, and environment events are processed meanwhile.
//
// # Determinism
//
// The code reads no registry, no clock but the workflow's, and nothing outside its input and its
// history. Put a change that affects the history behind workflow.GetVersion: CONTRIBUTING.md has an
// example.
package workflows
