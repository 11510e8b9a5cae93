package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

// messagesRequest is a request in Anthropic's protocol.
type messagesRequest struct {
	Model       string   `json:"model"`
	MaxTokens   int      `json:"max_tokens"`
	Stream      bool     `json:"stream"`
	System      blocks   `json:"system"`
	Temperature *float64 `json:"temperature"`
	Thinking    struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	OutputConfig struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
	Messages []struct {
		Role    string `json:"role"`
		Content blocks `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Cache *cacheControl `json:"cache_control"`

	account string // signs thoughts

	// kind is the type of the open block of the response, and index its number.
	kind    string
	index   int
	thought strings.Builder
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

// blocks is a text or a list of blocks.
type blocks []block

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Data      string          `json:"data"`
	Cache     *cacheControl   `json:"cache_control"`
}

func (b *blocks) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*b = blocks{{Type: "text", Text: text}}
		return nil
	}
	return strictly(data, (*[]block)(b))
}

func (b blocks) text() string {
	var texts []string
	for _, one := range b {
		if one.Type == "text" {
			texts = append(texts, one.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func newMessagesRequest(r *http.Request) wire {
	return &messagesRequest{account: account(r)}
}

func (q *messagesRequest) request() llm.Request {
	out := llm.Request{Model: q.Model}
	if len(q.System) > 0 {
		out.Messages = append(out.Messages, llm.Message{Role: event.RoleSystem, Content: q.System.text()})
	}
	for _, m := range q.Messages {
		reply := llm.Message{Role: m.Role, Content: m.Content.text()}
		for _, b := range m.Content {
			switch {
			case b.Type == "tool_use":
				reply.ToolCalls = append(reply.ToolCalls, event.ToolCall{ID: b.ID, Function: event.Function{Name: b.Name, Arguments: string(b.Input)}})
			case b.Type == "tool_result":
				var content blocks
				_ = json.Unmarshal(b.Content, &content) // other content has no text
				out.Messages = append(out.Messages, llm.Message{Role: event.RoleTool, ToolCallID: b.ToolUseID, Content: content.text(), IsError: b.IsError})
			case b.Type == "text" && m.Role == event.RoleUser:
				out.Messages = append(out.Messages, llm.Message{Role: m.Role, Content: b.Text})
			}
		}
		if m.Role != event.RoleUser {
			out.Messages = append(out.Messages, reply)
		}
	}
	for _, t := range q.Tools {
		out.Tools = append(out.Tools, llm.Tool{Name: t.Name, Description: t.Description, Parameters: t.InputSchema})
	}
	return out
}

func (q *messagesRequest) streams() bool { return q.Stream }

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
	for i, t := range q.Tools {
		var schema struct{ Type string }
		if !longToolName.MatchString(t.Name) || json.Unmarshal(t.InputSchema, &schema) != nil || schema.Type != "object" {
			return fmt.Sprintf("tools.%d: name must match %s, and input_schema must be of type object", i, longToolName)
		}
	}
	for i, m := range q.Messages {
		if problem := q.messageProblem(m.Role, m.Content); problem != "" {
			return fmt.Sprintf("messages.%d.%s", i, problem)
		}
	}
	return q.thinkingProblem()
}

func (q *messagesRequest) messageProblem(role string, content blocks) string {
	if len(content) == 0 {
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

func (q *messagesRequest) failure(f Fault) object {
	kind := f.code
	if kind == "" || kind == "invalid_api_key" {
		kind = map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}[f.status]
	}
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": f.message}}
}

func (q *messagesRequest) fail(c *call) { c.json("error", q.failure(c.fault)) }

func (q *messagesRequest) eventName() string { return "content_block_delta" }

func (q *messagesRequest) broken() object { return object{} }

func (q *messagesRequest) whole(*call, script.Reply) object { return object{} }

func (q *messagesRequest) begin(c *call, reply script.Reply) {
	c.json("message_start", object{"type": "message_start", "message": object{
		"id": fmt.Sprintf("msg_%d", c.number), "type": "message", "role": "assistant", "model": q.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": reply.Usage.InputTokens, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1},
	}})
	c.json("ping", object{"type": "ping"})
}

func (q *messagesRequest) piece(c *call, p script.Piece) {
	if p.Thought != "" {
		q.block(c, "thinking", object{"type": "thinking", "thinking": "", "signature": ""})
		q.thought.WriteString(p.Thought)
		q.delta(c, object{"type": "thinking_delta", "thinking": p.Thought})
		return
	}
	q.block(c, "text", object{"type": "text", "text": ""})
	q.delta(c, object{"type": "text_delta", "text": p.Text})
}

// block begins a block, unless the open one is of this type and not a call.
func (q *messagesRequest) block(c *call, kind string, content object) {
	if q.kind == kind && kind != "tool_use" {
		return
	}
	q.close(c)
	q.kind = kind
	c.json("content_block_start", object{"type": "content_block_start", "index": q.index, "content_block": content})
}

func (q *messagesRequest) close(c *call) {
	if q.kind == "" {
		return
	}
	if q.kind == "thinking" {
		q.delta(c, object{"type": "signature_delta", "signature": signed(q.Model, q.account, q.thought.String())})
	}
	c.json("content_block_stop", object{"type": "content_block_stop", "index": q.index})
	q.kind = ""
	q.index++
}

func (q *messagesRequest) delta(c *call, delta object) {
	c.json("content_block_delta", object{"type": "content_block_delta", "index": q.index, "delta": delta})
}

func (q *messagesRequest) end(c *call, reply script.Reply) {
	for _, tc := range reply.Calls {
		q.block(c, "tool_use", object{"type": "tool_use", "id": tc.ID, "name": tc.Function.Name, "input": object{}})
		first, second := halves(tc.Function.Arguments)
		for _, piece := range []string{"", first, second} {
			q.delta(c, object{"type": "input_json_delta", "partial_json": piece})
		}
	}
	q.close(c)
	reason := "end_turn"
	if len(reply.Calls) > 0 {
		reason = "tool_use"
	}
	c.json("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{
		"output_tokens": reply.Usage.OutputTokens, "output_tokens_details": object{"thinking_tokens": reply.Usage.ReasoningTokens},
	}})
	c.json("message_stop", object{"type": "message_stop"})
}
