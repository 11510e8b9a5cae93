package llmtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

var (
	toolUseID     = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	longToolName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	thinkingKinds = map[string]bool{"thinking": true, "redacted_thinking": true}
)

const minThinking = 1024

// problem returns the reason why Anthropic rejects the request, or "".
func (q *messagesRequest) problem() string {
	switch {
	case q.MaxTokens < 1:
		return "max_tokens: Field required"
	case len(q.Messages) == 0:
		return "messages: at least one message is required"
	case q.Messages[0].Role != event.RoleUser:
		return "messages: first message must use the \"user\" role"
	case q.Messages[len(q.Messages)-1].Role != event.RoleUser:
		return "messages: the conversation must end with a user message"
	case q.Thinking.Type == "enabled" && (q.Thinking.Budget < minThinking || q.Thinking.Budget >= q.MaxTokens):
		return "thinking.budget_tokens: must be at least 1024 and less than max_tokens"
	case q.Thinking.Type != "" && q.Temperature != nil && *q.Temperature != 1:
		return "temperature: may only be set to 1 when thinking is enabled"
	}
	tools := map[string]bool{}
	for i, t := range q.Tools {
		if !longToolName.MatchString(t.Name) {
			return fmt.Sprintf("tools.%d.custom.name: must match %s", i, longToolName)
		}
		if problem := anthropicSchemas.problem(t.InputSchema); problem != "" {
			return fmt.Sprintf("tools.%d.custom.input_schema: %s", i, problem)
		}
		if tools[t.Name] {
			return "tools: Tool names must be unique."
		}
		tools[t.Name] = true
	}
	if problem := q.formProblem(tools); problem != "" {
		return problem
	}
	for i, m := range q.Messages {
		if problem := q.messageProblem(m.Role, m.Content); problem != "" {
			return fmt.Sprintf("messages.%d.%s", i, problem)
		}
	}
	return cmp.Or(q.cacheProblem(), q.callsProblem(), q.thinkingProblem())
}

// formProblem returns why Anthropic rejects what the request wants of the form of the reply, or "".
func (q *messagesRequest) formProblem(tools map[string]bool) string {
	if c := q.Choice; c != nil {
		switch {
		case !slices.Contains([]string{"auto", "any", "tool", "none"}, c.Type):
			return fmt.Sprintf("tool_choice: Input tag '%s' does not match any of the expected tags", c.Type)
		case len(tools) == 0:
			return "tool_choice may only be specified while providing tools."
		case c.Type == "tool" && !tools[c.Name]:
			return fmt.Sprintf("tool_choice.tool.name: Tool '%s' not found in provided tools", c.Name)
		case c.Type != "tool" && c.Name != "":
			return fmt.Sprintf("tool_choice.%s.name: Extra inputs are not permitted", c.Type)
		case q.Thinking.Type != "" && (c.Type == "any" || c.Type == "tool"):
			return "Thinking may not be enabled when tool_choice forces tool use."
		}
	}
	f := q.OutputConfig.Format
	switch {
	case f == nil:
	case f.Type != formatType:
		return fmt.Sprintf("output_config.format.type: Input should be 'json_schema', and is %q", f.Type)
	default:
		if problem := closedProblem(f.Schema, false); problem != "" {
			return "output_config.format.schema: " + problem
		}
	}
	return ""
}

// maxBreakpoints is how many blocks may ask for the cache.
const maxBreakpoints = 4

func (q *messagesRequest) cacheProblem() string {
	breakpoints := 0
	for i, m := range q.Messages {
		for j, b := range m.Content {
			switch {
			case b.Cache == nil:
				continue
			case b.Cache.Type != "ephemeral" || b.Cache.TTL != "" && b.Cache.TTL != "5m" && b.Cache.TTL != "1h":
				return fmt.Sprintf("messages.%d.content.%d.cache_control: must be ephemeral, for 5m or 1h", i, j)
			case thinkingKinds[b.Type]:
				return fmt.Sprintf("messages.%d.content.%d.%s.cache_control: Extra inputs are not permitted", i, j, b.Type)
			}
			breakpoints++
		}
	}
	if breakpoints > maxBreakpoints {
		return fmt.Sprintf("A maximum of %d blocks with cache_control may be provided.", maxBreakpoints)
	}
	return ""
}

