// Package thread holds the decisions that a thread takes: what a post does, who
// answers, which event is next, what a decision on a tool call means, how a turn
// goes on after each step, and how it ends.
//
// All of it is plain Go over plain data: no Temporal, no I/O, no clock, no
// randomness. The thread workflow calls these functions and acts on what they
// return; [State] is all that it remembers, and survives continue-as-new as JSON.
//
// # Parts
//
// A state consists of parts. Each has its own fields and methods, and its own file:
//
//   - [Inbox]: events that wait, are debounced, have failed or have ended (inbox.go, post.go)
//   - [Turns]: the current [Turn], turns that wait for people, and outcomes (turn.go, waiting.go)
//   - [Decisions]: decisions of people and results of clients (decisions.go, client_tools.go)
//   - [Background]: background tasks (background.go)
//   - [Children] and [ParentLink]: sub-agents of the thread, and the thread that it works for
//     as a sub-agent (delegate.go, subagent_approvals.go)
//   - [Roster]: the agents, and the turn limit (roster.go, route.go, mention.go)
//   - [Outbox]: records that are not stored yet (outbox.go)
//   - [Titling]: whether the thread needs a title (thread_update.go)
//
// A [Turn] consists of the [Run] of each agent that has a part in it, and a run of its tool
// calls, each a [Call]. What happens to one of them is a method of it.
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
// Where a ◆ stands, hooks and processors see an event ([HookEvent]) before it has any effect,
// and what they have decided ([Decision]) says how it goes on. What they respond or
// produce becomes items of their own, which follow in the same trace ([Origin]); the turn
// of the event that they follow from has ended when they have been processed ([Root]).
package thread
