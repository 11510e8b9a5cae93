// Package agent is how an application declares its agents: a role with
// instructions, a model, tools, an approval policy and limits.
//
// Agents are read afresh by the activity that calls the model, never by workflow
// code: a changed prompt, model or tool takes effect with the next model call, and
// cannot break the replay of a running thread.
package agent
