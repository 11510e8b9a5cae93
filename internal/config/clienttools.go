package config

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/tool"
)

var clientToolFields = []string{"name", "description", "parameters", "deadline", "needsApproval", "approvalReason", "pathArguments"}

// maxClientDeadline is the bound of package tool, which a test compares.
const maxClientDeadline = 365 * 24 * time.Hour

// clientTools reads tools of connected clients: one, or a list of them. Agents may then have
// them.
func (f field) clientTools() []tool.Definition {
	items := []value{f.value}
	if _, one := f.doc.resolve(f.node).(*ast.MappingNode); !one {
		items = f.items()
	}
	var tools []tool.Definition
	for _, item := range items {
		before := len(f.doc.errs)
		d := item.clientTool()
		if d.Name == "" {
			if len(f.doc.errs) == before {
				item.missing("name", "is missing: every tool needs one")
			}
			continue
		}
		if slices.ContainsFunc(f.doc.tools, func(name string) bool { return strings.EqualFold(name, d.Name) }) {
			path := item.path + ".name"
			f.doc.fail(f.doc.placeOf(path), path, "there is a tool %q already (upper and lower case do not differ): choose another name", d.Name)
			continue
		}
		f.doc.tools = append(f.doc.tools, d.Name)
		tools = append(tools, d)
	}
	return tools
}

func (v value) clientTool() tool.Definition {
	d := tool.Definition{Client: true}
	var paths *field
	for _, f := range v.fields(clientToolFields...) {
		switch f.key {
		case "name":
			d.Name, _ = f.toolName()
		case "description":
			d.Description, _ = f.text()
		case "parameters":
			d.Parameters = f.parameters()
		case "deadline":
			d.Deadline, _ = f.duration(0, maxClientDeadline, byDefault(tool.DefaultDeadline))
		case "needsApproval":
			d.NeedsApproval, _ = f.boolean()
		case "approvalReason":
			d.ApprovalReason, _ = f.text()
		case "pathArguments":
			paths = &f
		}
	}
	if paths != nil {
		d.PathArguments = paths.pathArguments(d.Parameters)
	}
	return d
}

func (f field) toolName() (string, bool) {
	s, ok := f.word()
	if !ok {
		return "", false
	}
	if (tool.Definition{Name: s}).Validate() != nil {
		f.fail("%q: use 1 to 64 letters, digits, _ and -", s)
		return "", false
	}
	return s, true
}

// parameters reads a JSON Schema, which is YAML as well.
func (f field) parameters() json.RawMessage {
	if f.kind() != "a mapping" {
		f.fail("is %s, must be a JSON Schema: a mapping, with type: object", f.kind())
		return nil
	}
	before := len(f.doc.errs)
	schema := f.jsonWithin(maxDepth)
	if f.doc.values > maxValues {
		f.fail("is too much: a file has at most %d values in its schemas and conditions, at most %d deep", maxValues, maxDepth)
	}
	if len(f.doc.errs) > before {
		return nil
	}
	if object, ok := schema.(map[string]any); !ok || object["type"] != "object" {
		f.fail("must have type: object, for arguments are an object; its fields stand under properties")
		return nil
	}
	raw, err := json.Marshal(schema)
	if err == nil {
		err = tool.CheckArguments(tool.Definition{Name: "tool", Parameters: raw}, "{}")
	}
	if unfit := (*tool.ArgumentError)(nil); err != nil && !errors.As(err, &unfit) {
		f.fail("is no JSON Schema: %s", strings.TrimPrefix(err.Error(), `tool "tool": `))
		return nil
	}
	return raw
}

// pathArguments reads names of arguments that the parameters declare.
func (f field) pathArguments(parameters json.RawMessage) []string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(parameters) > 0 && json.Unmarshal(parameters, &schema) != nil {
		return nil // a mistake of the parameters
	}
	known := slices.Sorted(maps.Keys(schema.Properties))
	return words(f.items(), func(v value) (string, bool) {
		s, ok := v.word()
		switch {
		case !ok || has(known, s):
			return s, ok
		case len(known) == 0:
			v.fail("the parameters have no properties: declare %q there", s)
		default:
			v.fail("the parameters have no property %q; %s", s, suggest(s, known))
		}
		return "", false
	})
}
