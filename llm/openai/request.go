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
		// Only OpenAI itself is known to take a system message anywhere.
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
		// The SDK leaves out a zero, which would mean the provider's default.
		out.Temperature = max(float32(*req.Temperature), math.SmallestNonzeroFloat32)
	}
	// OpenAI has replaced max_tokens, and its reasoning models refuse it; many
	// compatible servers know nothing else.
	if p.config.official() || reasoningModel.MatchString(req.Model) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		out.MaxTokens = req.MaxOutputTokens //nolint:staticcheck // what compatible servers know
	}
	return out
}

// reasoningModel also matches names with a vendor in front, like openai/o3-mini.
var reasoningModel = regexp.MustCompile(`^(.*/)?(o[1-9]|gpt-([5-9]|[1-9][0-9]))`)

// message reports false for a message that would say nothing.
func message(m llm.Message, names *toolNames) (sdk.ChatCompletionMessage, bool) {
	out := sdk.ChatCompletionMessage{Role: m.Role, Content: m.Content}
	if m.Role == event.RoleTool {
		out.ToolCallID = callID(m.ToolCallID)
		if out.Content == "" { // the SDK leaves out an empty one, which servers refuse
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

// content is a user's message in one of its two forms: text, or parts.
func content(m llm.Message) (string, []sdk.ChatMessagePart) {
	var parts []sdk.ChatMessagePart
	for _, text := range m.Parts {
		if text != "" { // OpenAI refuses a part without text
			parts = append(parts, sdk.ChatMessagePart{Type: sdk.ChatMessagePartTypeText, Text: text})
		}
	}
	if len(parts) == 0 {
		return m.Content, nil
	}
	return "", parts
}

// maxCallID is the longest id of a tool call that OpenAI accepts, in bytes.
const maxCallID = 40

// callID makes an id that every server of the protocol accepts. The same id always becomes
// the same one, so that calls and their results stay together. Replies are not concerned:
// what the model asks for now has ids of the server's own.
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

// sanitize makes a name that OpenAI accepts.
func sanitize(name string) string {
	name = notInName.ReplaceAllString(strings.TrimSpace(name), "_")
	return name[:min(len(name), maxName)]
}

// toolNames maps names of tools to names that OpenAI accepts, and back.
type toolNames struct{ there, back map[string]string }

func newToolNames(tools []llm.Tool) *toolNames {
	n := &toolNames{there: map[string]string{}, back: map[string]string{}}
	for _, t := range tools { // names that need no change keep it
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

// restore gives calls the names that the tools have in Threadmill.
func (n *toolNames) restore(calls []event.ToolCall) {
	for i := range calls {
		if name, ok := n.back[calls[i].Function.Name]; ok {
			calls[i].Function.Name = name
		}
	}
}
