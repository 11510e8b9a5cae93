// Package hook is how an application sees every event of every thread before it has
// any effect: it may change the event, answer in its place, or let it pass.
//
//	guard := hook.OnMessage("guard", func(ctx context.Context, m event.MessageEvent, respond hook.Respond) (event.Event, error) {
//		if strings.Contains(m.Message.Content, "password") {
//			respond(hook.Response{Content: "I cannot help with that.", SenderType: event.System})
//		}
//		return nil, nil
//	})
//	guard.Filter.CreatedBy = []event.CreatedBy{event.User}
//
// # What hooks see
//
//   - "message": what people, agents, tools and the system say. A reply that says
//     nothing but asks for tools is a tool_call alone.
//   - "tool_call": all calls of one reply, before any of them runs.
//   - "llm_call": a model call, before it is made. Only a [Filter] that names the type
//     matches it.
//   - every other type that somebody posts.
//
// The record of an event is stored before a hook sees it. Tokens are no events.
//
// # What is decided
//
// Hooks are asked in the order in which they are declared, each seeing what the one
// before it returned; processors follow, then the default.
//
//   - Nil is returned: the event passes as it is.
//   - An event is returned: it holds in place of the stored one, which stays as it is.
//     Its type decides what happens next.
//   - respond is called: nothing else happens to the event, and each response becomes
//     an event of its own, which passes the hooks as well. That wins over what is
//     returned, and over the hooks that would have followed.
//   - A [Processor] produces events: they take the place of the event, whose status is
//     then "overwritten".
//
// A decision is made once. It is part of the workflow's history, is the same on
// replay, and is kept as a "hook" record unless an inline hook let the event pass. The
// function itself may run more than once, when it fails, or when its worker is lost
// before its result has been reported: [Context].Key is the same in every run.
//
// # Where they run
//
// A [Func] runs as an activity of a hook workflow, of which there is one per event
// for all hooks that match. A [Workflow] is started by it, and may take days. An
// [InlineFunc] runs in the thread's workflow, or in the step that made a reply or a
// result, and costs nothing unless it changes something: it must be deterministic and do
// no I/O.
package hook
