// Package chattest makes the events of a turn for tests of chats.
package chattest

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
)

// Event is the event of the turn.
const Event = "e"

// Read returns the chat that events of the turn lead to.
func Read(events ...event.AgentEvent) *chat.Chat {
	c := &chat.Chat{}
	for _, e := range events {
		Apply(c, e)
	}
	return c
}

// Apply adds an event of the turn.
func Apply(c *chat.Chat, e event.AgentEvent) {
	e.EventID = Event
	c.Apply(e)
}

// Asked is the message of a person.
func Asked(id string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventMessage, MessageID: id, Message: &event.Message{
		ID: id, Role: event.RoleUser, SenderType: event.CreatedByUser, SenderID: "ann", Content: "?",
	}}
}

// Piece is a piece of a reply.
func Piece(reply, agent, content string, attempt int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventStream, MessageID: reply, Agent: agent, Content: content, Attempt: attempt}
}

// Thought is a piece of a thought.
func Thought(reply, agent, content string, attempt int) event.AgentEvent {
	e := Piece(reply, agent, content, attempt)
	e.Type = event.EventThought
	return e
}

// Reset begins a reply again.
func Reset(reply, agent string, attempt int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventReset, MessageID: reply, Agent: agent, Attempt: attempt}
}

// Said is a stored reply.
func Said(reply, agent, content string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventMessage, MessageID: reply, Agent: agent, Message: &event.Message{ID: reply, SenderType: event.CreatedByAgent, Content: content}}
}

// Call is a tool call of a reply of the agent bot.
func Call(reply, id, tool string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventToolCall, MessageID: reply, Agent: "bot", ToolCallID: id, ToolName: tool, ToolArgs: "{}"}
}

// Request is a request for a decision.
func Request(call string, round int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventApprovalRequest, ToolCallID: call, Request: &event.ApprovalRequest{
		ToolCallID: call, ToolName: "f", Arguments: "{}", Agent: "bot", Round: round,
	}}
}

// Decision is a decision of ann.
func Decision(call string, d event.Decision, round int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventApproval, ToolCallID: call, Approval: &event.Approval{ToolCallID: call, Decision: d, By: "ann", Round: round}}
}

// ForClient asks a connected client to run a call.
func ForClient(call string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventClientCall, ToolCallID: call, ClientCall: &event.ClientCall{ToolCallID: call}}
}

// Question is a request for input.
func Question(call string, round int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventInputRequest, ToolCallID: call, Input: &event.InputRequest{
		ToolCallID: call, Round: round, Agent: "bot", Questions: []event.InputQuestion{{ID: "q", Message: "When?"}},
	}}
}

// Answer is the answer to a request for input.
func Answer(call string, round int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventInputReceived, ToolCallID: call, Received: &event.InputReceived{ToolCallID: call, Round: round}}
}

// Withdrawal ends a request for input of a sub-agent that nobody answered.
func Withdrawal(call string, round int) event.AgentEvent {
	e := Answer(call, round)
	e.Received.Withdrawn = true
	return e
}

// Result is the result of a call.
func Result(call, output string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventToolResult, ToolCallID: call, Output: output}
}

// Ended is the end of the turn.
func Ended(turn, detail string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusTurnEnded, Turn: turn, Detail: detail}}
}
