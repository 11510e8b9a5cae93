// Package hook lets an application intercept every event of every thread before it takes effect: a
// hook may change the event, answer it, or let it pass.
//
//	guard := hook.OnMessage("guard", func(ctx context.Context, m event.MessageEvent) (hook.Result, error) {
//		if strings.Contains(m.Message.Content, "password") {
//			return hook.Respond(hook.Response{Content: "I cannot help with that.", SenderType: event.CreatedBySystem}), nil
//		}
//		return hook.Pass(), nil
//	})
//	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
//
// # Events
//
// Hooks intercept these types of events:
//
//   - "message": a message of a user, an agent, a tool or the system. A reply without text is a
//     tool_call only.
//   - "tool_call": all tool calls of one reply, before any of them runs.
//   - "llm_call": a model call, before it is made. Only a [Filter] that names the type matches it.
//   - every other type that is posted.
//
// The record of an event is stored before a hook runs. Tokens are not events.
//
// # Decisions
//
// Hooks run in the order in which they are declared, each with the event as the previous one left it.
// Processors follow, then default processing. A hook decides with its [Result]:
//
//   - [Pass] lets the event pass.
//   - [Replace] replaces the event, which remains unchanged in the store. The type of the new event
//     decides how it is processed.
//   - [Respond] ends the processing of the event. Each response becomes a separate event, which hooks
//     intercept too. Later hooks do not run.
//   - [Drop] ends the processing of the event, and [Produce] queues other events instead. Later hooks
//     do not run.
//   - A [Processor] produces events that replace the event, whose status is then "overwritten".
//
// A decision is made once. It is part of the workflow's history and the same on replay, and is
// stored as a "hook" record unless an inline hook let the event pass. The function itself may run
// more than once, when it fails or when its worker is lost before the result is reported:
// [Context].Key is the same in every run.
//
// # Execution
//
// A [Func] runs as an activity of a hook workflow; each event has one hook workflow for all hooks
// that match. A [Workflow] is started by the hook workflow and may take days. An [InlineFunc] runs
// in the thread's workflow, or in the activity that created a reply or a result, and costs nothing
// unless it changes something. It must be deterministic and do no I/O.
package hook
