package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// request returns a request, and what goes back with its calls, by their ids.
func (p *Provider) request(req llm.Request, names *driver.ToolNames) (out sdk.ChatCompletionRequest, extras map[string]json.RawMessage) {
	out = sdk.ChatCompletionRequest{Model: req.Model, ReasoningEffort: req.ReasoningEffort}
	extras = map[string]json.RawMessage{}
	for _, m := range p.dialect.messages(visible(req.Messages)) {
		wire := p.message(m, names, req.Model)
		p.giveBack(m, &wire, req.Model, extras)
		out.Messages = append(out.Messages, wire)
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, sdk.Tool{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{
			Name: names.Wire(t.Name), Description: driver.Description(t.Description), Parameters: names.Parameters(t.Name),
		}})
	}
	if name := req.ToolChoice.Tool(); name != "" {
		out.ToolChoice = sdk.ToolChoice{Type: sdk.ToolTypeFunction, Function: sdk.ToolFunction{Name: names.Wire(name)}}
	} else if req.ToolChoice != llm.ToolsAuto {
		out.ToolChoice = string(req.ToolChoice) // none and required, as OpenAI calls them
	}
	if f := req.ResponseFormat; f != nil {
		out.ResponseFormat = &sdk.ChatCompletionResponseFormat{
			Type:       sdk.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{Name: driver.FormatName(f), Schema: f.Schema, Strict: true},
		}
	}
	if req.Temperature != nil {
		// The SDK omits a zero, and the provider would use its default.
		out.Temperature = max(float32(*req.Temperature), math.SmallestNonzeroFloat32)
	}
	// OpenAI has replaced max_tokens, and its reasoning models reject it. Many compatible servers
	// know only max_tokens.
	newer := p.dialect.completionTokens || reasoningModel.MatchString(req.Model)
	if newer && !p.learned.refuses(req.Model, fieldCompletionTokens) || p.learned.refuses(req.Model, fieldMaxTokens) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		out.MaxTokens = req.MaxOutputTokens //nolint:staticcheck // compatible servers know only this field
	}
	return out, extras
}

// thoughts reports whether thoughts that came with calls go back with them.
func (p *Provider) thoughts(model string) bool {
	return p.dialect.thoughts && !p.learned.refuses(model, fieldReasoning) || p.learned.requires(model, fieldReasoning)
}

// giveBack adds what came with the calls of a message, or what stands for it in calls of other models, if the server requires it.
func (p *Provider) giveBack(m llm.Message, wire *sdk.ChatCompletionMessage, model string, extras map[string]json.RawMessage) {
	var k kept
	_ = json.Unmarshal(m.Opaque.Of(p.origin(model)), &k) // nil, or the driver's own
	if len(wire.ToolCalls) == 0 {
		return
	}
	if p.thoughts(model) {
		wire.ReasoningContent = k.Reasoning
	}
	first := wire.ToolCalls[0]
	if wire.ReasoningContent == "" && p.learned.requires(model, fieldReasoning) {
		// It differs for each call: models repeat what all messages say.
		wire.ReasoningContent = fmt.Sprintf("I call %s (%s).", first.Function.Name, first.ID)
	}
	if p.learned.refuses(model, fieldExtra) {
		return
	}
	for i, extra := range k.Extra[:min(len(k.Extra), len(wire.ToolCalls))] {
		if string(extra) != "null" {
			extras[wire.ToolCalls[i].ID] = extra
		}
	}
	if extras[first.ID] == nil && p.learned.requires(model, fieldSignature) {
		extras[first.ID] = noSignature
	}
}

// noSignature has the signature that Google documents for calls that the model did not make.
var noSignature = json.RawMessage(`{"google":{"thought_signature":"skip_thought_signature_validator"}}`)

// fieldsOf returns the fields that a server may refuse and that a request has.
func fieldsOf(req sdk.ChatCompletionRequest, extras map[string]json.RawMessage) map[string]bool {
	has := func(match func(m sdk.ChatCompletionMessage) bool) bool {
		return slices.ContainsFunc(req.Messages, match)
	}
	return map[string]bool{
		fieldStreamOptions:    req.StreamOptions != nil,
		fieldName:             has(func(m sdk.ChatCompletionMessage) bool { return m.Name != "" }),
		fieldReasoning:        has(func(m sdk.ChatCompletionMessage) bool { return m.ReasoningContent != "" }),
		fieldExtra:            len(extras) > 0,
		fieldMaxTokens:        req.MaxTokens > 0, //nolint:staticcheck // see request
		fieldCompletionTokens: req.MaxCompletionTokens > 0,
	}
}

// visible returns the messages that have a content, as servers refuse others.
func visible(messages []llm.Message) []llm.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m llm.Message) bool {
		text, parts := content(m)
		return m.Role != event.RoleTool && text == "" && len(parts) == 0 && len(m.ToolCalls) == 0
	})
}

// thinks reports whether a model writes thoughts.
func thinks(model string) bool {
	return reasoningModel.MatchString(model) && !strings.Contains(model, "gpt-5-chat")
}

// reasoningModel also matches names with a vendor prefix, such as openai/o3-mini.
var reasoningModel = regexp.MustCompile(`^(.*/)?(o[1-9]|gpt-([5-9]|[1-9][0-9]))`)

func (p *Provider) message(m llm.Message, names *driver.ToolNames, model string) sdk.ChatCompletionMessage {
	out := sdk.ChatCompletionMessage{Role: m.Role, Content: m.Content}
	if m.Role == event.RoleTool {
		out.ToolCallID, out.Content = p.dialect.callID(m.ToolCallID), driver.Output(m.Content)
		return out
	}
	if m.Role == event.RoleUser {
		out.Content, out.MultiContent = content(m)
	}
	if p.dialect.names && !p.learned.refuses(model, fieldName) {
		out.Name = driver.Sanitize(m.Name)
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, sdk.ToolCall{
			ID: p.dialect.callID(c.ID), Type: sdk.ToolTypeFunction,
			Function: sdk.FunctionCall{Name: names.Wire(c.Function.Name), Arguments: driver.Arguments(c.Function.Arguments)},
		})
	}
	return out
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
