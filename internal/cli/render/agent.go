package render

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/text/term"
)

// Agents returns a table of agents in the given order. It is empty without agents.
func Agents(all []agent.Summary, opts TableOptions) string {
	t := table{head: []string{"AGENT", "MODEL", "SOURCE", "VERSION", "DESCRIPTION"}}
	for _, a := range all {
		version, about := "", a.Description
		if a.Version > 0 {
			version = fmt.Sprint(a.Version)
		}
		if a.Problem != "" {
			about = "cannot be used: " + a.Problem
		}
		t.row(visible(a.Name), visible(a.Model), visible(a.Source), version, opts.shorten(visible(about), 60))
	}
	return t.String()
}

// Agent returns an agent as a file that defines it: in YAML, with comments about its origin.
func Agent(a agent.Detail, opts TableOptions) (string, error) {
	var out strings.Builder
	from := a.Source
	if a.Version > 0 {
		from += fmt.Sprintf(", version %d", a.Version)
	}
	from += suffix(", by ", a.By) + suffix(", ", opts.time(a.At))
	fmt.Fprintf(&out, "# %s: %s\n", visible(a.Name), visible(from))
	if a.Problem != "" {
		fmt.Fprintf(&out, "# It cannot be used: %s\n", visible(a.Problem))
	}
	for _, warning := range a.Warnings {
		fmt.Fprintf(&out, "# Warning: %s\n", visible(warning))
	}
	if a.Definition == nil {
		return out.String(), nil
	}
	text, err := definition(*a.Definition)
	return out.String() + text, err
}

// definition returns an agent in YAML, or in JSON, which is also YAML, if people would not see all
// of it in YAML, or a parser would read something else.
func definition(a agent.Definition) (string, error) {
	raw, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return "", err
	}
	if text, ok := asYAML(raw); ok {
		return text, nil
	}
	return term.Escape(string(raw)) + "\n", nil
}

func asYAML(raw []byte) (string, bool) {
	if term.Escape(string(raw)) != string(raw) {
		return "", false
	}
	var fields yaml.MapSlice // in their order
	if err := yaml.UnmarshalWithOptions(raw, &fields, yaml.UseOrderedMap()); err != nil {
		return "", false
	}
	text, err := yaml.MarshalWithOptions(fields, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
	if err != nil {
		return "", false
	}
	var read any
	if err := yaml.Unmarshal(text, &read); err != nil {
		return "", false
	}
	back, err := json.Marshal(read)
	return string(text), err == nil && sameJSON(raw, back)
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// AgentVersions returns a table of an agent's versions in the given order.
func AgentVersions(all []agent.Version, opts TableOptions) string {
	t := table{head: []string{"VERSION", "AT", "BY", "MODEL", "INSTRUCTIONS"}}
	for _, v := range all {
		model, about := "", ""
		switch {
		case v.Deleted:
			about = "deleted"
		case v.Problem != "":
			about = "cannot be used: " + v.Problem
		case v.Definition != nil:
			model, about = v.Definition.Model, oneLine(v.Definition.Instructions)
		}
		t.row(strconv.Itoa(v.Version), opts.time(v.At), visible(v.By), visible(model), opts.shorten(visible(about), 60))
	}
	return t.String()
}
