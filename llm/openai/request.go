package openai

import (
	"math"
	"regexp"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

func (p *Provider) request(req llm.Request, names *driver.ToolNames) sdk.ChatCompletionRequest {
	out := sdk.ChatCompletionRequest{Model: req.Model, ReasoningEffort: req.ReasoningEffort}
	for _, m := range p.ordered(req.Messages) {
		if wire, ok := message(m, names); ok {
			out.Messages = append(out.Messages, wire)
		}
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, sdk.Tool{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{
			Name: names.Wire(t.Name), Description: t.Description, Parameters: driver.Parameters(t.Parameters),
		}})
	}
	if req.Temperature != nil {
		// The SDK omits a zero, and the provider would use its default.
		out.Temperature = max(float32(*req.Temperature), math.SmallestNonzeroFloat32)
	}
	// OpenAI has replaced max_tokens, and its reasoning models reject it. Many compatible servers
	// know only max_tokens.
	if p.official() || reasoningModel.MatchString(req.Model) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		out.MaxTokens = req.MaxOutputTokens //nolint:staticcheck // compatible servers know only this field
	}
	return out
}

// ordered returns messages with the system messages where the server accepts them: only OpenAI itself is
// known to accept them at any position.
func (p *Provider) ordered(messages []llm.Message) []llm.Message {
	if p.official() {
		return messages
	}
	return llm.SystemFirst(messages)
}

// thinks reports whether a model writes thoughts.
func thinks(model string) bool {
	return reasoningModel.MatchString(model) && !strings.Contains(model, "gpt-5-chat")
}

// reasoningModel also matches names with a vendor prefix, such as openai/o3-mini.
var reasoningModel = regexp.MustCompile(`^(.*/)?(o[1-9]|gpt-([5-9]|[1-9][0-9]))`)

// message returns a message for the SDK, and false if the message would be empty.
func message(m llm.Message, names *driver.ToolNames) (sdk.ChatCompletionMessage, bool) {
	out := sdk.ChatCompletionMessage{Role: m.Role, Content: m.Content}
	if m.Role == event.RoleTool {
		out.ToolCallID, out.Content = driver.CallID(m.ToolCallID), driver.Output(m.Content)
		return out, true
	}
	if m.Role == event.RoleUser {
		out.Content, out.MultiContent = content(m)
	}
	out.Name = driver.Sanitize(m.Name)
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, sdk.ToolCall{
			ID: driver.CallID(c.ID), Type: sdk.ToolTypeFunction,
			Function: sdk.FunctionCall{Name: names.Wire(c.Function.Name), Arguments: driver.Arguments(c.Function.Arguments)},
		})
	}
	return out, out.Content != "" || len(out.MultiContent) > 0 || len(out.ToolCalls) > 0
}

// content returns the content of a user message, as text or as parts.
func content(m llm.Message) (string, []sdk.ChatMessagePart) {
	var parts []sdk.ChatMessagePart
	for _, text := range m.Parts {
		if text != "" { // OpenAI rejects parts without text
			parts = append(parts, sdk.ChatMessagePart{Type: sdk.ChatMessagePartTypeText, Text: text})
		}
	}
	if len(parts) == 0 {
		return m.Content, nil
	}
	return "", parts
}
