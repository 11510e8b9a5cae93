// Package workflows contains the workflows of Threadmill. Their decisions are functions of
// internal/thread.
//
// # Where to begin
//
// The thread workflow reads from the top of Workflows.thread down: thread.go is its life cycle,
// turn.go the turn, steps.go its activities, intercept.go the interception of events by hooks before
// they take effect, and rules.go the handling of environment events. Each of the other concerns is a
// file with its signals, updates, queries and timers: posts.go, control.go, approvals.go,
// client_calls.go, tasks.go, children.go, title.go. handlers.go registers them all. report.go is
// what a thread and its child workflows do when the thread continues as new.
//
// The other workflows are in hook_workflow.go (the hooks of one event), task_workflow.go (a
// background task), subagent_workflow.go (the thread of a sub-agent), schedule_workflow.go (one
// run of a schedule), ingest_workflow.go (the ingestion of a document, new vectors for a namespace, and the
// search for entities), erase_workflow.go (the erasure of a thread), person_workflow.go (the erasure of a
// person), retain_workflow.go (retention) and modellimit.go (the limits of a model provider).
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
