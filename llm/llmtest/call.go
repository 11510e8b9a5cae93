package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

type object = map[string]any

// call is one call of the server.
type call struct {
	*Server
	number int
	fault  Fault
	gate   *Gate

	w       http.ResponseWriter
	r       *http.Request
	request wireRequest
	written int // chunks of text and reasoning
}

type wireRequest struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	Messages      []wireMessage `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string         `json:"id"`
		Function event.Function `json:"function"`
	} `json:"tool_calls"`
}

type wirePart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (q wireRequest) request() llm.Request {
	out := llm.Request{Model: q.Model}
	for _, m := range q.Messages {
		msg := llm.Message{Role: m.Role, Content: contentText(m.Content), ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			msg.ToolCalls = append(msg.ToolCalls, event.ToolCall{ID: c.ID, Function: c.Function})
		}
		out.Messages = append(out.Messages, msg)
	}
	return out
}

// contentText returns the text of a content, which is a string or a list of parts, one line each.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []wirePart
	_ = json.Unmarshal(raw, &parts) // any other content has no text
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}

// gone is the panic that ends a call whose client or server is gone, or that a fault ended.
type gone struct{}

func (c *call) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(gone); !ok {
				panic(v)
			}
		}
	}()
	c.w, c.r = w, r
	if err := json.Unmarshal(body, &c.request); err != nil || c.request.Model == "" {
		c.fault = invalid("the body is not a request with a model")
	} else {
		c.check(c.number, c.request.request().Messages)
		if problem := c.request.problem(); problem != "" && c.fault.kind != answer {
			c.fault = invalid(problem)
		}
	}
	if c.fault.kind == answer {
		c.refuse()
		return
	}
	reply := script.Run(c.scripted(c.request.request()), true)
	for i := range reply.Calls { // unique even if two agents send the same request
		reply.Calls[i].ID += fmt.Sprintf("_%d", c.number)
	}
	if c.request.Stream && !c.config.NoStream {
		c.stream(reply)
		return
	}
	c.whole(reply)
}

// scripted returns the request with [Config].Script applied to the last user message.
func (c *call) scripted(req llm.Request) llm.Request {
	if c.config.Script == nil {
		return req
	}
	todo := c.config.Script(req)
	for i := len(req.Messages) - 1; i >= 0 && todo != ""; i-- {
		if req.Messages[i].Role == event.RoleUser {
			req.Messages[i].Content = todo
			break
		}
	}
	return req
}

func (c *call) refuse() {
	for name, values := range c.fault.header {
		c.w.Header()[name] = values
	}
	c.writeJSON(c.fault.status, object{"error": c.errorObject()})
}

func (c *call) errorObject() object {
	e := object{"message": c.fault.message, "type": "error", "param": nil, "code": nil}
	if c.fault.code != "" {
		e["code"] = c.fault.code
	}
	return e
}

func (c *call) writeJSON(status int, body any) {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_ = json.NewEncoder(c.w).Encode(body) // the client may be gone
}

// pass waits at the gate and applies the fault, if the call has written enough chunks.
func (c *call) pass() {
	if g := c.gate; g != nil && c.written >= g.after {
		c.gate = nil
		close(g.reached)
		c.wait(g.open)
	}
	if c.fault.kind != none && c.written >= c.fault.after {
		c.fail()
	}
}

func (c *call) wait(ready <-chan struct{}) {
	select {
	case <-ready:
	case <-c.r.Context().Done():
		panic(gone{})
	case <-c.closed:
		panic(http.ErrAbortHandler)
	}
}

func (c *call) fail() {
	whole := !c.request.Stream || c.config.NoStream
	switch c.fault.kind {
	case drop:
		panic(http.ErrAbortHandler)
	case hang:
		c.wait(nil)
	case endEarly:
		if whole {
			c.writeJSON(http.StatusOK, object{"object": "chat.completion", "choices": []any{}})
		}
	case malformed:
		if whole {
			_, _ = c.w.Write([]byte(`{"choices": [`))
		} else {
			c.event(`{"choices": [`)
		}
	case streamError:
		if whole {
			c.writeJSON(http.StatusOK, object{"error": c.errorObject()})
		} else {
			c.json(object{"error": c.errorObject()})
		}
	case none, answer:
		return
	}
	panic(gone{})
}

// event writes one event of a stream.
func (c *call) event(data string) {
	if _, err := fmt.Fprintf(c.w, "data: %s\n\n", data); err != nil {
		panic(gone{})
	}
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		panic(gone{})
	}
}

func (c *call) json(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	c.event(string(data))
}

func (c *call) delta(delta object, finish any) {
	c.json(c.envelope("chat.completion.chunk", object{"choices": []any{
		object{"index": 0, "delta": delta, "finish_reason": finish},
	}}))
}

func (c *call) envelope(kind string, fields object) object {
	fields["id"] = fmt.Sprintf("chatcmpl-%d", c.number)
	fields["object"] = kind
	fields["created"] = time.Now().Unix()
	fields["model"] = c.request.Model
	return fields
}

func (c *call) stream(reply script.Reply) {
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.delta(object{"role": "assistant", "content": ""}, nil)
	for _, p := range reply.Pieces {
		c.pass()
		c.pause(p.Wait + c.config.Delay)
		c.record(Chunk{Call: c.number, Text: p.Text, Thought: p.Thought, At: time.Now()})
		if p.Thought != "" {
			c.delta(object{c.config.ReasoningField: p.Thought}, nil)
		} else {
			c.delta(object{"content": p.Text}, nil)
		}
		c.written++
	}
	c.pass()
	for i, tc := range reply.Calls {
		c.streamCall(i, tc)
	}
	c.delta(object{}, finishReason(reply))
	if c.request.StreamOptions.IncludeUsage {
		c.json(c.envelope("chat.completion.chunk", object{"choices": []any{}, "usage": usageObject(reply.Usage)}))
	}
	c.event("[DONE]")
}

func (c *call) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	ready := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(ready) })
	defer timer.Stop()
	c.wait(ready)
}

// streamCall streams a tool call in three pieces.
func (c *call) streamCall(index int, tc event.ToolCall) {
	args := tc.Function.Arguments
	half := len(args) / 2
	for half > 0 && args[half]&0xC0 == 0x80 { // not within a rune
		half--
	}
	for i, piece := range []string{"", args[:half], args[half:]} {
		function := object{"arguments": piece}
		out := object{"function": function}
		if i == 0 || c.config.Sloppy {
			function["name"] = tc.Function.Name
		}
		if !c.config.Sloppy {
			out["index"] = index
			if i == 0 {
				out["id"], out["type"] = tc.ID, "function"
			}
		}
		c.delta(object{"tool_calls": []any{out}}, nil)
	}
}

func (c *call) whole(reply script.Reply) {
	c.pass()
	var text, thought strings.Builder
	for _, p := range reply.Pieces {
		c.pause(p.Wait)
		text.WriteString(p.Text)
		thought.WriteString(p.Thought)
	}
	c.written = len(reply.Pieces)
	c.pass()
	message := object{"role": "assistant", "content": text.String()}
	if thought.Len() > 0 {
		message[c.config.ReasoningField] = thought.String()
	}
	if len(reply.Calls) > 0 {
		var calls []any
		for _, tc := range reply.Calls {
			calls = append(calls, object{"id": tc.ID, "type": "function", "function": tc.Function})
		}
		message["tool_calls"] = calls
	}
	c.writeJSON(http.StatusOK, c.envelope("chat.completion", object{
		"choices": []any{object{"index": 0, "message": message, "finish_reason": finishReason(reply)}},
		"usage":   usageObject(reply.Usage),
	}))
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
		"prompt_tokens_details":     object{"cached_tokens": u.CachedTokens},
		"completion_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
	}
}
