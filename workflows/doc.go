// Package workflows holds the workflows of Threadmill. What they decide is decided in
// internal/thread.
//
// # Where to begin
//
// The thread workflow reads from the top of [Workflows.Thread] down: thread.go is its life, turn.go
// the story of a turn, intercept.go how hooks see an event before it has an effect. Each of the
// other concerns is a file with its signals, updates, queries and timers: posts.go, control.go,
// approvals.go, clientcalls.go, tasks.go, children.go, title.go. handlers.go registers them all.
//
// The other workflows are files of their own: hook.go asks the hooks about one event, task.go
// runs a background task, delegate.go is the thread of a sub-agent, schedule.go delivers the
// event of a schedule.
//
// # Coroutines
//
// One coroutine processes the turns, one takes in signals, and one each stores what is overdue,
// rings timers, applies decisions, lists the thread for approval and finds its title. A turn has a
// coroutine for each of its runs. Nothing blocks while people are waited for: the calls that
// wait are state, and environment events are processed meanwhile.
//
// # Determinism
//
// The code reads no registry, no clock but the workflow's, and nothing outside its input and its
// history. Put a change of what it writes to history behind workflow.GetVersion: CONTRIBUTING.md
// has an example.
package workflows
