package llmtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// The models of OpenAI that write thoughts, and those that do not. Others are not known.
var (
	thinkingModel = regexp.MustCompile(`^(o[1-9]|gpt-([5-9]|\d\d))`)
	plainModel    = regexp.MustCompile(`^(gpt-[34]|gpt-5-chat)`)
)

const (
	minOutputTokens   = 16
	maxResponseCallID = 64
)

// efforts are the reasoning efforts of OpenAI's models.
var efforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}

// problem returns the reason why OpenAI rejects the request, or "".
func (q *responsesRequest) problem() string {
	plain := plainModel.MatchString(q.Model)
	switch {
	case len(q.Input) == 0:
		return `One of "input" or "previous_response_id" or 'prompt' or 'conversation_id' must be provided.`
	case q.MaxOutputTokens != nil && *q.MaxOutputTokens < minOutputTokens:
		return fmt.Sprintf("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= %d.", minOutputTokens)
	case plain && q.encrypts():
		return "Encrypted content is not supported with this model."
	case plain && q.Reasoning != nil:
		return "Unsupported parameter: 'reasoning.effort' is not supported with this model."
	case q.Reasoning != nil && !slices.Contains(efforts, q.Reasoning.Effort):
		return fmt.Sprintf("Invalid value: '%s'. Supported values are: %q.", q.Reasoning.Effort, efforts[1:])
	case q.Temperature != nil && thinkingModel.MatchString(q.Model) && !plain:
		return "Unsupported parameter: 'temperature' is not supported with this model."
	case len(q.Tools) > maxTools:
		return fmt.Sprintf("Invalid 'tools': array too long. Expected an array with maximum length %d.", maxTools)
	}
	for i, t := range q.Tools {
		if problem := t.problem(); problem != "" {
			return fmt.Sprintf("tools[%d]%s", i, problem)
		}
	}
	if problem := q.formProblem(); problem != "" {
		return problem
	}
	return q.inputProblem()
}

// formProblem returns why OpenAI rejects what the request wants of the form of the reply, or "".
func (q *responsesRequest) formProblem() string {
	tools := make([]string, 0, len(q.Tools))
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	f := q.Text.Format
	if problem := q.Choice.problem(tools, true); problem != "" || f == nil {
		return problem
	}
	if f.Type != formatType {
		return fmt.Sprintf("Invalid value: '%s'. Supported values are: 'json_schema'.", f.Type)
	}
	return f.problem("text.format")
}

func (t responsesTool) problem() string {
	switch {
	case t.Type != "function":
		return fmt.Sprintf(".type: Invalid value: '%s'", t.Type)
	case t.Strict == nil || *t.Strict:
		return ".parameters: a strict schema needs 'additionalProperties' false and all properties in 'required'"
	}
	return openAIToolProblem(t.Name, t.Description, t.Parameters)
}

// inputProblem: each call has one result after it, there are no other results, and reasoning is the
// model's own and comes before what the model has made of it.
func (q *responsesRequest) inputProblem() string {
	open := map[string]bool{}
	var reasoning string // the item that needs another one after it
	for i, raw := range q.Input {
		at := fmt.Sprintf("input[%d]", i)
		item, problem := readItem(raw)
		if problem != "" {
			return at + problem
		}
		if reasoning != "" && !followsReasoning(item) {
			return fmt.Sprintf("Item '%s' of type 'reasoning' was provided without its required following item.", reasoning)
		}
		reasoning = ""
		switch item := item.(type) {
		case *messageItem:
			problem = item.problem()
		case *reasoningItem:
			reasoning, problem = item.ID, q.reasoningProblem(item)
		case *callItem:
			open[item.CallID], problem = true, item.problem()
		case *outputItem:
			if !open[item.CallID] {
				return fmt.Sprintf("No tool call found for function call output with call_id %s.", item.CallID)
			}
			delete(open, item.CallID)
			problem = stored(item.ID)
		}
		if problem != "" {
			return at + problem
		}
	}
	switch {
	case reasoning != "":
		return fmt.Sprintf("Item '%s' of type 'reasoning' was provided without its required following item.", reasoning)
	case len(open) > 0:
		return fmt.Sprintf("No tool output found for function call %s.", slices.Sorted(maps.Keys(open))[0])
	}
	return ""
}

// followsReasoning reports whether an item is the model's.
func followsReasoning(item any) bool {
	switch item := item.(type) {
	case *messageItem:
		return item.Role == event.RoleAssistant
	case *outputItem:
		return false
	}
	return true
}

// stored returns why the API does not know an id: nothing is stored.
func stored(id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf(".id: Item with id '%s' not found. Items are not persisted when `store` is set to false.", id)
}

func (m *messageItem) problem() string {
	kinds := []string{"input_text"}
	switch m.Role {
	case event.RoleUser, event.RoleSystem, "developer":
	case event.RoleAssistant:
		kinds = []string{"output_text", "refusal"}
	default:
		return fmt.Sprintf(".role: Invalid value: '%s'", m.Role)
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil && string(m.Content) != "null" {
		return stored(m.ID)
	}
	var parts []json.RawMessage
	if json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return ".content: must be a text or a list of parts"
	}
	for i, raw := range parts {
		var p chatPart
		if err := strictly(raw, &p); err != nil || !slices.Contains(kinds, p.Type) || p.Text == "" {
			return fmt.Sprintf(".content[%d]: must have a text, and a type of %q", i, kinds)
		}
	}
	return stored(m.ID)
}

func (q *responsesRequest) reasoningProblem(r *reasoningItem) string {
	switch {
	case r.ID == "":
		return ".id: Missing required parameter"
	case r.Summary == nil:
		return ".summary: Missing required parameter"
	case r.Encrypted == "":
		return stored(r.ID)
	case r.Encrypted != signed(q.Model, q.account, r.ID):
		return ": The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed."
	}
	return ""
}

func (c *callItem) problem() string {
	switch {
	case c.CallID == "" || len(c.CallID) > maxResponseCallID:
		return fmt.Sprintf(".call_id: %q must have 1 to %d characters", c.CallID, maxResponseCallID)
	case !toolName.MatchString(c.Name):
		return fmt.Sprintf(".name: %q must be 1 to 64 letters, digits, _ and -", c.Name)
	}
	return stored(c.ID)
}
