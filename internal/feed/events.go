package feed

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// Events are the agent events of a record. Types that viewers do not see (llm_call, rejected,
// custom types) have none, and neither have records with the payload of another type, nor messages
// that are held until hooks decide.
//
// The record of a decision of hooks contains the changed message, calls or environment event, which
// supersede those with the same id.
//
// Every event names the event of its turn, the message and the agent, if there are any, and the
// time at which it was stored.
func Events(r event.Record) []event.AgentEvent {
	events := eventsOf(r)
	for i := range events {
		events[i].EventID, events[i].CreatedAt = r.EventID, r.CreatedAt
	}
	return events
}

func eventsOf(r event.Record) []event.AgentEvent {
	switch r.Type {
	case event.TypeMessage:
		return messageEvents(r)
	case event.TypeToolCall:
		return toolCallEvents(r)
	case event.TypeHook:
		return decisionEvents(r)
	case event.TypeApprovalRequest:
		return one(r, func(p event.ApprovalRequest) event.AgentEvent {
			return event.AgentEvent{Type: event.EventApprovalRequest, Agent: p.Agent, MessageID: p.MessageID, ToolCallID: p.ToolCallID, Request: &p}
		})
	case event.TypeApproval:
		return one(r, func(p event.Approval) event.AgentEvent {
			return event.AgentEvent{Type: event.EventApproval, Agent: p.Agent, ToolCallID: p.ToolCallID, Approval: &p}
		})
	case event.TypeClientCall:
		return one(r, func(p event.ClientCall) event.AgentEvent {
			return event.AgentEvent{Type: event.EventClientCall, Agent: p.Agent, ToolCallID: p.ToolCallID, ClientCall: &p}
		})
	case event.TypeInputRequest:
		return one(r, func(p event.InputRequest) event.AgentEvent {
			return event.AgentEvent{Type: event.EventInputRequest, Agent: p.Agent, MessageID: p.MessageID, ToolCallID: p.ToolCallID, Input: &p}
		})
	case event.TypeInputReceived:
		return one(r, func(p event.InputReceived) event.AgentEvent {
			return event.AgentEvent{Type: event.EventInputReceived, Agent: p.Agent, ToolCallID: p.ToolCallID, Received: &p}
		})
	case event.TypeRetrieval:
		return one(r, func(p event.Retrieval) event.AgentEvent {
			return event.AgentEvent{Type: event.EventRetrieval, Agent: p.Agent, MessageID: p.MessageID, Retrieval: &p}
		})
	case event.TypeEnv:
		return one(r, func(p event.EnvEvent) event.AgentEvent {
			return event.AgentEvent{Type: event.EventEnvironment, Env: &p}
		})
	case event.TypeStatus:
		return one(r, func(p event.StatusChange) event.AgentEvent {
			return event.AgentEvent{Type: event.EventStatus, Status: &p}
		})
	case event.TypeFinal:
		return one(r, func(p event.Final) event.AgentEvent {
			return event.AgentEvent{Type: event.EventFinal, Agent: p.Agent, MessageID: p.MessageID}
		})
	case event.TypeError:
		return one(r, func(p event.Failure) event.AgentEvent {
			return event.AgentEvent{Type: event.EventError, Agent: p.Agent, MessageID: p.MessageID, Error: p.Error, Class: p.Class}
		})
	case event.TypeTurnEnded:
		return one(r, func(p event.TurnEnded) event.AgentEvent {
			return event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{
				Status: event.StatusTurnEnded, Turn: p.Status, Detail: p.Error, Joined: p.Joined, Rule: p.Rule,
			}}
		})
	}
	return nil
}

func one[P any](r event.Record, to func(P) event.AgentEvent) []event.AgentEvent {
	var payload P
	if json.Unmarshal(r.Payload, &payload) != nil {
		return nil
	}
	return []event.AgentEvent{to(payload)}
}

func messageEvents(r event.Record) []event.AgentEvent {
	var m event.Message
	if json.Unmarshal(r.Payload, &m) != nil || m.Held {
		return nil
	}
	m.CreatedAt = r.CreatedAt
	return []event.AgentEvent{messageEvent(m)}
}

func messageEvent(m event.Message) event.AgentEvent {
	if m.SenderType == event.CreatedByTool {
		return event.AgentEvent{
			Type: event.EventToolResult, ToolName: m.ToolName, Output: m.Content, IsError: m.IsError,
			ToolCallID: m.ToolCallID, Agent: m.AgentID, MessageID: m.ReplyToMessageID,
		}
	}
	return event.AgentEvent{Type: event.EventMessage, MessageID: m.ID, Agent: m.AgentID, Message: &m}
}

func toolCallEvents(r event.Record) []event.AgentEvent {
	var p event.ToolCallEvent
	if json.Unmarshal(r.Payload, &p) != nil {
		return nil
	}
	return callEvents(r.ID, p.AgentName, p.ToolCalls)
}

func callEvents(callsID, agent string, calls []event.ToolCall) []event.AgentEvent {
	messageID, _ := recordid.ReplyOfCalls(callsID)
	out := make([]event.AgentEvent, 0, len(calls))
	for _, c := range calls {
		out = append(out, event.AgentEvent{
			Type: event.EventToolCall, ToolName: c.Function.Name, ToolArgs: c.Function.Arguments,
			ToolCallID: c.ID, Agent: agent, MessageID: messageID,
		})
	}
	return out
}
