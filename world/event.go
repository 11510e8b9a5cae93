package world

import "github.com/threadmill/threadmill/event"

// Event is an event for subscribers: one of the types below with its id. The JSON names are those
// of existing clients of such worlds.
type Event = event.WorldEvent

// Message is a message, an approval request, a decision, or the result of a tool.
type Message = event.WorldMessage

// SSE is a piece of a reply, or its start or end.
type SSE = event.WorldSSE

// ToolEvent is the start, progress, result or error of a tool.
type ToolEvent = event.WorldTool

// ToolExecution is the notice that an approved call has run.
type ToolExecution = event.WorldToolExecution

// CRUD is the notice of a creation, update or deletion.
type CRUD = event.WorldCRUD

// System is a message of the system.
type System = event.WorldSystem

// Activity is the notice of an activity.
type Activity = event.WorldActivity

// ToolResultData is a decision on a tool call.
type ToolResultData = event.ToolResultData
