// Package event is the vocabulary of Threadmill: the events that a thread processes, the messages
// and tool calls they carry, the records in the store, and the agent events that viewers receive.
//
// It imports only the standard library and internal/strictjson, so every other package and any client
// can use it. JSON names are camelCase; the fields of a tool call keep OpenAI's names.
//
// Three types are easily confused:
//
//   - An [Event] is the input of hooks, processors and default processing: a closed union of
//     [MessageEvent], [ToolCallEvent] and a few more.
//   - An [Item] is an event in a thread's queue, with its status, its priority and its parent event.
//   - A [Record] is a stored event, with a number per thread and no gaps. Only an erasure changes or deletes it.
//
// An [AgentEvent] is the form that viewers receive. It is derived from records and from the live
// stream. So are the [EnvEvent] of "view=env" and the [WorldEvent] for clients of a world of
// agents.
//
// Approval requests, decisions and calls that clients run are records too: [ApprovalRequest],
// [Approval] and
// [ClientCall].
package event
