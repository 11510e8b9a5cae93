package google

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	sdk "google.golang.org/genai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

func request(req llm.Request, names *driver.ToolNames, origin event.Origin) ([]*sdk.Content, *sdk.GenerateContentConfig) {
	system, turns := driver.Turns(req.Messages)
	config := &sdk.GenerateContentConfig{MaxOutputTokens: int32(min(req.MaxOutputTokens, 1<<30)), ThinkingConfig: thinking(req)}
	if system != "" {
		config.SystemInstruction = &sdk.Content{Parts: []*sdk.Part{{Text: system}}}
	}
	if req.Temperature != nil {
		config.Temperature = sdk.Ptr(float32(*req.Temperature))
	}
	if len(req.Tools) > 0 {
		tool := &sdk.Tool{}
		for _, t := range req.Tools {
			tool.FunctionDeclarations = append(tool.FunctionDeclarations, &sdk.FunctionDeclaration{
				Name: names.Wire(t.Name), Description: t.Description, ParametersJsonSchema: driver.Inlined(names.Parameters(t.Name)),
			})
		}
		config.Tools = []*sdk.Tool{tool}
	}
	var schema json.RawMessage
	if f := req.ResponseFormat; f != nil {
		schema = driver.Inlined(f.Schema)
		config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", schema
	}
	config.ToolConfig = choice(req.ToolChoice, names)
	var contents []*sdk.Content
	called := map[string]string{}
	for _, t := range turns {
		content := &sdk.Content{Role: sdk.RoleUser}
		if t.Model {
			content.Role = sdk.RoleModel
		}
		for _, m := range t.Messages {
			for _, c := range m.ToolCalls {
				called[c.ID] = names.Wire(c.Function.Name)
			}
			var signed signatures
			if t.Running { // earlier signatures need not be sent back
				_ = json.Unmarshal(m.Opaque.Of(origin), &signed) // nil, or the driver's own
			}
			content.Parts = append(content.Parts, parts(m, names, called, signed, t.Running && signsCalls.MatchString(req.Model))...)
		}
		contents = append(contents, content)
	}
	// The SDK decodes what it sends, which rounds integers and sorts properties. These parts are in the form of the protocol.
	config.HTTPOptions = &sdk.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
		body["contents"] = contents
		if config.Tools != nil {
			body["tools"] = config.Tools
		}
		if generation, ok := body["generationConfig"].(map[string]any); ok && schema != nil {
			generation["responseJsonSchema"] = schema
		}
		return body
	}}
	return contents, config
}

func choice(c llm.ToolChoice, names *driver.ToolNames) *sdk.ToolConfig {
	out := &sdk.FunctionCallingConfig{Mode: sdk.FunctionCallingConfigModeAny}
	switch name := c.Tool(); {
	case name != "":
		out.AllowedFunctionNames = []string{names.Wire(name)}
	case c == llm.ToolsNone:
		out.Mode = sdk.FunctionCallingConfigModeNone
	case c == llm.ToolsAuto:
		return nil
	}
	return &sdk.ToolConfig{FunctionCallingConfig: out}
}

// parts returns the content of a message. called are the names of the calls before it. If sign is
// set, the model requires a signature at the first call.
func parts(m llm.Message, names *driver.ToolNames, called map[string]string, signed signatures, sign bool) (out []*sdk.Part) {
	if m.Role == event.RoleTool {
		key := "output"
		if m.IsError {
			key = "error"
		}
		return []*sdk.Part{{FunctionResponse: &sdk.FunctionResponse{
			ID: driver.CallID(m.ToolCallID), Name: called[m.ToolCallID], Response: map[string]any{key: m.Content},
		}}}
	}
	if !driver.Blank(m.Content) {
		out = append(out, &sdk.Part{Text: m.Content, ThoughtSignature: signed.Text})
	}
	for i, c := range m.ToolCalls {
		part := &sdk.Part{ThoughtSignature: signed.Calls[i], FunctionCall: &sdk.FunctionCall{
			ID: driver.CallID(c.ID), Name: names.Wire(c.Function.Name), Args: arguments(c.Function.Arguments),
		}}
		if sign && i == 0 && part.ThoughtSignature == nil {
			part.ThoughtSignature = []byte(noSignature)
		}
		out = append(out, part)
	}
	return out
}

// noSignature is the signature that Google documents for calls that the model did not make.
const noSignature = "skip_thought_signature_validator"

// signsCalls matches the models that require signatures: all but Gemini 1 and 2.
var signsCalls = regexp.MustCompile(`^(?:models/)?(?:gemini-(?:[3-9]|\d\d)|[^g]|g[^e])`)

func arguments(s string) map[string]any {
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(driver.ObjectArguments(s)))
	d.UseNumber()
	_ = d.Decode(&out) // it is an object
	return out
}

// thinking returns the configuration of thoughts, or nil for models without them.
func thinking(req llm.Request) *sdk.ThinkingConfig {
	if !thinks.MatchString(req.Model) {
		return nil
	}
	out := &sdk.ThinkingConfig{IncludeThoughts: true}
	gemini25 := strings.Contains(req.Model, "gemini-2.5")
	switch effort := driver.ReadEffort(req.ReasoningEffort, budgets); {
	case effort.Number, gemini25 && effort.Budget > 0:
		out.ThinkingBudget = sdk.Ptr(int32(effort.Budget))
	case effort.Word != "" && !gemini25:
		out.ThinkingLevel = sdk.ThinkingLevel(strings.ToUpper(effort.Word))
	}
	return out
}

// thinks matches the models with thoughts.
var thinks = regexp.MustCompile(`gemini-(2\.5|[3-9]|\d\d)`)

// budgets are the budgets, in tokens, of models that know no level.
var budgets = map[string]int{"minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
