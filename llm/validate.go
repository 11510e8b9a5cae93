package llm

import (
	"strings"

	"github.com/threadmill/threadmill/event"
)

// NoResult is the content of a tool message that replaces a missing one.
const NoResult = "no result was recorded"

// Repair returns a transcript with the same meaning as messages that every provider accepts.
// Exactly one tool message answers each tool call, directly after the assistant message and in the
// order of the calls: the first recorded answer after the call or, without one, [NoResult] as an
// error. Tool messages that answer no call, and assistant messages without text and calls, are
// removed. System messages keep their positions: see [SystemFirst].
//
// Repair does not change messages, and is idempotent.
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

// answer returns the first unused tool message for call. The search ends at a later call with the
// same id, because the messages after it answer that one.
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

// systemNote is the prefix of a user message that replaces a system message.
const systemNote = "[System message]\n"

// SystemFirst returns a transcript for providers that accept system messages only before the
// conversation, such as Anthropic, Google, and many servers with OpenAI's protocol. The system
// messages before the conversation are joined. Each later one is replaced by a user message that
// names the system as its sender.
//
// SystemFirst does not change messages.
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
