package llmtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// maxCallID is the maximum length of a tool call's id that OpenAI accepts, in bytes.
const maxCallID = 40

// invalid returns the fault that rejects an invalid request.
func invalid(problem string) Fault {
	return Fault{kind: answer, status: http.StatusBadRequest, code: "invalid_request_error", message: problem}
}

// problem returns the reason why providers reject the conversation, or "". Each tool call needs a
// result directly after its message, and no other results are valid.
func (q wireRequest) problem() string {
	open := map[string]bool{}
	for i, m := range q.Messages {
		at := fmt.Sprintf("messages[%d]", i)
		if m.Role == event.RoleTool {
			if !open[m.ToolCallID] {
				return fmt.Sprintf("%s: tool_call_id %q answers no call of the message before it", at, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
		} else if len(open) > 0 {
			return unanswered(at, open)
		}
		if problem := m.problem(); problem != "" {
			return at + problem
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return unanswered("the end of messages", open)
	}
	return ""
}

func unanswered(at string, open map[string]bool) string {
	return fmt.Sprintf("%s: tool calls before it have no answer: %q", at, slices.Sorted(maps.Keys(open)))
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// problem returns the reason why providers reject the message, or "".
func (m wireMessage) problem() string {
	switch m.Role {
	case event.RoleSystem, event.RoleUser, event.RoleTool:
		if len(m.ToolCalls) > 0 {
			return ".tool_calls: only an assistant makes calls"
		}
		return contentProblem(m.Content)
	case event.RoleAssistant:
		if len(m.ToolCalls) == 0 {
			return contentProblem(m.Content)
		}
	default:
		return fmt.Sprintf(".role: %q is none", m.Role)
	}
	for i, c := range m.ToolCalls {
		switch {
		case c.ID == "" || len(c.ID) > maxCallID:
			return fmt.Sprintf(".tool_calls[%d].id: %q must have 1 to %d characters", i, c.ID, maxCallID)
		case !toolName.MatchString(c.Function.Name):
			return fmt.Sprintf(".tool_calls[%d].function.name: %q must be 1 to 64 letters, digits, _ and -", i, c.Function.Name)
		}
	}
	return ""
}

// contentProblem returns the reason why providers reject a required content, or "".
func contentProblem(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ".content: is required"
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return ""
	}
	var parts []wirePart
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return ".content: is neither text nor a list of parts"
	}
	for i, p := range parts {
		if p.Type != event.PartText || p.Text == "" {
			return fmt.Sprintf(".content[%d]: is no part with text", i)
		}
	}
	return ""
}
