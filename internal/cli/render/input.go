package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// input writes the questions of a tool, each with its fields or its address.
func (r *Renderer) input(q event.InputRequest) {
	if !r.once("input", fmt.Sprintf("%s/%d", q.ToolCallID, q.Round)) {
		return
	}
	for _, one := range q.Questions {
		r.line(bold, "? "+visible(q.ToolName)+" asks: "+oneLine(one.Message))
		for _, line := range details(one) {
			r.line(dim, "    "+line)
		}
	}
	if i := slices.IndexFunc(q.Questions, func(one event.InputQuestion) bool { return one.Login != nil }); i >= 0 {
		r.line(dim, "  starter servers login "+visible(q.Questions[i].Login.Server)+"   logs in; the call then goes on by itself")
		return
	}
	if r.opts.Hints {
		r.line(dim, fmt.Sprintf("  starter answer %[1]s %[2]s field=value …   or   starter answer %[1]s %[2]s --decline", r.opts.ThreadID, visible(q.ToolCallID)))
	}
}

// choices are the values that a schema lists: plain, or as constants with titles.
type choices struct {
	Enum  []json.RawMessage `json:"enum"`
	Names []string          `json:"enumNames"`
	OneOf []choice          `json:"oneOf"`
	AnyOf []choice          `json:"anyOf"`
}

type choice struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// list writes the values. It is empty if the schema lists none.
func (c choices) list() string {
	listed := slices.Concat(c.OneOf, c.AnyOf)
	for i, value := range c.Enum {
		one := choice{Const: value}
		if i < len(c.Names) {
			one.Title = c.Names[i]
		}
		listed = append(listed, one)
	}
	var out []string
	for _, one := range listed {
		if len(one.Const) > 0 {
			out = append(out, string(one.Const)+bracketed(one.Title))
		}
	}
	return shorten(visible(strings.Join(out, ", ")), 400)
}

// field is a field of a question.
type field struct {
	choices
	Type        string  `json:"type"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Items       choices `json:"items"`
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func (f field) describe(name string, required bool) string {
	text := visible(name) + bracketed(visible(f.Type))
	if !required {
		text += ", optional"
	}
	for _, more := range []string{f.Title, f.Description} {
		text += suffix(": ", shorten(oneLine(more), 200))
	}
	return text + suffix(", one of ", f.list()) + suffix(", any of ", f.Items.list())
}

// details describes the fields of a question, or its address.
func details(q event.InputQuestion) []string {
	if q.Kind == event.InputURL {
		return []string{"visit " + visible(q.URL)}
	}
	var schema struct {
		Required   []string         `json:"required"`
		Properties map[string]field `json:"properties"`
	}
	if json.Unmarshal(q.Schema, &schema) != nil {
		return nil
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		lines = append(lines, schema.Properties[name].describe(name, slices.Contains(schema.Required, name)))
	}
	return lines
}

// received writes that a person has answered a tool.
func (r *Renderer) received(a event.InputReceived) {
	if !r.once("received", fmt.Sprintf("%s/%d", a.ToolCallID, a.Round)) {
		return
	}
	actions := map[event.InputAction]bool{}
	for _, one := range a.Answers {
		actions[one.Action] = true
	}
	tool, by := visible(a.ToolName), suffix(" by ", visible(a.By))
	if a.Withdrawn {
		r.line(yellow, "✗ "+tool+" needs no answer any more")
		return
	}
	if actions[event.InputAccept] {
		r.line(green, "✓ "+tool+" answered"+by)
		return
	}
	r.line(yellow, "✗ "+tool+" got no answer: declined"+by)
}

// Inputs returns a table of calls that wait for input, in the given order. It is empty without calls.
// Questions and fields are cut: a thread shows them whole.
func Inputs(calls []threadclient.WaitingInput, opts TableOptions) string {
	t := table{head: []string{"THREAD", "CALL THAT ASKS", "TOOL", "QUESTION", "FIELDS", "AGENT", "SINCE"}}
	for _, c := range calls {
		for _, q := range c.Request.Questions {
			t.row(visible(c.ThreadID), visible(c.Request.ToolCallID), visible(c.Request.ToolName), opts.shorten(oneLine(q.Message), 80), opts.shorten(strings.Join(details(q), "; "), 60),
				visible(c.Request.Agent), opts.time(c.Request.RequestedAt))
		}
	}
	return t.String()
}
