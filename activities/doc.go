// Package activities contains the activities of a thread: they call models, run tools and store
// records.
//
// Each activity first stores the records that the workflow passed to it, then acts, then stores its
// results in one transaction. Ids come from the workflow, so a retried activity finds the results
// of its first attempt: it returns a stored reply without calling the model, and the result of a
// tool without running the tool.
//
// Agents, models, tools and approval rules are read again each time. The reply contains what the
// workflow needs of them, as a plan: whether each call runs, needs approval or is denied.
// Immediately before a call runs, the activity checks it again, since the plan or the approval may
// no longer be valid.
//
// The pure function prepare converts stored messages to a model's context: those that concern the
// agent, in a form that every provider accepts.
package activities
