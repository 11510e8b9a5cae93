package activities

import (
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// transcript turns a thread's newest messages, newest first, into what the agent's
// model is shown: instructions first, then the conversation, valid for every
// provider. Other agents speak as participants, by name; their tool calls are their
// own affair. Of a hidden message only its calls remain, for the results that follow.
func transcript(who agent.Agent, newest []store.Message) []llm.Message {
	out := make([]llm.Message, 0, len(newest)+1)
	if who.Instructions != "" {
		out = append(out, llm.Message{Role: event.RoleSystem, Content: who.Instructions})
	}
	for i := len(newest) - 1; i >= 0; i-- {
		m := newest[i]
		if m.Hidden && len(m.ToolCalls) == 0 {
			continue
		}
		if shown, ok := asSeenBy(who.Name, m.Message); ok {
			out = append(out, shown)
		}
	}
	return llm.Repair(out)
}

// asSeenBy returns a message as one agent's model sees it.
func asSeenBy(agentName string, m event.Message) (llm.Message, bool) {
	own := strings.EqualFold(m.AgentID, agentName)
	switch m.SenderType {
	case event.User:
		return llm.Message{Role: event.RoleUser, Name: m.SenderID, Content: m.Content, Parts: partTexts(m)}, true
	case event.System:
		return llm.Message{Role: event.RoleSystem, Content: m.Content}, true
	case event.Agent:
		if own {
			return llm.Message{Role: event.RoleAssistant, Content: m.Content, ToolCalls: m.ToolCalls}, true
		}
		return llm.Message{Role: event.RoleUser, Name: m.SenderID, Content: m.SenderID + ": " + m.Content}, m.Content != ""
	case event.Tool:
		if m.ToolCallID == "" {
			return llm.Message{Role: event.RoleUser, Name: m.SenderID, Content: m.SenderID + ": " + m.Content}, true
		}
		return llm.Message{Role: event.RoleTool, Content: m.Content, ToolCallID: m.ToolCallID, IsError: m.IsError}, own
	}
	return llm.Message{}, false
}

// partTexts are the texts that a message is made of, if it has parts.
func partTexts(m event.Message) []string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == event.PartText {
			texts = append(texts, p.Text)
		}
	}
	return texts
}
