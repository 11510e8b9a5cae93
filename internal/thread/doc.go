// Package thread contains the decisions of a thread: the effect of a post, the agents that answer,
// the next event, the effect of a decision on a tool call, and how a turn continues after each step
// and ends.
//
// It is plain Go on plain data: no Temporal, no I/O, no clock, no randomness. The thread workflow
// calls these functions and acts on their results. [State] is the workflow's entire state, and
// survives continue-as-new as JSON. What workflows and activities exchange is in package step.
//
// # Parts
//
// A [State] consists of parts. No part has a pointer to the state: its methods are given what they need, and return what
// happened:
//
//   - [Inbox]: events that are queued, debounced, failed or ended (inbox.go, queue.go, debounce.go)
//   - [Turns]: the current [Turn], the turns that wait for people, and outcomes (turns.go,
//     waiting.go)
//   - [Decisions]: decisions of people and results of clients (decisions.go,
//     client_tools.go, input.go)
//   - [Tasks]: background tasks (tasks.go)
//   - [Children]: the sub-agents of the thread (children.go, subagent_approvals.go)
//   - [ParentLink]: the parent thread, in a sub-agent's thread (parent.go)
//   - [Roster]: the agents and their turn limits (roster.go)
//   - [Titling]: whether a title is to be generated (titling.go)
//   - [Outbox]: records that are not stored yet (outbox.go)
//   - [Pace]: how long steps have taken (pace.go)
//   - [Log]: lines for the worker's log (env_event.go)
//
// What concerns several parts is a method of State, in the file of the part that it is about: the end of a
// background task ([State.TaskReported]) removes its sub-agent, adds records, and queues an event.
//
// What arrives is read once: a post becomes an [Incoming], and what people and clients say about a tool call a [Ruling], an
// [Answer] or a [ClientResult] (reading.go). The steps after it take that value, and do not look again.
//
// A [Turn] consists of an [AgentRun] for each agent that takes part, and a run of its tool calls,
// each a [Call]. The functions that change a turn, a run or a call are its methods. timers.go has
// what happens to all of them when their time is over. Package addressing determines who answers a
// message.
//
// # A turn
//
//	          ┌────────── steer ───────────┐
//	item ─▶ Begin ─◆▶ Enter ─▶ run: ◆ model ─◆▶ reply ─◆▶ calls ─▶ tools ─▶ model … ─▶ done ─▶ End
//	                             │                                   │ each call:
//	                             │                                   │ waiting ─decide─▶ ready ─run_tool─▶ ran ─◆▶ settled
//	                             │                                   │         └─deny───────────────────────▶ settled
//	                             └─ failed, interrupted, step limit ─▶ done
//
// At each ◆, hooks and processors intercept an event ([HookEvent]) before it takes effect, and
// their [step.HookDecision] says how the turn continues. The events that they derive from it are queued as
// separate items with the same trace ([Origin]); the turn of the posted event ends when all of them
// are processed ([Root]).
package thread
