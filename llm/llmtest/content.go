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

// contentRequest is a request in Google's protocol.
type contentRequest struct {
	Contents []content `json:"contents"`
	System   *content  `json:"systemInstruction"`
	Tools    []struct {
		Functions []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Temperature     *float64 `json:"temperature"`
		MaxOutputTokens int      `json:"maxOutputTokens"`
		Thinking        *struct {
			Include bool   `json:"includeThoughts"`
			Budget  *int   `json:"thinkingBudget"`
			Level   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
		MediaType string          `json:"responseMimeType"`
		Schema    json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
	ToolConfig struct {
		Calling *struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`

	model, account string

	// cloud means that the server is Vertex AI.
	cloud bool
}

type content struct {
	Role  string        `json:"role"`
	Parts []contentPart `json:"parts"`
}

type contentPart struct {
	Text      string        `json:"text"`
	Thought   bool          `json:"thought"`
	Signature string        `json:"thoughtSignature"`
	Call      *functionCall `json:"functionCall"`
	Response  *struct {
		ID       string                     `json:"id"`
		Name     string                     `json:"name"`
		Response map[string]json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

type functionCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// arguments returns the arguments of a call, which the protocol omits if there are none.
func (f *functionCall) arguments() string {
	if f.Args == nil {
		return "{}"
	}
	raw, _ := json.Marshal(f.Args) // it was JSON
	return string(raw)
}

func newContentRequest(r *http.Request) wire {
	model, _, _ := strings.Cut(r.PathValue("method"), ":")
	return &contentRequest{model: model, account: account(r), cloud: r.PathValue("project") != ""}
}

func (c content) text() string {
	var texts []string
	for _, p := range c.Parts {
		if p.Text != "" && !p.Thought {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (q *contentRequest) request() llm.Request {
	out := llm.Request{Model: q.model}
	if c := q.ToolConfig.Calling; c != nil {
		out.ToolChoice = map[string]llm.ToolChoice{"NONE": llm.ToolsNone, "ANY": llm.ToolsRequired}[c.Mode]
		if len(c.Allowed) == 1 {
			out.ToolChoice = llm.ChooseTool(c.Allowed[0])
		}
	}
	if q.Config.Schema != nil {
		out.ResponseFormat = &llm.ResponseFormat{Schema: q.Config.Schema}
	}
	if q.System != nil {
		out.Messages = append(out.Messages, llm.Message{Role: event.RoleSystem, Content: q.System.text()})
	}
	for _, c := range q.Contents {
		reply := llm.Message{Role: event.RoleAssistant, Content: c.text()}
		for _, p := range c.Parts {
			switch {
			case p.Call != nil:
				reply.ToolCalls = append(reply.ToolCalls, event.ToolCall{ID: p.Call.ID, Function: event.Function{Name: p.Call.Name, Arguments: p.Call.arguments()}})
			case p.Response != nil:
				var text string
				raw, failed := p.Response.Response["error"]
				if !failed {
					raw = p.Response.Response["output"]
				}
				_ = json.Unmarshal(raw, &text) // other output has no text
				out.Messages = append(out.Messages, llm.Message{Role: event.RoleTool, ToolCallID: p.Response.ID, Content: text, IsError: failed})
			case c.Role == event.RoleUser:
				out.Messages = append(out.Messages, llm.Message{Role: event.RoleUser, Content: p.Text})
			}
		}
		if c.Role != event.RoleUser {
			out.Messages = append(out.Messages, reply)
		}
	}
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			out.Tools = append(out.Tools, llm.Tool{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
		}
	}
	return out
}

func (q *contentRequest) streams() bool { return true }

func (q *contentRequest) failure(f Fault) object {
	status := f.code
	if status == "" {
		status = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}[f.status]
	}
	e := object{"message": f.message, "status": status}
	if f.status != 0 {
		e["code"] = f.status
	}
	return object{"error": e}
}

func (q *contentRequest) fail(c *call) { c.json("", q.failure(c.fault)) }

func (q *contentRequest) eventName() string { return "" }

func (q *contentRequest) broken() object { return object{} }

func (q *contentRequest) whole(*call, script.Reply) object { return object{} }

func (q *contentRequest) begin(c *call, _ script.Reply) {
	if !q.cloud {
		c.w.Header().Set("X-Gemini-Service-Tier", "standard")
	}
}

func (q *contentRequest) candidate(c *call, finish string, usage object, parts ...any) {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	chunk := object{"candidates": []any{candidate}, "modelVersion": q.model, "responseId": fmt.Sprintf("response-%d", c.number)}
	if usage != nil {
		chunk["usageMetadata"] = usage
	}
	c.json("", chunk)
}

func (q *contentRequest) piece(c *call, p script.Piece) {
	if p.Thought != "" {
		q.candidate(c, "", nil, object{"text": p.Thought, "thought": true})
		return
	}
	q.candidate(c, "", nil, object{"text": p.Text})
}

func (q *contentRequest) end(c *call, reply script.Reply) {
	for i, tc := range reply.Calls {
		args := json.RawMessage(tc.Function.Arguments)
		var fields map[string]any
		if json.Unmarshal(args, &fields) != nil {
			// The model cannot write such a call in this protocol.
			q.candidate(c, "MALFORMED_FUNCTION_CALL", nil)
			return
		}
		part := object{"functionCall": object{"name": tc.Function.Name, "args": args}}
		if i == 0 {
			part["thoughtSignature"] = signed(q.model, q.account, tc.Function.Name)
		}
		q.candidate(c, "", nil, part)
	}
	usage := object{
		"promptTokenCount": reply.Usage.InputTokens, "candidatesTokenCount": reply.Usage.OutputTokens - reply.Usage.ReasoningTokens,
		"thoughtsTokenCount": reply.Usage.ReasoningTokens, "totalTokenCount": reply.Usage.InputTokens + reply.Usage.OutputTokens,
		"cachedContentTokenCount": reply.Usage.CachedTokens,
	}
	if q.cloud {
		usage["trafficType"] = "ON_DEMAND"
	}
	q.candidate(c, "STOP", usage, object{"text": ""})
}
