package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

// responsesRequest is a request of OpenAI's Responses API.
type responsesRequest struct {
	Model           string            `json:"model"`
	Stream          bool              `json:"stream"`
	Store           *bool             `json:"store"`
	Input           []json.RawMessage `json:"input"`
	Include         []string          `json:"include"`
	Temperature     *float64          `json:"temperature"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Reasoning       *struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Tools  []responsesTool `json:"tools"`
	Choice toolChoice      `json:"tool_choice"`
	Text   struct {
		Format *struct {
			Type string `json:"type"`
			openAIFormat
		} `json:"format"`
	} `json:"text"`

	account string // encrypts reasoning

	sequence int
	output   []any         // complete items of the response
	open     *responseItem // the item that is not complete
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

// responseItem is an item of the response: reasoning or a message.
type responseItem struct {
	id, kind string
	text     strings.Builder
}

// The items of a conversation. Each has only the fields of its type.
type (
	messageItem struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	reasoningItem struct {
		Type      string     `json:"type"`
		ID        string     `json:"id"`
		Summary   []chatPart `json:"summary"`
		Encrypted string     `json:"encrypted_content"`
	}
	callItem struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	outputItem struct {
		Type   string `json:"type"`
		ID     string `json:"id"`
		CallID string `json:"call_id"`
		Output string `json:"output"`
	}
)

func newResponsesRequest(r *http.Request) wire {
	return &responsesRequest{account: account(r)}
}

// readItem returns an item of the conversation, or why it is none.
func readItem(raw json.RawMessage) (item any, problem string) {
	var head struct {
		Type string `json:"type"`
		Role string `json:"role"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return nil, " must be an object"
	}
	switch head.Type {
	case "", "message":
		item = &messageItem{}
	case "reasoning":
		item = &reasoningItem{}
	case "function_call":
		item = &callItem{}
	case "function_call_output":
		item = &outputItem{}
	default:
		return nil, fmt.Sprintf(".type: Invalid value: '%s'", head.Type)
	}
	if err := strictly(raw, item); err != nil {
		return nil, ": " + err.Error()
	}
	return item, ""
}

func (q *responsesRequest) request() llm.Request {
	out := llm.Request{Model: q.Model, ToolChoice: q.Choice.choice}
	if f := q.Text.Format; f != nil {
		out.ResponseFormat = f.format()
	}
	model := false // the last message is the model's, and its items go on
	reply := func() *llm.Message {
		if !model {
			out.Messages = append(out.Messages, llm.Message{Role: event.RoleAssistant})
		}
		model = true
		return &out.Messages[len(out.Messages)-1]
	}
	for _, raw := range q.Input {
		item, _ := readItem(raw) // problem reports it
		switch item := item.(type) {
		case *messageItem:
			text, parts := contentText(item.Content)
			if item.Role == event.RoleAssistant {
				m := reply()
				m.Content = strings.TrimPrefix(m.Content+"\n"+text, "\n")
				continue
			}
			model = false
			out.Messages = append(out.Messages, llm.Message{Role: item.Role, Content: text, Parts: parts})
		case *callItem:
			m := reply()
			m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: item.CallID, Function: event.Function{Name: item.Name, Arguments: item.Arguments}})
		case *outputItem:
			model = false
			out.Messages = append(out.Messages, llm.Message{Role: event.RoleTool, ToolCallID: item.CallID, Content: item.Output})
		}
	}
	for _, t := range q.Tools {
		out.Tools = append(out.Tools, llm.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out
}

func (q *responsesRequest) streams() bool { return q.Stream }

func (q *responsesRequest) encrypts() bool {
	return slices.Contains(q.Include, "reasoning.encrypted_content")
}

func (q *responsesRequest) failure(f Fault) object { return (&chatRequest{}).failure(f) }

func (q *responsesRequest) fail(c *call) {
	code := any(c.fault.code)
	if code == "" {
		code = nil
	}
	q.event(c, "error", object{"code": code, "message": c.fault.message, "param": nil})
}

func (q *responsesRequest) eventName() string { return "response.output_text.delta" }

func (q *responsesRequest) broken() object { return object{} }

func (q *responsesRequest) whole(*call, script.Reply) object { return object{} }

// event writes an event of the stream.
func (q *responsesRequest) event(c *call, kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, q.sequence
	q.sequence++
	c.json(kind, fields)
}

func (q *responsesRequest) response(c *call, status string, fields object) object {
	fields["id"], fields["object"], fields["model"], fields["status"] = fmt.Sprintf("resp_%d", c.number), "response", q.Model, status
	fields["error"], fields["incomplete_details"], fields["store"] = nil, nil, q.Store
	if fields["service_tier"] = "auto"; status == "completed" {
		fields["service_tier"] = "default" // of the reply, before that of the request
	}
	return object{"response": fields}
}

func (q *responsesRequest) begin(c *call, _ script.Reply) {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		q.event(c, kind, q.response(c, "in_progress", object{"output": []any{}, "usage": nil}))
	}
}

