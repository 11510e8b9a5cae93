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
// Agents, models and tools are read afresh each time. What the workflow needs to
// know about them comes back with the reply, as a plan.
package activities
