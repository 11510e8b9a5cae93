package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// chunk is a piece of a stream, which has a delta, or a complete reply, which has a message. Servers differ in the types of fields.
type chunk struct {
	Model   optional[string] `json:"model"`
	Tier    optional[string] `json:"service_tier"`
	Choices list[choice]     `json:"choices"`
	Usage   optional[usage]  `json:"usage"`
	Error   json.RawMessage  `json:"error"`
}

type choice struct {
	Index        number           `json:"index"`
	Delta        part             `json:"delta"`
	Message      part             `json:"message"`
	FinishReason optional[string] `json:"finish_reason"`
	Error        json.RawMessage  `json:"error"`
}

type part struct {
	Content          contents       `json:"content"`
	Refusal          text           `json:"refusal"`
	ReasoningContent text           `json:"reasoning_content"`
	Reasoning        text           `json:"reasoning"`
	ToolCalls        list[callPart] `json:"tool_calls"`
}

type callPart struct {
	Index    *number         `json:"index"`
	ID       text            `json:"id"`
	Extra    json.RawMessage `json:"extra_content"` // Google's signature of a thought
	Function struct {
		Name      text      `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	PromptTokens     number `json:"prompt_tokens"`
	CompletionTokens number `json:"completion_tokens"`
	CacheHitTokens   number `json:"prompt_cache_hit_tokens"` // DeepSeek's name
	PromptDetails    optional[struct {
		CachedTokens     number `json:"cached_tokens"`
		CacheWriteTokens number `json:"cache_write_tokens"`
	}] `json:"prompt_tokens_details"`
	CompletionDetails optional[struct {
		ReasoningTokens number `json:"reasoning_tokens"`
	}] `json:"completion_tokens_details"`
}

// reply collects the chunks of one reply.
type reply struct {
	*driver.Reply
	calls  calls
	chosen bool // a choice has arrived, so this is a reply

	text, thought halves

	// reasoning is the thought that came as reasoning_content.
	reasoning strings.Builder
}

func (r *reply) empty() bool { return r.Silent() && len(r.calls.list) == 0 }

// failedEnds are reasons for the end of a reply that is none: those of vLLM, Zhipu and DeepSeek among others.
var failedEnds = []string{"abort", "error", "network_error", "insufficient_system_resource"}

// take adds a chunk of JSON.
func (r *reply) take(raw []byte) error {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return &driver.Unreadable{Err: err}
	}
	if e := readError(c.Error); e != nil {
		return e
	}
	if len(c.Choices) == 0 && !r.chosen {
		if e := readVendorError(raw); e != nil {
			return e
		}
	}
	r.Model, r.Tier = cmp.Or(c.Model.value, r.Model), cmp.Or(c.Tier.value, r.Tier)
	if u := c.Usage.value; c.Usage.given {
		r.Usage = event.Usage{
			InputTokens: int(u.PromptTokens), OutputTokens: int(u.CompletionTokens),
			ReasoningTokens: int(u.CompletionDetails.value.ReasoningTokens),
			CachedTokens:    int(max(u.PromptDetails.value.CachedTokens, u.CacheHitTokens)), CacheWriteTokens: int(u.PromptDetails.value.CacheWriteTokens),
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
		if end := ch.FinishReason.value; slices.Contains(failedEnds, end) {
			return &driver.Said{Message: "the server ended the reply with " + end}
		} else if end != "" {
			r.FinishReason = end
		}
	}
	return nil
}

func (r *reply) part(p part) {
	r.reasoning.WriteString(string(p.ReasoningContent))
	r.Think(r.thought.add(string(cmp.Or(p.ReasoningContent, p.Reasoning, p.Content.thought))))
	r.Say(r.text.add(string(p.Content.text)))
	r.Say(r.text.add(string(p.Refusal)))
	for _, c := range p.ToolCalls {
		if r.Count(len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)) {
			r.calls.add(c)
		}
	}
}

// finish adds what is left of the pieces.
func (r *reply) finish() {
	r.Think(r.thought.end())
	r.Say(r.text.end())
	r.Calls = r.calls.finish()
}

// kept is what came with the calls of a reply and goes back with them, for the model that wrote it.
type kept struct {
	Reasoning string            `json:"reasoning_content,omitempty"`
	Extra     []json.RawMessage `json:"extra_content,omitempty"` // of each call, null for one without
}

// seal keeps what goes back with the calls of the reply.
func (r *reply) seal(origin event.Origin, thoughts bool) error {
	var k kept
	if thoughts {
		k.Reasoning = r.reasoning.String()
	}
	for i, call := range r.calls.list {
		if call.extra != nil {
			k.Extra = append(k.Extra, make([]json.RawMessage, i+1-len(k.Extra))...)
			k.Extra[i] = call.extra
		}
	}
	if len(r.calls.list) == 0 || k.Reasoning == "" && k.Extra == nil {
		return nil
	}
	return r.Seal(origin, k)
}
