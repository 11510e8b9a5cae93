package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// chunk is a piece of a stream, which has a delta, or a complete reply, which has a message.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int             `json:"index"`
	Delta        part            `json:"delta"`
	Message      part            `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

type part struct {
	Content          text       `json:"content"`
	Refusal          text       `json:"refusal"`
	ReasoningContent text       `json:"reasoning_content"`
	Reasoning        text       `json:"reasoning"`
	ToolCalls        []callPart `json:"tool_calls"`
}

type callPart struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	CacheHitTokens   int `json:"prompt_cache_hit_tokens"` // DeepSeek's name
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// text is a string or a list of parts, whose texts are joined.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err == nil {
		*t = text(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil //nolint:nilerr // some servers use the field for other values
	}
	for _, p := range parts {
		*t += text(p.Text)
	}
	return nil
}

// arguments is a string that contains JSON or, from some servers, the JSON value itself.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	var s string
	switch {
	case string(data) == "null":
	case data[0] == '"':
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*a = arguments(s)
	default:
		*a = arguments(data)
	}
	return nil
}

// reply collects the chunks of one reply.
type reply struct {
	*driver.Reply
	calls  calls
	chosen bool // a choice has arrived, so this is a reply
}

func (r *reply) empty() bool { return r.Silent() && len(r.calls.list) == 0 }

// take adds a chunk of JSON.
func (r *reply) take(raw []byte) error {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return &driver.Unreadable{Err: err}
	}
	if e := readError(c.Error); e != nil {
		return e
	}
	if c.Model != "" {
		r.Model = c.Model
	}
	if u := c.Usage; u != nil {
		r.Usage = event.Usage{
			InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens,
			ReasoningTokens: u.CompletionDetails.ReasoningTokens,
			CachedTokens:    max(u.PromptDetails.CachedTokens, u.CacheHitTokens),
		}
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue
		}
		if e := readError(ch.Error); e != nil {
			return e
		}
		r.chosen = true
		r.part(ch.Delta)
		r.part(ch.Message)
		if ch.FinishReason != "" {
			r.FinishReason = ch.FinishReason
		}
	}
	return nil
}

func (r *reply) part(p part) {
	r.Think(string(cmp.Or(p.ReasoningContent, p.Reasoning)))
	r.Say(string(p.Content))
	r.Say(string(p.Refusal))
	for _, c := range p.ToolCalls {
		if r.Count(len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)) {
			r.calls.add(c)
		}
	}
}

// calls assembles tool calls from their pieces.
type calls struct {
	list []*partialCall

	// byIndex and byID have the last call with an index or an id.
	byIndex map[int]*partialCall
	byID    map[string]*partialCall
}

// maxCallName is the length of a name, in bytes, from which on further pieces are ignored.
const maxCallName = 256

type partialCall struct {
	id, name  string
	arguments strings.Builder
	shape     shape
}

func (c *calls) add(p callPart) {
	call := c.find(p)
	if call == nil {
		call = &partialCall{id: p.ID, name: p.Function.Name}
		c.list = append(c.list, call)
	} else if p.Function.Name != call.name && len(call.name) <= maxCallName {
		call.name += p.Function.Name
	}
	if call.id == "" {
		call.id = p.ID
	}
	call.arguments.WriteString(string(p.Function.Arguments))
	call.shape.add(string(p.Function.Arguments))
	if c.byIndex == nil {
		c.byIndex, c.byID = map[int]*partialCall{}, map[string]*partialCall{}
	}
	if p.Index != nil {
		c.byIndex[*p.Index] = call
	}
	c.byID[call.id] = call
}

// find returns the call that a piece continues, or nil if the piece begins a new one. The protocol
// identifies calls by index, but some servers send none, or always 0.
func (c *calls) find(p callPart) *partialCall {
	var call *partialCall
	switch {
	case p.Index != nil:
		call = c.byIndex[*p.Index]
	case p.ID != "":
		return c.byID[p.ID]
	case len(c.list) > 0:
		call = c.list[len(c.list)-1]
	}
	if call == nil || call.ended(p) {
		return nil
	}
	return call
}

// ended reports whether p begins another call at the position of call: it has a different id, or it
// names a function after call has complete arguments, or has begun its arguments under a different
// name.
func (call *partialCall) ended(p callPart) bool {
	if p.ID != "" && call.id != "" {
		return p.ID != call.id
	}
	if p.Function.Name == "" {
		return false
	}
	if p.Function.Name != call.name && (call.arguments.Len() > 0 || p.Index == nil) && call.name != "" {
		return true
	}
	return call.shape.complete()
}

// shape follows the brackets of JSON that arrives in pieces.
type shape struct {
	depth           int
	begun           bool
	inText, escaped bool
}

func (s *shape) add(piece string) {
	for i := range len(piece) {
		switch b := piece[i]; {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped, s.inText = b == '\\', b != '"'
		case b == '"':
			s.inText = true
		case b == '{' || b == '[':
			s.depth++
			s.begun = true
		case b == '}' || b == ']':
			s.depth--
		}
	}
}

// complete reports whether all brackets are closed.
func (s *shape) complete() bool { return s.begun && s.depth <= 0 && !s.inText }

func (c *calls) finish() []event.ToolCall {
	var out []event.ToolCall
	for _, p := range c.list {
		args := p.arguments.String()
		if p.name == "" {
			call := llm.NewInvalidCall(fmt.Sprintf("tool call %d has no name", len(out)+1), args)
			call.ID = p.id
			out = append(out, call)
			continue
		}
		out = append(out, event.ToolCall{ID: p.id, Function: event.Function{Name: p.name, Arguments: driver.Written(args)}})
	}
	return out
}
