package modelcontext

import (
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// SeenBy returns a message in the form for one agent's model. ok is false if the model does not see
// it.
func SeenBy(agentName string, m event.Message) (shown llm.Message, ok bool) {
	own := strings.EqualFold(m.AgentID, agentName)
	switch m.SenderType {
	case event.CreatedByUser:
		return llm.Message{Role: event.RoleUser, Name: m.SenderID, Content: m.Content, Parts: partTexts(m)}, true
	case event.CreatedBySystem:
		return llm.Message{Role: event.RoleSystem, Content: m.Content}, true
	case event.CreatedByAgent:
		if own {
			return llm.Message{Role: event.RoleAssistant, Content: m.Content, ToolCalls: byTools(m.ToolCalls)}, true
		}
		return llm.Message{Role: event.RoleUser, Name: m.SenderID, Content: m.SenderID + ": " + m.Content}, m.Content != ""
	case event.CreatedByTool:
		if m.ToolCallID == "" {
			return llm.Message{Role: event.RoleUser, Name: m.SenderID, Content: m.SenderID + ": " + m.Content}, true
		}
		return llm.Message{Role: event.RoleTool, Content: m.Content, ToolCallID: m.ToolCallID, IsError: m.IsError}, own
	}
	return llm.Message{}, false
}

// clientCall is the prefix of calls that clients show, such as client.requestApproval. No tool has
// such a name.
const clientCall = "client."

// byTools returns the calls that tools run. Models do not see the others.
func byTools(calls []event.ToolCall) []event.ToolCall {
	var out []event.ToolCall
	for _, call := range calls {
		if !strings.HasPrefix(call.Function.Name, clientCall) {
			out = append(out, call)
		}
	}
	return out
}

// partTexts returns the text parts of a message, if it has parts.
func partTexts(m event.Message) []string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == event.PartText {
			texts = append(texts, p.Text)
		}
	}
	return texts
}
