package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/llm"
)

const formatType = "json_schema"

// toolChoice is OpenAI's tool_choice: a word, or an object that names a tool.
type toolChoice struct {
	choice  llm.ToolChoice
	given   bool
	nested  bool // the name is in function, as in Chat Completions
	invalid string
}

func (c *toolChoice) UnmarshalJSON(data []byte) error {
	c.given = true
	var word string
	if json.Unmarshal(data, &word) == nil {
		switch word {
		case "auto":
		case "none", "required":
			c.choice = llm.ToolChoice(word)
		default:
			c.invalid = word
		}
		return nil
	}
	var in struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function *struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := strictly(data, &in); err != nil || in.Type != "function" || (in.Name == "") == (in.Function == nil) {
		c.invalid = string(data)
		return nil
	}
	if c.nested = in.Function != nil; c.nested {
		in.Name = in.Function.Name
	}
	c.choice = llm.ChooseTool(in.Name)
	return nil
}

// problem returns why OpenAI rejects the choice, or "". flat means the form of the Responses API.
func (c *toolChoice) problem(tools []string, flat bool) string {
	name := c.choice.Tool()
	switch {
	case c.invalid != "" || name != "" && c.nested == flat:
		return fmt.Sprintf("Invalid value for 'tool_choice': %s", c.invalid)
	case c.given && len(tools) == 0:
		return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
	case name != "" && !slices.Contains(tools, name):
		return fmt.Sprintf("Tool choice '%s' not found in 'tools' parameter.", name)
	}
	return ""
}

// openAIFormat is the schema of a reply.
type openAIFormat struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

func (f *openAIFormat) format() *llm.ResponseFormat {
	return &llm.ResponseFormat{Name: f.Name, Schema: f.Schema}
}

// problem returns why OpenAI rejects the format, or "".
func (f *openAIFormat) problem(at string) string {
	if !toolName.MatchString(f.Name) {
		return fmt.Sprintf("Invalid '%s.name': %q must be 1 to 64 letters, digits, _ and -", at, f.Name)
	}
	if !f.Strict {
		return fmt.Sprintf("'%s.strict' must be true: otherwise the reply need not have the form", at) // a rule of the suite
	}
	if problem := closedProblem(f.Schema, true); problem != "" {
		return fmt.Sprintf("Invalid schema for response_format '%s': %s", f.Name, problem)
	}
	return ""
}

// closedProblem returns why a schema is not one of a reply, or "": its objects have no other properties than those that it names,
// and require is set if they must have all of them.
func closedProblem(schema json.RawMessage, require bool) string {
	if !isObjectSchema(schema) {
		return "schema must be a JSON Schema of 'type: \"object\"'"
	}
	var root any
	_ = json.Unmarshal(schema, &root) // it is an object
	return openPart(root, require)
}

func openPart(part any, require bool) string {
	switch s := part.(type) {
	case map[string]any:
		if s["type"] == "object" {
			if s["additionalProperties"] != false {
				return "'additionalProperties' is required to be supplied and to be false."
			}
			required, _ := s["required"].([]any)
			properties, _ := s["properties"].(map[string]any)
			for name := range properties {
				if require && !slices.Contains(required, any(name)) {
					return fmt.Sprintf("'required' is required to be supplied and to be an array including every key in properties. Missing '%s'.", name)
				}
			}
		}
		for _, one := range s {
			if problem := openPart(one, require); problem != "" {
				return problem
			}
		}
	case []any:
		for _, one := range s {
			if problem := openPart(one, require); problem != "" {
				return problem
			}
		}
	}
	return ""
}
