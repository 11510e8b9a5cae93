package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
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
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
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
	Choice *struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
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
	if c := q.Choice; c != nil {
		out.ToolChoice = map[string]llm.ToolChoice{"none": llm.ToolsNone, "any": llm.ToolsRequired, "tool": llm.ChooseTool(c.Name)}[c.Type]
	}
	if f := q.OutputConfig.Format; f != nil {
		out.ResponseFormat = &llm.ResponseFormat{Schema: f.Schema}
	}
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
	u := reply.Usage
	c.json("message_start", object{"type": "message_start", "message": object{
		"id": fmt.Sprintf("msg_%d", c.number), "type": "message", "role": "assistant", "model": q.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": u.InputTokens - u.CachedTokens - u.CacheWriteTokens, "cache_read_input_tokens": u.CachedTokens,
			"cache_creation_input_tokens": u.CacheWriteTokens, "cache_creation": object{
				"ephemeral_5m_input_tokens": u.CacheWriteTokens - u.CacheWriteHourTokens, "ephemeral_1h_input_tokens": u.CacheWriteHourTokens,
			},
			"output_tokens": 1, "service_tier": "standard",
		},
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
