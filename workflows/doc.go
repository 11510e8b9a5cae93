// Package workflows holds the thread workflow. It reads like the story of a turn,
// from the top of [Thread] down; what it decides is decided in internal/thread.
//
// While people are waited for, nothing blocks: the calls that wait are state, with a
// durable timer for what is due, and environment events are handled beside the turn.
//
// The code is deterministic: it reads no registry, no clock but the workflow's, and
// nothing outside its input and its history. A change of what it writes to history
// goes behind workflow.GetVersion with a name, and the CHANGELOG says which running
// threads it affects; stored histories of released shapes are replayed in CI.
package workflows