// callsProblem: each call has a result at the beginning of the next message, there are no other results,
// and ids are unique. Consecutive messages of one role are one message.
func (q *messagesRequest) callsProblem() string {
	seen, open := map[string]bool{}, map[string]bool{}
	role, text := event.RoleUser, false
	for i, m := range q.Messages {
		if m.Role != role {
			if m.Role == event.RoleAssistant && len(open) > 0 {
				return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %q", i, slices.Sorted(maps.Keys(open)))
			}
			role, text = m.Role, false
		}
		for j, b := range m.Content {
			switch {
			case b.Type == "tool_result" && (!open[b.ToolUseID] || text):
				return fmt.Sprintf("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, j, b.ToolUseID)
			case b.Type == "tool_result":
				delete(open, b.ToolUseID)
			case b.Type == "tool_use" && seen[b.ID]:
				return fmt.Sprintf("messages.%d.content.%d: `tool_use` ids must be unique", i, j)
			case b.Type == "tool_use":
				seen[b.ID], open[b.ID] = true, true
			case m.Role == event.RoleUser && len(open) > 0:
				text = true // results must not follow
			}
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("`tool_use` ids were found without `tool_result` blocks immediately after: %q", slices.Sorted(maps.Keys(open)))
	}
	return ""
}

func (q *messagesRequest) messageProblem(role string, content blocks) string {
	switch {
	case role != event.RoleUser && role != event.RoleAssistant:
		return fmt.Sprintf("role: Input should be 'user' or 'assistant', and is %q", role)
	case len(content) == 0:
		return "content: must not be empty"
	}
	for i, b := range content {
		at := fmt.Sprintf("content.%d", i)
		switch {
		case b.Type == "text" && strings.TrimSpace(b.Text) == "":
			return at + ": text content blocks must contain non-whitespace text"
		case b.Type == "tool_use":
			var input map[string]any
			if role != event.RoleAssistant || !toolUseID.MatchString(b.ID) || !longToolName.MatchString(b.Name) || json.Unmarshal(b.Input, &input) != nil {
				return at + ".tool_use: needs an id, a name and an input of type object"
			}
		case b.Type == "tool_result" && role != event.RoleUser:
			return at + ": tool_result blocks can only be in user messages"
		case b.Type == "tool_result" && b.IsError && emptyResult(b.Content):
			return at + ".tool_result: content cannot be empty if `is_error` is true"
		case b.Type == "thinking" && b.Signature != signed(q.Model, q.account, b.Thinking):
			return at + ": Invalid `signature` in `thinking` block"
		case thinkingKinds[b.Type] && role != event.RoleAssistant:
			return at + ": thinking blocks can only be in assistant messages"
		case b.Type != "text" && b.Type != "tool_result" && !thinkingKinds[b.Type]:
			return at + ".type: unknown block " + b.Type
		}
	}
	return ""
}

// thinkingProblem: with a thinking budget, the replies of the turn that is going on begin with a
// thought.
func (q *messagesRequest) thinkingProblem() string {
	if q.Thinking.Type != "enabled" {
		return ""
	}
	for i := len(q.Messages) - 1; i >= 0; i-- {
		m := q.Messages[i]
		if m.Role == event.RoleUser && m.Content[0].Type != "tool_result" {
			return ""
		}
		if m.Role == event.RoleAssistant && !thinkingKinds[m.Content[0].Type] {
			return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`", i, m.Content[0].Type)
		}
	}
	return ""
}

func emptyResult(raw json.RawMessage) bool {
	var content blocks
	_ = json.Unmarshal(raw, &content) // other content is not empty, but rejected before
	return content.text() == ""
}
