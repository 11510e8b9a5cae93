// Package event is the vocabulary of Threadmill: the events that a thread
// processes, the messages and tool calls they carry, the records that the store
// keeps, and the agent events that viewers receive.
//
// It imports the standard library only, so that every other package, and any
// client, can speak it. JSON names are camelCase; the fields of a tool call keep
// OpenAI's names.
//
// Three shapes are easily confused:
//
//   - An [Event] is what hooks and default processing see: a closed union of
//     [MessageEvent], [ToolCallEvent] and a few more.
//   - An [Item] is an event in a thread's queue, with its status, priority and
//     its place in the chain of causes.
//   - A [Record] is an event as stored: append-only, numbered per thread without
//     gaps.
//
// An [AgentEvent] is none of these: it is what goes over the wire to people who
// watch, and is derived from records and from the live stream. So are an [EnvEvent]
// of "view=env", and a [WorldEvent], which is the same for clients of a world of agents.
//
// What people are asked about tool calls, and what they decide, are records too:
// [ApprovalRequest], [Approval] and [ClientCall].
package event
