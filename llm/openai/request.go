package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

func (p *Provider) request(req llm.Request, names *toolNames) sdk.ChatCompletionRequest {
	out := sdk.ChatCompletionRequest{Model: req.Model, ReasoningEffort: req.ReasoningEffort}
	messages := req.Messages
	if !p.config.official() {
		// Only OpenAI itself is known to accept system messages at any position.
		messages = llm.SystemFirst(messages)
	}
	for _, m := range messages {
		if wire, ok := message(m, names); ok {
			out.Messages = append(out.Messages, wire)
		}
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, sdk.Tool{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{
			Name: names.wire(t.Name), Description: t.Description, Parameters: parameters(t.Parameters),
		}})
	}
	if req.Temperature != nil {
		// The SDK omits a zero, and the provider would use its default.
		out.Temperature = max(float32(*req.Temperature), math.SmallestNonzeroFloat32)
	}
	// OpenAI has replaced max_tokens, and its reasoning models reject it. Many compatible servers
	// know only max_tokens.
	if p.config.official() || reasoningModel.MatchString(req.Model) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		out.MaxTokens = req.MaxOutputTokens //nolint:staticcheck // compatible servers know only this field
	}
	return out
}

// reasoningModel also matches names with a vendor prefix, such as openai/o3-mini.
var reasoningModel = regexp.MustCompile(`^(.*/)?(o[1-9]|gpt-([5-9]|[1-9][0-9]))`)

// message returns a message for the SDK, and false if the message would be empty.
func message(m llm.Message, names *toolNames) (sdk.ChatCompletionMessage, bool) {
	out := sdk.ChatCompletionMessage{Role: m.Role, Content: m.Content}
	if m.Role == event.RoleTool {
		out.ToolCallID = callID(m.ToolCallID)
		if out.Content == "" { // the SDK omits empty content, which servers reject
			out.Content = "(no output)"
		}
		return out, true
	}
	if m.Role == event.RoleUser {
		out.Content, out.MultiContent = content(m)
	}
	out.Name = sanitize(m.Name)
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, sdk.ToolCall{
			ID: callID(c.ID), Type: sdk.ToolTypeFunction,
			Function: sdk.FunctionCall{Name: names.wire(c.Function.Name), Arguments: toolArguments(c.Function.Arguments)},
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

// maxCallID is the maximum length of a tool call's id that OpenAI accepts, in bytes.
const maxCallID = 40

// callID returns an id that every compatible server accepts. It is deterministic, so calls and
// their results still match. Ids in replies remain unchanged.
func callID(id string) string {
	if len(id) <= maxCallID && !notInName.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

func parameters(schema json.RawMessage) any {
	if len(schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return schema
}

const maxName = 64

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// sanitize returns a name that OpenAI accepts.
func sanitize(name string) string {
	name = notInName.ReplaceAllString(strings.TrimSpace(name), "_")
	return name[:min(len(name), maxName)]
}

// toolNames maps the names of tools to names that OpenAI accepts, and back.
type toolNames struct{ there, back map[string]string }

func newToolNames(tools []llm.Tool) *toolNames {
	n := &toolNames{there: map[string]string{}, back: map[string]string{}}
	for _, t := range tools { // valid names remain unchanged
		if sanitize(t.Name) == t.Name {
			n.there[t.Name], n.back[t.Name] = t.Name, t.Name
		}
	}
	for _, t := range tools {
		if _, ok := n.there[t.Name]; ok {
			continue
		}
		wire := n.free(sanitize(t.Name))
		n.there[t.Name], n.back[wire] = wire, t.Name
	}
	return n
}

func (n *toolNames) free(name string) string {
	candidate := name
	for i := 2; ; i++ {
		if _, taken := n.back[candidate]; !taken {
			return candidate
		}
		suffix := fmt.Sprintf("_%d", i)
		candidate = name[:min(len(name), maxName-len(suffix))] + suffix
	}
}

func (n *toolNames) wire(name string) string {
	if w, ok := n.there[name]; ok {
		return w
	}
	return sanitize(name)
}

// restore replaces the names in calls by the original names of the tools.
func (n *toolNames) restore(calls []event.ToolCall) {
	for i := range calls {
		if name, ok := n.back[calls[i].Function.Name]; ok {
			calls[i].Function.Name = name
		}
	}
}
