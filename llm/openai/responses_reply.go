package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// responseEvent is an event of a stream. The SDK's type lacks encrypted reasoning.
type responseEvent struct {
	Type        sdk.ResponseStreamEventType `json:"type"`
	OutputIndex int                         `json:"output_index"`
	Summary     int                         `json:"summary_index"`
	Delta       text                        `json:"delta"`
	Item        json.RawMessage             `json:"item"`
	Response    *struct {
		Model      string                         `json:"model"`
		Tier       optional[string]               `json:"service_tier"`
		Error      json.RawMessage                `json:"error"`
		Incomplete *sdk.ResponseIncompleteDetails `json:"incomplete_details"`
		Usage      optional[responseUsage]        `json:"usage"`
	} `json:"response"`

	// An error is here, or it is the event itself.
	Error json.RawMessage `json:"error"`
}

// responseUsage are the tokens of a reply. Servers differ in the types of fields.
type responseUsage struct {
	InputTokens  number `json:"input_tokens"`
	OutputTokens number `json:"output_tokens"`
	InputDetails optional[struct {
		CachedTokens     number `json:"cached_tokens"`
		CacheWriteTokens number `json:"cache_write_tokens"`
	}] `json:"input_tokens_details"`
	OutputDetails optional[struct {
		ReasoningTokens number `json:"reasoning_tokens"`
	}] `json:"output_tokens_details"`
}

// responseItem is an item of the output.
type responseItem struct {
	Type      string    `json:"type"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
	Encrypted string    `json:"encrypted_content"`
}

// response collects the events of one reply.
type response struct {
	*driver.Reply
	endpoint *driver.Endpoint
	body     *replyBody
	refusal  strings.Builder
	order    driver.Layout

	// streamed is the size of the arguments that have arrived in pieces.
	streamed int
	ended    bool
}

// take adds an event.
func (r *response) take(raw []byte) error {
	var e responseEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return &driver.Unreadable{Err: err}
	}
	if e.Response != nil {
		r.Model, r.Tier = cmp.Or(e.Response.Model, r.Model), cmp.Or(e.Response.Tier.value, r.Tier)
	}
	delta := string(e.Delta)
	switch e.Type {
	case sdk.ResponseStreamEventOutputItemAdded:
		return r.begin(e.Item)
	case sdk.ResponseStreamEventOutputTextDelta:
		r.Say(delta)
	case sdk.ResponseStreamEventReasoningSummaryPartAdded:
		if e.Summary > 0 {
			r.Think("\n\n")
		}
	case sdk.ResponseStreamEventReasoningSummaryTextDelta, sdk.ResponseStreamEventReasoningTextDelta:
		r.Think(delta)
	case sdk.ResponseStreamEventRefusalDelta:
		if r.Count(len(delta)) {
			r.refusal.WriteString(delta)
		}
	case sdk.ResponseStreamEventFunctionArgumentsDelta:
		r.streamed += len(delta)
		r.Count(len(delta))
	case sdk.ResponseStreamEventOutputItemDone:
		return r.item(e.Item)
	case sdk.ResponseStreamEventCompleted, sdk.ResponseStreamEventIncomplete, sdk.ResponseStreamEventFailed:
		return r.end(e)
	case sdk.ResponseStreamEventError:
		return failed(cmp.Or(string(e.Error), string(raw)))
	default:
		if e.Error != nil {
			return failed(string(e.Error))
		}
	}
	return nil
}

// begin separates the text of a further message from that before it.
func (r *response) begin(raw json.RawMessage) error {
	var item responseItem
	if err := json.Unmarshal(raw, &item); err != nil {
		return &driver.Unreadable{Err: err}
	}
	if item.Type == itemMessage {
		if r.order.HasText() {
			r.Say("\n\n")
		}
		r.order.Text()
	}
	return nil
}

// item adds a complete item of the output.
func (r *response) item(raw json.RawMessage) error {
	var item responseItem
	if err := json.Unmarshal(raw, &item); err != nil {
		return &driver.Unreadable{Err: err}
	}
	switch item.Type {
	case itemReasoning:
		if item.Encrypted != "" && r.Count(len(raw)) {
			r.order.Part(raw)
		}
	case itemCall:
		if !r.Count(len(item.CallID) + len(item.Name) + max(0, len(item.Arguments)-r.streamed)) {
			return nil
		}
		r.streamed = 0
		r.order.Call(len(r.Calls))
		r.Calls = append(r.Calls, event.ToolCall{ID: item.CallID, Function: event.Function{
			Name: item.Name, Arguments: driver.Written(string(item.Arguments)),
		}})
	}
	return nil
}

// end adds the last event.
func (r *response) end(e responseEvent) error {
	if e.Response == nil {
		return nil
	}
	r.ended, r.body.done = true, true
	if u := e.Response.Usage.value; e.Response.Usage.given {
		in := u.InputDetails.value
		r.Usage = event.Usage{
			InputTokens: int(u.InputTokens), CachedTokens: int(in.CachedTokens), CacheWriteTokens: int(in.CacheWriteTokens),
			OutputTokens: int(u.OutputTokens), ReasoningTokens: int(u.OutputDetails.value.ReasoningTokens),
		}
	}
	var reason string
	if d := e.Response.Incomplete; d != nil {
		reason = d.Reason
	}
	switch {
	case e.Type == sdk.ResponseStreamEventFailed:
		return failed(string(e.Response.Error))
	case reason == "content_filter":
		return r.endpoint.Refused(reason, r.refusal.String())
	case e.Type == sdk.ResponseStreamEventIncomplete:
		r.FinishReason = cmp.Or(incompleteReasons[reason], reason, llm.FinishLength)
	case len(r.Calls) > 0:
		r.FinishReason = llm.FinishToolCalls
	default:
		r.FinishReason = llm.FinishStop
	}
	return nil
}

// incompleteReasons are the reasons that have another name here.
var incompleteReasons = map[string]string{"max_output_tokens": llm.FinishLength}

// finish completes the reply, or says why there is none.
func (r *response) finish(origin event.Origin) error {
	switch {
	case !r.ended:
		return driver.ErrBrokenOff
	case r.refusal.Len() > 0:
		return r.endpoint.Refused("refusal", r.refusal.String())
	}
	return r.SealLayout(origin, &r.order)
}

// failed returns the error that a server describes in the middle of a stream.
func failed(raw string) error {
	e := readError(json.RawMessage(raw))
	if e == nil {
		return driver.ErrBrokenOff
	}
	if e.Status == 0 {
		e.Status = statuses[cmp.Or(e.Code, e.Kind)]
	}
	return e
}

// statuses are those of errors in the middle of a stream. Others have none.
var statuses = map[string]int{
	"server_error": 500, "rate_limit_exceeded": 429, "server_is_overloaded": 503, "slow_down": 503, "context_length_exceeded": 400,
	"invalid_prompt": 400, "invalid_encrypted_content": 400,
}
