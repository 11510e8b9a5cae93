package anthropic

import (
	"encoding/json"
	"regexp"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

func (p *Provider) params(req llm.Request, names *driver.ToolNames, origin event.Origin) sdk.MessageNewParams {
	system, turns := driver.Turns(req.Messages)
	out := sdk.MessageNewParams{Model: sdk.Model(req.Model), MaxTokens: int64(p.limit(req))}
	if system != "" {
		out.System = []sdk.TextBlockParam{{Text: system}}
	}
	for _, t := range req.Tools {
		tool := sdk.ToolParam{Name: names.Wire(t.Name), InputSchema: param.Override[sdk.ToolInputSchemaParam](names.Parameters(t.Name))}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	signed := true
	for _, t := range turns {
		var content []sdk.ContentBlockParamUnion
		for _, m := range t.Messages {
			var opaque json.RawMessage
			if t.Running {
				// Earlier thoughts need not be sent back.
				opaque = m.Opaque.Of(origin)
			}
			signed = signed && (!t.Model || !t.Running || opaque != nil)
			content = append(content, blocks(m, names, opaque)...)
			if m.Shared {
				p.mark(content)
			}
		}
		role := sdk.MessageParamRoleUser
		if t.Model {
			role = sdk.MessageParamRoleAssistant
		}
		out.Messages = append(out.Messages, sdk.MessageParam{Role: role, Content: content})
	}
	if len(out.Messages) > 0 {
		p.mark(out.Messages[len(out.Messages)-1].Content)
	}
	if f := req.ResponseFormat; f != nil {
		out.OutputConfig.Format = param.Override[sdk.JSONOutputFormatParam](map[string]any{"type": "json_schema", "schema": f.Schema})
	}
	out.ToolChoice = choice(req.ToolChoice, names)
	think(&out, req, signed)
	return out
}

func choice(c llm.ToolChoice, names *driver.ToolNames) (out sdk.ToolChoiceUnionParam) {
	switch name := c.Tool(); {
	case name != "":
		return sdk.ToolChoiceParamOfTool(names.Wire(name))
	case c == llm.ToolsRequired:
		out.OfAny = &sdk.ToolChoiceAnyParam{}
	case c == llm.ToolsNone:
		out.OfNone = &sdk.ToolChoiceNoneParam{}
	}
	return out
}

// mark asks for the cache of the conversation up to the last of these blocks. The clouds know no other way.
func (p *Provider) mark(content []sdk.ContentBlockParamUnion) {
	if p.cache == "off" || len(content) == 0 {
		return
	}
	if at := content[len(content)-1].GetCacheControl(); at != nil {
		*at = sdk.CacheControlEphemeralParam{TTL: sdk.CacheControlEphemeralTTL(p.cache)}
	}
}

// think turns thoughts on. With a budget, all replies of the turn must begin with a thought of the
// model, so a turn that another model has begun continues without thoughts.
func think(out *sdk.MessageNewParams, req llm.Request, signed bool) {
	effort := driver.ReadEffort(req.ReasoningEffort, budgets)
	switch {
	case req.ReasoningEffort == "":
	case !effort.Number && !budgetModel.MatchString(req.Model):
		out.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}}
		out.OutputConfig.Effort = sdk.OutputConfigEffort(effort.Word)
		return
	case signed:
		const least = 1024
		budget := max(effort.Budget, least)
		out.Thinking = sdk.ThinkingConfigParamOfEnabled(int64(budget))
		if out.MaxTokens <= int64(budget) {
			out.MaxTokens += int64(budget) // the budget is part of the limit
		}
		return
	}
	if req.Temperature != nil {
		out.Temperature = sdk.Float(*req.Temperature)
	}
}

// budgets are the budgets, in tokens, of models that know no effort.
var budgets = map[string]int{"low": 2048, "medium": 8192, "high": 24576, "xhigh": 31999, "max": 31999}

// budgetModel matches the models that know no effort: all before Claude 4.6.
var budgetModel = regexp.MustCompile(`claude-(3|(opus|sonnet|haiku)-4(-[0-5])?(-\d{6,}|@|$))`)

// limit returns the limit of a reply's tokens.
func (p *Provider) limit(req llm.Request) int {
	switch {
	case req.MaxOutputTokens > 0:
		return req.MaxOutputTokens
	case p.maxTokens > 0:
		return p.maxTokens
	case strings.Contains(req.Model, "claude-3-5"):
		return 8192
	case claude3.MatchString(req.Model):
		return 4096
	}
	return 32000
}

var claude3 = regexp.MustCompile(`claude-3-(opus|sonnet|haiku)`)

// blocks returns the content of a message, with the thoughts in opaque.
func blocks(m llm.Message, names *driver.ToolNames, opaque json.RawMessage) []sdk.ContentBlockParamUnion {
	switch m.Role {
	case event.RoleTool:
		// Anthropic rejects errors without a text.
		result := sdk.ToolResultBlockParam{
			ToolUseID: driver.CallID(m.ToolCallID), IsError: sdk.Bool(m.IsError),
			Content: []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: driver.Output(m.Content)}}},
		}
		return []sdk.ContentBlockParamUnion{{OfToolResult: &result}}
	case event.RoleAssistant:
		return assistant(m, names, opaque)
	}
	return []sdk.ContentBlockParamUnion{sdk.NewTextBlock(m.Content)}
}

func assistant(m llm.Message, names *driver.ToolNames, opaque json.RawMessage) (out []sdk.ContentBlockParamUnion) {
	add := func(block sdk.ContentBlockParamUnion) { out = append(out, block) }
	driver.Assistant{
		Text: func(text string) { add(sdk.NewTextBlock(text)) },
		Call: func(c event.ToolCall) {
			add(sdk.NewToolUseBlock(driver.CallID(c.ID), driver.ObjectArguments(c.Function.Arguments), names.Wire(c.Function.Name)))
		},
		Part: func(part json.RawMessage) { add(thinking(part)) },
	}.Walk(m, opaque)
	return out
}

func thinking(raw json.RawMessage) sdk.ContentBlockParamUnion {
	var in thought
	_ = json.Unmarshal(raw, &in) // the driver's own
	if in.Type == "redacted_thinking" {
		return sdk.NewRedactedThinkingBlock(in.Data)
	}
	return sdk.NewThinkingBlock(in.Signature, in.Thinking)
}