func (q *responsesRequest) piece(c *call, p script.Piece) {
	if p.Thought != "" {
		q.item(c, "reasoning")
		q.open.text.WriteString(p.Thought)
		q.event(c, "response.reasoning_summary_text.delta", q.at(object{"summary_index": 0, "delta": p.Thought}))
		return
	}
	q.item(c, "message")
	q.open.text.WriteString(p.Text)
	q.event(c, "response.output_text.delta", q.at(object{"content_index": 0, "delta": p.Text, "logprobs": []any{}}))
}

// at adds the place of the open item to an event.
func (q *responsesRequest) at(fields object) object {
	fields["item_id"], fields["output_index"] = q.open.id, len(q.output)
	return fields
}

// item begins an item, unless the open one is of this type.
func (q *responsesRequest) item(c *call, kind string) {
	if q.open != nil && q.open.kind == kind {
		return
	}
	q.close(c)
	q.open = &responseItem{kind: kind, id: fmt.Sprintf("%s_%d_%d", kind, c.number, len(q.output))}
	item, part, added := object{"id": q.open.id, "type": kind, "summary": []any{}}, "summary_text", "response.reasoning_summary_part.added"
	if kind == "message" {
		item, part, added = object{"id": q.open.id, "type": kind, "role": "assistant", "status": "in_progress", "content": []any{}}, "output_text", "response.content_part.added"
	}
	q.event(c, "response.output_item.added", object{"output_index": len(q.output), "item": item})
	q.event(c, added, q.at(object{"summary_index": 0, "content_index": 0, "part": object{"type": part, "text": ""}}))
}

// close completes the open item.
func (q *responsesRequest) close(c *call) {
	if q.open == nil {
		return
	}
	text := q.open.text.String()
	if q.open.kind == "message" {
		part := object{"type": "output_text", "text": text, "annotations": []any{}}
		q.event(c, "response.output_text.done", q.at(object{"content_index": 0, "text": text}))
		q.event(c, "response.content_part.done", q.at(object{"content_index": 0, "part": part}))
		q.done(c, object{"id": q.open.id, "type": "message", "role": "assistant", "status": "completed", "content": []any{part}})
		return
	}
	part := object{"type": "summary_text", "text": text}
	q.event(c, "response.reasoning_summary_text.done", q.at(object{"summary_index": 0, "text": text}))
	q.event(c, "response.reasoning_summary_part.done", q.at(object{"summary_index": 0, "part": part}))
	item := object{"id": q.open.id, "type": "reasoning", "summary": []any{part}}
	if q.encrypts() {
		item["encrypted_content"] = signed(q.Model, q.account, q.open.id)
	}
	q.done(c, item)
}

func (q *responsesRequest) done(c *call, item object) {
	q.event(c, "response.output_item.done", object{"output_index": len(q.output), "item": item})
	q.output, q.open = append(q.output, item), nil
}

func (q *responsesRequest) end(c *call, reply script.Reply) {
	q.close(c)
	for i, tc := range reply.Calls {
		q.open = &responseItem{id: fmt.Sprintf("fc_%d_%d", c.number, i)}
		item := func(status, arguments string) object {
			return object{"id": q.open.id, "type": "function_call", "status": status, "call_id": tc.ID, "name": tc.Function.Name, "arguments": arguments}
		}
		q.event(c, "response.output_item.added", object{"output_index": len(q.output), "item": item("in_progress", "")})
		first, second := halves(tc.Function.Arguments)
		for _, piece := range []string{first, second} {
			q.event(c, "response.function_call_arguments.delta", q.at(object{"delta": piece}))
		}
		q.event(c, "response.function_call_arguments.done", q.at(object{"arguments": tc.Function.Arguments}))
		q.done(c, item("completed", tc.Function.Arguments))
	}
	u := reply.Usage
	q.event(c, "response.completed", q.response(c, "completed", object{"output": q.output, "usage": object{
		"input_tokens": u.InputTokens, "input_tokens_details": object{"cached_tokens": u.CachedTokens, "cache_write_tokens": u.CacheWriteTokens},
		"output_tokens": u.OutputTokens, "output_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
		"total_tokens": u.InputTokens + u.OutputTokens,
	}}))
}
