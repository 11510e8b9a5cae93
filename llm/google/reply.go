package google

import (
	"cmp"
	"slices"
	"strings"

	sdk "google.golang.org/genai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// reply collects the chunks of one reply.
type reply struct {
	*driver.Reply
	origin     event.Origin
	body       *quiet
	signatures signatures
	ended      bool
	continues  bool // see [driver.Continues]
}

// signatures are those of a reply's text and of its calls, by their position: the data of opaque
// parts.
type signatures struct {
	Text  []byte         `json:"text,omitempty"`
	Calls map[int][]byte `json:"calls,omitempty"`
}

// refusals are the finish reasons of models that refuse to answer.
var refusals = []sdk.FinishReason{
	sdk.FinishReasonSafety, sdk.FinishReasonRecitation, sdk.FinishReasonLanguage, sdk.FinishReasonBlocklist,
	sdk.FinishReasonProhibitedContent, sdk.FinishReasonSPII,
}

// take adds a chunk.
func (r *reply) take(c *sdk.GenerateContentResponse, e *driver.Endpoint) error {
	if f := c.PromptFeedback; f != nil && f.BlockReason != "" {
		return e.Refused(string(f.BlockReason), f.BlockReasonMessage)
	}
	if c.ModelVersion != "" {
		r.Model = c.ModelVersion
	}
	if u := c.UsageMetadata; u != nil {
		r.Tier = cmp.Or(string(u.TrafficType), r.Tier) // on Vertex AI
		r.Usage = event.Usage{
			InputTokens: int(u.PromptTokenCount + u.ToolUsePromptTokenCount), CachedTokens: int(u.CachedContentTokenCount),
			OutputTokens: int(u.CandidatesTokenCount + u.ThoughtsTokenCount), ReasoningTokens: int(u.ThoughtsTokenCount),
		}
	}
	if len(c.Candidates) == 0 || c.Candidates[0] == nil {
		return nil
	}
	candidate := c.Candidates[0]
	if candidate.Content != nil {
		for _, p := range candidate.Content.Parts {
			if err := r.part(p); err != nil {
				return err
			}
		}
	}
	switch reason := candidate.FinishReason; {
	case reason == "":
		return nil
	case slices.Contains(refusals, reason):
		return e.Refused(string(reason), candidate.FinishMessage)
	case reason == sdk.FinishReasonMalformedFunctionCall, reason == sdk.FinishReasonUnexpectedToolCall:
		return &driver.Said{Code: string(reason), Message: strings.TrimSpace("the model wrote an invalid tool call " + candidate.FinishMessage)}
	default:
		r.ended, r.FinishReason = true, cmp.Or(finishReasons[reason], string(reason))
	}
	return nil
}

func (r *reply) part(p *sdk.Part) error {
	if len(p.ThoughtSignature) > 0 && !r.Count(len(p.ThoughtSignature)) {
		return nil
	}
	switch {
	case p.FunctionCall != nil:
		if len(p.ThoughtSignature) > 0 {
			if r.signatures.Calls == nil {
				r.signatures.Calls = map[int][]byte{}
			}
			r.signatures.Calls[len(r.Calls)] = p.ThoughtSignature
		}
		arguments, err := r.body.take()
		if err != nil {
			return err
		}
		if !r.Count(len(p.FunctionCall.ID) + len(p.FunctionCall.Name) + len(arguments)) {
			return nil
		}
		r.Calls = append(r.Calls, event.ToolCall{ID: p.FunctionCall.ID, Function: event.Function{Name: p.FunctionCall.Name, Arguments: arguments}})
	case p.Thought:
		r.Think(p.Text)
	default:
		if len(p.ThoughtSignature) > 0 {
			r.signatures.Text = p.ThoughtSignature
		}
		r.Say(p.Text)
	}
	return nil
}

// finishReasons are the reasons that have another name here.
var finishReasons = map[sdk.FinishReason]string{sdk.FinishReasonStop: llm.FinishStop, sdk.FinishReasonMaxTokens: llm.FinishLength}

// finish completes the reply.
func (r *reply) finish() error {
	switch {
	case !r.ended:
		return driver.ErrBrokenOff
	case !r.Answered() && !r.continues && r.FinishReason != llm.FinishLength:
		return driver.ErrNoAnswer
	}
	if len(r.Calls) > 0 && r.FinishReason == llm.FinishStop {
		r.FinishReason = llm.FinishToolCalls
	}
	if r.signatures.Text == nil && r.signatures.Calls == nil {
		return nil
	}
	return r.Seal(r.origin, r.signatures)
}
