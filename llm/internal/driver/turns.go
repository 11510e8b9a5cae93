package driver

import (
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Turn is a sequence of messages of one side: the model, or people and tools.
type Turn struct {
	Model    bool
	Messages []llm.Message

	// Running means that the turn comes after the one that the model answers: it consists of replies
	// with tool calls, or of their results.
	Running bool
}

// Turns returns the system message, or "", and the turns of a conversation for providers with two
// roles. See [llm.SystemFirst]. Messages without content are left out.
func Turns(messages []llm.Message) (system string, turns []Turn) {
	messages = llm.SystemFirst(messages)
	if len(messages) > 0 && messages[0].Role == event.RoleSystem {
		system, messages = messages[0].Content, messages[1:]
	}
	messages = slices.DeleteFunc(slices.Clone(messages), func(m llm.Message) bool {
		return Blank(m.Content) && len(m.ToolCalls) == 0 && m.Role != event.RoleTool
	})
	asked := Asked(messages)
	for i, m := range Named(messages) {
		model := m.Role == event.RoleAssistant
		if len(turns) == 0 || turns[len(turns)-1].Model != model {
			turns = append(turns, Turn{Model: model, Running: i > asked})
		}
		last := &turns[len(turns)-1]
		last.Messages = append(last.Messages, m)
	}
	return system, turns
}

// Named says who speaks, if there are several people: these providers have no field for names.
func Named(messages []llm.Message) []llm.Message {
	names := map[string]bool{}
	for _, m := range messages {
		if m.Role == event.RoleUser && m.Name != "" {
			names[m.Name] = true
		}
	}
	if len(names) < 2 {
		return messages
	}
	out := make([]llm.Message, 0, len(messages))
	for _, m := range messages {
		if prefix := m.Name + ": "; m.Role == event.RoleUser && m.Name != "" && !strings.HasPrefix(m.Content, prefix) {
			m.Content = prefix + m.Content
		}
		out = append(out, m)
	}
	return out
}

// Asked returns the index of the message that the model answers, or -1: what comes after it are replies
// with tool calls, and their results.
func Asked(messages []llm.Message) int {
	for i, m := range slices.Backward(messages) {
		if m.Role != event.RoleAssistant && m.Role != event.RoleTool {
			return i
		}
	}
	return -1
}

// Continues reports whether a model goes on after the results of its calls. It may then end its turn with nothing, if it has nothing to add.
func Continues(messages []llm.Message) bool {
	return len(messages) > 0 && messages[len(messages)-1].Role == event.RoleTool
}

// Blank reports whether a text has no visible character.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }
