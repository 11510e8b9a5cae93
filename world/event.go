package world

import "github.com/threadmill/threadmill/event"

// Event is what subscribers are told: one of those below, with its id. The JSON names are
// those of clients of such a world.
type Event = event.WorldEvent

// Message is what somebody says, a request for approval, a decision, or a tool's result.
type Message = event.WorldMessage

// SSE is a piece of a reply, its start or its end.
type SSE = event.WorldSSE

// ToolEvent is what a tool does.
type ToolEvent = event.WorldTool

// ToolExecution says that a call has run that was approved.
type ToolExecution = event.WorldToolExecution

// CRUD says that something was created, updated or deleted.
type CRUD = event.WorldCRUD

// System is what people are told by nobody in particular.
type System = event.WorldSystem

// Activity says what goes on.
type Activity = event.WorldActivity

// ToolResultData is a decision on a tool call.
type ToolResultData = event.ToolResultData
