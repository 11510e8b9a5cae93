package llmtest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/threadmill/threadmill/event"
)

var functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// problem returns the reason why Google rejects the request, or "".
func (q *contentRequest) problem() string {
	if len(q.Contents) == 0 {
		return "contents is not specified"
	}
	if problem := cmp.Or(q.toolsProblem(), q.thinkingProblem(), q.formProblem()); problem != "" {
		return problem
	}
	if q.System != nil && q.System.text() == "" {
		return "system_instruction.parts: contents.parts must not be empty."
	}
	role := event.RoleUser
	var calls []string
	for i, c := range q.Contents {
		if c.Role != role {
			return fmt.Sprintf("contents[%d].role: please use alternating user and model roles, beginning with user", i)
		}
		if problem := c.problem(&calls); problem != "" {
			return fmt.Sprintf("contents[%d]%s", i, problem)
		}
		role = map[string]string{event.RoleUser: "model", "model": event.RoleUser}[role]
	}
	if role == event.RoleUser {
		return "contents: the last content must be of the user"
	}
	return q.signatureProblem()
}

func (q *contentRequest) toolsProblem() string {
	declared := map[string]bool{}
	for _, t := range q.Tools {
		for i, f := range t.Functions {
			at := fmt.Sprintf("tools[0].function_declarations[%d]", i)
			switch {
			case !functionName.MatchString(f.Name):
				return fmt.Sprintf("%s.name: invalid function name %q", at, f.Name)
			case declared[f.Name]:
				return "Duplicate function declaration found: " + f.Name
			}
			if problem := googleSchemas.problem(f.Parameters); f.Parameters != nil && problem != "" {
				return at + ".parameters_json_schema: " + problem
			}
			declared[f.Name] = true
		}
	}
	return ""
}

// formProblem returns why Google rejects what the request wants of the form of the reply, or "".
func (q *contentRequest) formProblem() string {
	if c := q.ToolConfig.Calling; c != nil {
		switch {
		case !slices.Contains([]string{"AUTO", "ANY", "NONE"}, c.Mode):
			return fmt.Sprintf("Invalid value at 'tool_config.function_calling_config.mode', %q", c.Mode)
		case len(q.Tools) == 0:
			return "Function calling config is set without function_declarations."
		case len(c.Allowed) > 0 && c.Mode != "ANY":
			return "Allowed function names should only be set when the mode is ANY."
		}
		for _, name := range c.Allowed {
			if !q.declares(name) {
				return fmt.Sprintf("Allowed function name %q is not in function_declarations.", name)
			}
		}
	}
	switch {
	case q.Config.Schema == nil:
	case q.Config.MediaType != "application/json":
		return "generation_config.response_json_schema: a response schema needs the response_mime_type application/json"
	default:
		if problem := googleSchemas.problem(q.Config.Schema); problem != "" {
			return "generation_config.response_json_schema: " + problem
		}
	}
	return ""
}

func (q *contentRequest) declares(name string) bool {
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			if f.Name == name {
				return true
			}
		}
	}
	return false
}

// plainGemini matches the models without thoughts, and budgetGemini those that know no levels.
var (
	plainGemini  = regexp.MustCompile(`^gemini-(1|2\.0)`)
	budgetGemini = regexp.MustCompile(`^gemini-2\.5`)
)

func (q *contentRequest) thinkingProblem() string {
	t := q.Config.Thinking
	switch {
	case t == nil:
	case plainGemini.MatchString(q.model):
		return "Thinking is not supported for this model."
	case t.Budget != nil && t.Level != "":
		return "You can only set only one of thinking budget and thinking level."
	case t.Level != "" && budgetGemini.MatchString(q.model):
		return "Thinking level is not supported for this model."
	case t.Level != "" && !slices.Contains([]string{"MINIMAL", "LOW", "MEDIUM", "HIGH"}, t.Level):
		return fmt.Sprintf("Invalid value at 'generation_config.thinking_config.thinking_level', %q", t.Level)
	}
	return ""
}

// problem validates a content against the function calls of the one before it, and collects its own.
func (c content) problem(calls *[]string) string {
	if len(c.Parts) == 0 {
		return ".parts: must not be empty"
	}
	var responses, own []string
	for i, p := range c.Parts {
		switch {
		case p.Response != nil && c.Role == event.RoleUser:
			responses = append(responses, p.Response.Name)
		case p.Call != nil && c.Role == "model":
			if !functionName.MatchString(p.Call.Name) {
				return fmt.Sprintf(".parts[%d].function_call: needs a valid name", i)
			}
			own = append(own, p.Call.Name)
		case p.Call != nil || p.Response != nil:
			return fmt.Sprintf(".parts[%d]: function calls are of the model, and responses of the user", i)
		case p.Text == "" && p.Signature == "":
			return fmt.Sprintf(".parts[%d].data: required oneof field 'data' must have one initialized field", i)
		}
	}
	if fmt.Sprint(responses) != fmt.Sprint(*calls) {
		return ": please ensure that the function response parts are those of the function call parts of the function call turn"
	}
	*calls = own
	return ""
}

// anySignature are the values that Google documents for calls without a signature.
var anySignature = map[string]bool{
	"skip_thought_signature_validator":             true,
	"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=": true,
}

// oldGemini matches the models that do not require signatures.
var oldGemini = regexp.MustCompile(`^gemini-[12]`)

// signatureProblem: in the turn that is going on, the first call of each reply has a signature, and
// every signature is the model's own.
func (q *contentRequest) signatureProblem() string {
	for i := len(q.Contents) - 1; i >= 0; i-- {
		c := q.Contents[i]
		if c.Role == event.RoleUser {
			if c.text() != "" {
				return ""
			}
			continue
		}
		first := true
		for _, p := range c.Parts {
			if p.Call == nil {
				continue
			}
			valid := p.Signature == signed(q.model, q.account, p.Call.Name) || anySignature[p.Signature]
			if first && p.Signature == "" && !oldGemini.MatchString(q.model) {
				return "Function call is missing a thought_signature in functionCall parts: " + p.Call.Name
			}
			if p.Signature != "" && !valid {
				return "Invalid thought signature of " + p.Call.Name
			}
			first = false
		}
	}
	return ""
}
