package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/goccy/go-yaml"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/starter/internal/api"
)

// AgentOptions say how agents are written.
type AgentOptions struct {
	// Width is how many characters of a description a table shows. Default 60.
	Width int

	// Location is where times are told. Default: where the program runs.
	Location *time.Location
}

func (o AgentOptions) time(at time.Time) string { return QueueOptions{Location: o.Location}.time(at) }

// Agents writes agents as a table, in the order given. It is empty if there is none.
func Agents(all []api.Agent, opts AgentOptions) string {
	if len(all) == 0 {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tMODEL\tSOURCE\tVERSION\tDESCRIPTION")
	for _, a := range all {
		version, about := "-", a.Description
		if a.Version > 0 {
			version = fmt.Sprint(a.Version)
		}
		if a.Problem != "" {
			about = "cannot be used: " + a.Problem
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", visible(a.Name), visible(cmp.Or(a.Model, "-")), visible(a.Source), version,
			shorten(visible(about), cmp.Or(opts.Width, 60)))
	}
	// Writing to memory does not fail.
	_ = w.Flush()
	return trimLines(out.String())
}

// Agent writes an agent as a file that defines it: in YAML, with comments that say where it
// is from.
func Agent(a api.Agent, opts AgentOptions) (string, error) {
	var out strings.Builder
	from := a.Source
	if a.Version > 0 {
		from += fmt.Sprintf(", version %d", a.Version)
	}
	if a.By != "" {
		from += ", by " + a.By
	}
	if a.At != nil {
		from += ", " + opts.time(*a.At)
	}
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

// definition writes an agent in YAML, or in JSON, which is YAML too, where people would not
// see all of it, or a reader would find something else.
func definition(a agent.Agent) (string, error) {
	raw, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return "", err
	}
	if text, ok := asYAML(raw); ok {
		return text, nil
	}
	return escaped(string(raw)) + "\n", nil
}

func asYAML(raw []byte) (string, bool) {
	if strings.ContainsFunc(string(raw), isUnseen) {
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

// isUnseen reports what a terminal would obey, or not show.
func isUnseen(c rune) bool {
	return c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029')
}

// escaped shows what cannot be seen in JSON by the escapes of JSON, which mean the same.
func escaped(text string) string {
	var out strings.Builder
	for _, c := range text {
		if !isUnseen(c) {
			out.WriteRune(c)
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// AgentVersions writes the versions of an agent as a table, in the order given.
func AgentVersions(all []api.AgentVersion, opts AgentOptions) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tAT\tBY\tMODEL\tINSTRUCTIONS")
	for _, v := range all {
		model, about := "-", ""
		switch {
		case v.Deleted:
			about = "deleted"
		case v.Problem != "":
			about = "cannot be used: " + v.Problem
		case v.Definition != nil:
			model, about = v.Definition.Model, oneLine(v.Definition.Instructions)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", v.Version, opts.time(v.At), visible(cmp.Or(v.By, "-")), visible(model),
			shorten(visible(about), cmp.Or(opts.Width, 60)))
	}
	// Writing to memory does not fail.
	_ = w.Flush()
	return trimLines(out.String())
}
