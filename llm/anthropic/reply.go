package anthropic

import (
	"cmp"
	"errors"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// reply collects the events of one reply.
type reply struct {
	*driver.Reply
	origin event.Origin
	blocks []*replyBlock
	reason sdk.StopReason
	why    sdk.RefusalStopDetails
	ended  bool

	// continues means that the reply follows results of tools.
	continues bool
}

// replyBlock is a block of the reply. redacted is the data of a redacted thought.
type replyBlock struct {
	kind, id, name, redacted     string
	thought, signature, argument strings.Builder
}

// take adds an event.
func (r *reply) take(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "error", "message", "": // a message is not an event of a stream, and gateways report errors in any form
		return readError(e.RawJSON())
	case "message_start":
		u := e.Message.Usage
		r.Model, r.Tier = string(e.Message.Model), string(u.ServiceTier)
		r.Usage.CacheWriteHourTokens = int(u.CacheCreation.Ephemeral1hInputTokens)
		r.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	case "content_block_start":
		b := e.ContentBlock
		if !r.Count(len(b.ID) + len(b.Name) + len(b.Data) + len(b.Signature)) {
			return nil
		}
		begun := &replyBlock{kind: b.Type, id: b.ID, name: b.Name, redacted: b.Data}
		r.blocks = append(r.blocks, begun)
		begun.thought.WriteString(b.Thinking)
		begun.signature.WriteString(b.Signature)
		r.Think(b.Thinking)
		r.Say(b.Text)
	case "content_block_delta":
		if e.Index < 0 || int(e.Index) >= len(r.blocks) {
			return &driver.Unreadable{Err: errNoBlock}
		}
		r.delta(r.blocks[e.Index], e.Delta)
	case "message_delta":
		r.reason, r.why = e.Delta.StopReason, e.Delta.StopDetails
		u := e.Usage
		if u.JSON.InputTokens.Valid() {
			r.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
		}
		r.Usage.OutputTokens, r.Usage.ReasoningTokens = int(u.OutputTokens), int(u.OutputTokensDetails.ThinkingTokens)
	case "message_stop":
		r.ended = true
	}
	return nil
}

// count counts the tokens of the request, in which Anthropic does not include those of the cache.
func (r *reply) count(input, read, written int64) {
	r.Usage.InputTokens, r.Usage.CachedTokens, r.Usage.CacheWriteTokens = int(input+read+written), int(read), int(written)
}

func (r *reply) delta(b *replyBlock, d sdk.MessageStreamEventUnionDelta) {
	switch d.Type {
	case "text_delta":
		r.Say(d.Text)
	case "thinking_delta":
		b.thought.WriteString(d.Thinking)
		r.Think(d.Thinking)
	case "signature_delta":
		if r.Count(len(d.Signature)) {
			b.signature.WriteString(d.Signature)
		}
	case "input_json_delta":
		if r.Count(len(d.PartialJSON)) {
			b.argument.WriteString(d.PartialJSON)
		}
	}
}

// finish completes the reply, or says why there is none.
func (r *reply) finish(e *driver.Endpoint) error {
	switch {
	case !r.ended:
		return driver.ErrBrokenOff
	case r.reason == sdk.StopReasonRefusal:
		return e.Refused(cmp.Or(string(r.why.Category), "refusal"), r.why.Explanation)
	}
	r.FinishReason = cmp.Or(finishReasons[r.reason], string(r.reason))
	var order driver.Layout
	for _, b := range r.blocks {
		switch b.kind {
		case "thinking":
			order.Part(thought{Type: b.kind, Thinking: b.thought.String(), Signature: b.signature.String()})
		case "redacted_thinking":
			order.Part(thought{Type: b.kind, Data: b.redacted})
		case "text":
			order.Text()
		case "tool_use":
			order.Call(len(r.Calls))
			r.Calls = append(r.Calls, event.ToolCall{ID: b.id, Function: event.Function{Name: b.name, Arguments: driver.Written(b.argument.String())}})
		}
	}
	// After results, Claude ends a turn with nothing if it has nothing to add.
	if !r.Answered() && !r.continues && r.FinishReason == llm.FinishStop {
		return driver.ErrNoAnswer
	}
	return r.SealLayout(r.origin, &order)
}

// thought is a thinking block, or a redacted one, as the API wants it back.
type thought struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`
}

// finishReasons are the reasons that have another name here.
var finishReasons = map[sdk.StopReason]string{
	sdk.StopReasonEndTurn: llm.FinishStop, sdk.StopReasonStopSequence: llm.FinishStop, sdk.StopReasonToolUse: llm.FinishToolCalls,
	sdk.StopReasonMaxTokens: llm.FinishLength, sdk.StopReasonModelContextWindowExceeded: llm.FinishLength,
}

var errNoBlock = errors.New("a piece belongs to no block")
