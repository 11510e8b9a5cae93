package llmtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

type chatRequest struct {
	Model       string        `json:"model"`
	Stream      bool          `json:"stream"`
	Messages    []chatMessage `json:"messages"`
	Tools       []chatTool    `json:"tools"`
	Temperature *float64      `json:"temperature"`
	MaxTokens   int           `json:"max_tokens"`
	Effort      string        `json:"reasoning_effort"`
	Choice      toolChoice    `json:"tool_choice"`
	Format      *struct {
		Type   string        `json:"type"`
		Schema *openAIFormat `json:"json_schema"`
	} `json:"response_format"`

	MaxCompletionTokens int `json:"max_completion_tokens"`

	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	server  *Server
	dialect Dialect
	account string // signs calls
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	Reasoning  *string         `json:"reasoning_content"`
	ToolCalls  []chatCall      `json:"tool_calls"`
}

type chatCall struct {
	Type     string          `json:"type"`
	ID       string          `json:"id"`
	Function event.Function  `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type chatPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (s *Server) newChatRequest(r *http.Request) wire {
	return &chatRequest{server: s, dialect: s.config.dialect(), account: account(r)}
}

func (q *chatRequest) request() llm.Request {
	out := llm.Request{Model: q.Model, ToolChoice: q.Choice.choice}
	if q.Format != nil && q.Format.Schema != nil {
		out.ResponseFormat = q.Format.Schema.format()
	}
	for _, m := range q.Messages {
		msg := llm.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID}
		msg.Content, msg.Parts = contentText(m.Content)
		for _, c := range m.ToolCalls {
			msg.ToolCalls = append(msg.ToolCalls, event.ToolCall{ID: c.ID, Function: c.Function})
		}
		out.Messages = append(out.Messages, msg)
	}
	for _, t := range q.Tools {
		out.Tools = append(out.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return out
}

// contentText returns the text of a content, which is a string or a list of parts, one line each.
func contentText(raw json.RawMessage) (text string, parts []string) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var list []chatPart
	_ = json.Unmarshal(raw, &list) // any other content has no text
	for _, p := range list {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, "\n"), parts
}

// maxCallID is the maximum length of a tool call's id that OpenAI accepts, in bytes.
const maxCallID = 40

// invalid returns the fault that rejects an invalid request.
func invalid(problem string) Fault {
	return Fault{kind: answer, status: http.StatusBadRequest, code: "invalid_request_error", message: problem}
}

// problem returns the reason why providers reject the conversation, or "". Each tool call needs a
// result directly after its message, and no other results are valid.
func (q *chatRequest) problem() string {
	plain := !thinkingModel.MatchString(q.Model) || plainModel.MatchString(q.Model)
	switch {
	case len(q.Messages) == 0:
		return "messages: must not be empty"
	case len(q.Tools) > maxTools:
		return fmt.Sprintf("tools: array too long. Expected an array with maximum length %d", maxTools)
	case !plain && q.MaxTokens > 0:
		return "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
	case !plain && q.Temperature != nil && *q.Temperature != 1:
		return "Unsupported value: 'temperature' does not support this value with this model."
	}
	for i, t := range q.Tools {
		if t.Type != "function" {
			return fmt.Sprintf("tools[%d].type: %q must be function", i, t.Type)
		}
		if problem := openAIToolProblem(t.Function.Name, t.Function.Description, t.Function.Parameters); problem != "" {
			return fmt.Sprintf("tools[%d].function%s", i, problem)
		}
	}
	if problem := q.formProblem(); problem != "" {
		return problem
	}
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
	return q.dialect.problem(q)
}

// formProblem returns why providers reject what the request wants of the form of the reply, or "".
func (q *chatRequest) formProblem() string {
	tools := make([]string, 0, len(q.Tools))
	for _, t := range q.Tools {
		tools = append(tools, t.Function.Name)
	}
	if problem := q.Choice.problem(tools, false); problem != "" || q.Format == nil {
		return problem
	}
	if q.Format.Type != formatType || q.Format.Schema == nil {
		return "Missing required parameter: 'response_format.json_schema'."
	}
	return q.Format.Schema.problem("response_format")
}

func unanswered(at string, open map[string]bool) string {
	return fmt.Sprintf("%s: tool calls before it have no answer: %q", at, slices.Sorted(maps.Keys(open)))
}

var participant = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// problem returns the reason why providers reject the message, or "".
func (m chatMessage) problem() string {
	if m.Name != "" && !participant.MatchString(m.Name) {
		return fmt.Sprintf(".name: %q must match %s", m.Name, participant)
	}
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
		case c.Type != "function":
			return fmt.Sprintf(".tool_calls[%d].type: %q must be function", i, c.Type)
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
	var parts []chatPart
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

func (q *chatRequest) streams() bool { return q.Stream }

func (q *chatRequest) failure(f Fault) object {
	e := object{"message": f.message, "type": "error", "param": nil, "code": nil}
	if f.code != "" {
		e["code"] = f.code
	}
	return object{"error": e}
}

func (q *chatRequest) fail(c *call) { c.json("", q.failure(c.fault)) }

func (q *chatRequest) eventName() string { return "" }

func (q *chatRequest) broken() object {
	return object{"object": "chat.completion", "choices": []any{}}
}

func (q *chatRequest) delta(c *call, delta object, finish any) {
	c.json("", q.envelope(c, "chat.completion.chunk", object{"choices": []any{
		object{"index": 0, "delta": delta, "finish_reason": finish},
	}}))
}

func (q *chatRequest) envelope(c *call, kind string, fields object) object {
	fields["id"] = fmt.Sprintf("chatcmpl-%d", c.number)
	fields["object"] = kind
	fields["created"] = time.Now().Unix()
	fields["model"] = q.Model
	fields["service_tier"] = "default"
	return fields
}

func (q *chatRequest) begin(c *call, _ script.Reply) {
	q.delta(c, object{"role": "assistant", "content": ""}, nil)
}

func (q *chatRequest) piece(c *call, p script.Piece) {
	if p.Thought != "" {
		q.delta(c, q.thoughtFields(c, p.Thought, ""), nil)
	} else {
		q.delta(c, object{"content": p.Text}, nil)
	}
}

func (q *chatRequest) end(c *call, reply script.Reply) {
	for i, tc := range reply.Calls {
		q.call(c, i, tc)
	}
	q.delta(c, object{}, finishReason(reply))
	if q.StreamOptions != nil && q.StreamOptions.IncludeUsage || q.dialect.refuses("stream_options") {
		c.json("", q.envelope(c, "chat.completion.chunk", object{"choices": []any{}, "usage": usageObject(reply.Usage)}))
	}
	c.event("", "[DONE]")
}

// call streams a tool call in three pieces.
func (q *chatRequest) call(c *call, index int, tc event.ToolCall) {
	first, second := halves(tc.Function.Arguments)
	for i, piece := range []string{"", first, second} {
		function := object{"arguments": piece}
		out := object{"function": function}
		if i == 0 || c.config.Sloppy {
			function["name"] = tc.Function.Name
		}
		if !c.config.Sloppy {
			out["index"] = index
			if i == 0 {
				out["id"], out["type"] = tc.ID, "function"
				if extra := q.extraOf(index, tc); extra != nil {
					out["extra_content"] = extra
				}
			}
		}
		q.delta(c, object{"tool_calls": []any{out}}, nil)
	}
}

func (q *chatRequest) whole(c *call, reply script.Reply) object {
	text, thought := joinedPieces(reply)
	message := object{"role": "assistant", "content": text}
	if thought != "" {
		maps.Copy(message, q.thoughtFields(c, thought, text))
	}
	if len(reply.Calls) > 0 {
		var calls []any
		for i, tc := range reply.Calls {
			made := object{"id": tc.ID, "type": "function", "function": tc.Function}
			if extra := q.extraOf(i, tc); extra != nil {
				made["extra_content"] = extra
			}
			calls = append(calls, made)
		}
		message["tool_calls"] = calls
	}
	return q.envelope(c, "chat.completion", object{
		"choices": []any{object{"index": 0, "message": message, "finish_reason": finishReason(reply)}},
		"usage":   usageObject(reply.Usage),
	})
}

func finishReason(reply script.Reply) string {
	if len(reply.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func usageObject(u event.Usage) object {
	return object{
		"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
		"prompt_tokens_details":     object{"cached_tokens": u.CachedTokens, "cache_write_tokens": u.CacheWriteTokens},
		"completion_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
	}
}
