package llm

import (
	"strings"

	"github.com/threadmill/threadmill/event"
)

// NoResult is the content of a tool message that stands for a missing one.
const NoResult = "no result was recorded"

// Repair returns a transcript that every provider accepts, and that says the same
// as messages. System messages keep their places: see [SystemFirst]. Each tool call is answered by exactly
// one tool message, right after the assistant message, in the order of the calls:
// the first recorded answer, wherever after the call it stood, or else [NoResult]
// as an error. Answers to no call, and assistant messages without text and without
// calls, are left out.
//
// It changes nothing in messages, and repairing a second time changes nothing.
func Repair(messages []Message) []Message {
	out := make([]Message, 0, len(messages))
	used := make([]bool, len(messages))
	for i, m := range messages {
		switch m.Role {
		case event.RoleTool:
		case event.RoleAssistant:
			if len(m.ToolCalls) == 0 && strings.TrimSpace(m.Content) == "" {
				continue
			}
			out = append(out, m)
			for _, call := range m.ToolCalls {
				out = append(out, answer(messages[i+1:], used[i+1:], call))
			}
		default:
			out = append(out, m)
		}
	}
	return out
}

// answer takes the first unused tool message for call. A later call with the same
// id ends the search: what follows it is its own answer.
func answer(messages []Message, used []bool, call event.ToolCall) Message {
	for i, m := range messages {
		if m.Role == event.RoleTool && m.ToolCallID == call.ID && !used[i] {
			used[i] = true
			return m
		}
		for _, later := range m.ToolCalls {
			if later.ID == call.ID {
				return noResult(call)
			}
		}
	}
	return noResult(call)
}

func noResult(call event.ToolCall) Message {
	return Message{Role: event.RoleTool, Content: NoResult, Name: call.Function.Name, ToolCallID: call.ID, IsError: true}
}

// systemNote opens a user's message that stands for one of the system.
const systemNote = "[System message]\n"

// SystemFirst returns a transcript for providers that take system messages only before the
// conversation, such as Anthropic, Google, and many servers of OpenAI's protocol. The system
// messages before the conversation become one. A later one becomes a message of the user's,
// in its place, that says so.
//
// It changes nothing in messages.
func SystemFirst(messages []Message) []Message {
	out := make([]Message, 0, len(messages))
	for _, m := range messages {
		switch {
		case m.Role != event.RoleSystem:
			out = append(out, m)
		case len(out) == 0:
			out = append(out, m)
		case len(out) == 1 && out[0].Role == event.RoleSystem:
			out[0].Content = strings.TrimRight(out[0].Content, "\n") + "\n\n" + m.Content
		default:
			out = append(out, Message{Role: event.RoleUser, Content: systemNote + m.Content})
		}
	}
	return out
}
