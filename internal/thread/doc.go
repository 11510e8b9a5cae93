// Package thread holds the decisions that a thread takes: what a post does, who
// answers, which event is next, what a decision on a tool call means, how a turn
// goes on after each step, and how it ends.
//
// All of it is plain Go over plain data: no Temporal, no I/O, no clock, no
// randomness. The thread workflow calls these functions and acts on what they
// return; [State] is all that it remembers, and survives continue-as-new as JSON.
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
// Where a ◆ stands, hooks and processors see an event ([Seen]) before it has any effect,
// and what they have decided ([Decision]) says how it goes on. What they respond or
// produce becomes items of their own, which follow in the same trace ([Origin]); the turn
// of the event that they follow from has ended when they have been processed ([Root]).
package thread
