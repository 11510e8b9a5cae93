// Package activities does what a thread decides: it calls models, runs tools and
// stores records.
//
// Each activity first stores the records that the workflow handed to it, then
// acts, then stores what came of it together with all that follows from it, in one
// transaction. Ids come from the workflow, so that an activity that runs again,
// after its worker died or its answer was lost, finds what it has done: a stored
// reply is returned without a call of the model, and the result of a tool without a
// run of the tool.
//
// Agents, models, tools and approval rules are read afresh each time. What the workflow
// needs to know about them comes back with the reply, as a plan: for each call whether it
// runs, asks or is denied. Right before a call runs, the activity looks again: what was
// planned, and approved, may not hold any more.
//
// What a model is shown is made of stored messages by a pure function, prepare: what
// concerns the agent, in a form that every provider takes.
package activities
