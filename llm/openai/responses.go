package openai

import (
	"context"
	"fmt"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// Responses calls the models of one server by the Responses API. It is safe for concurrent use.
type Responses struct{ Provider }

var _ llm.Provider = (*Responses)(nil)

// NewResponses returns a driver for the Responses API. It does not connect to the server.
func NewResponses(config Config) (*Responses, error) {
	switch config.Summary {
	case "":
		config.Summary = "auto"
	case "auto", "concise", "detailed", SummaryOff:
	default:
		return nil, fmt.Errorf("openai: Summary: %q must be auto, concise, detailed or off", config.Summary)
	}
	p, err := New(config)
	if err != nil {
		return nil, err
	}
	return &Responses{*p}, nil
}

// Generate calls the model. It always streams the reply, and nothing is stored at the provider.
func (p *Responses) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return p.endpoint.Generate(ctx, req, onDelta, p.send, said)
}

func (p *Responses) send(ctx context.Context, c *driver.Call) error {
	origin := p.endpoint.Origin("openai-responses", c.Request.Model)
	b := &replyBody{exchange: c.Exchange, stream: true}
	s, err := p.client.CreateResponseStream(context.WithValue(ctx, bodyKey{}, b), p.responsesRequest(c.Request, c.Names, origin))
	if err != nil {
		return err
	}
	defer s.Close()
	r := &response{Reply: c.Reply, endpoint: &p.endpoint, body: b}
	if err := driver.Receive(ctx, s.RecvRaw, r.take); err != nil {
		return err
	}
	return r.finish(origin)
}

func (p *Responses) responsesRequest(req llm.Request, names *driver.ToolNames, origin event.Origin) sdk.CreateResponseRequest {
	store := false
	out := sdk.CreateResponseRequest{Model: p.deployed(req.Model), Store: &store, Input: p.input(req, names, origin)}
	if req.MaxOutputTokens > 0 {
		out.MaxOutputTokens = max(req.MaxOutputTokens, minOutputTokens)
	}
	if req.Temperature != nil {
		t := float32(*req.Temperature)
		out.Temperature = &t
	}
	// Other models reject what is about thoughts.
	if req.ReasoningEffort != "" || thinks(req.Model) {
		out.Include = []sdk.ResponseInclude{sdk.ResponseIncludeReasoningEncryptedContent}
		out.Reasoning = &sdk.ResponseReasoning{Effort: req.ReasoningEffort}
		if p.summary != SummaryOff {
			out.Reasoning.Summary = p.summary
		}
	}
	for _, t := range req.Tools {
		// Without strict, the API would try to make the schema a strict one.
		out.Tools = append(out.Tools, sdk.ResponseTool{Type: sdk.ToolTypeFunction, Parameters: map[string]any{
			"name": names.Wire(t.Name), "description": driver.Description(t.Description), "parameters": names.Parameters(t.Name), "strict": false,
		}})
	}
	if name := req.ToolChoice.Tool(); name != "" {
		out.ToolChoice = map[string]string{"type": string(sdk.ToolTypeFunction), "name": names.Wire(name)}
	} else if req.ToolChoice != llm.ToolsAuto {
		out.ToolChoice = string(req.ToolChoice)
	}
	if f := req.ResponseFormat; f != nil {
		out.Text = &sdk.ResponseTextConfig{Format: &sdk.ResponseTextFormat{Type: "json_schema", Name: driver.FormatName(f), Schema: f.Schema, Strict: true}}
	}
	return out
}

// minOutputTokens is the smallest limit that the API accepts.
const minOutputTokens = 16
