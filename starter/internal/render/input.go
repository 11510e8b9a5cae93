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
	if r.opts.Hints {
		r.line(dim, fmt.Sprintf("  starter answer %[1]s %[2]s field=value …   or   starter answer %[1]s %[2]s --decline", r.opts.ThreadID, visible(q.ToolCallID)))
	}
}

// details describes the fields of a question, or its address.
func details(q event.InputQuestion) []string {
	if q.Kind == event.InputURL {
		return []string{"visit " + visible(q.URL)}
	}
	var schema struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type        string            `json:"type"`
			Title       string            `json:"title"`
			Description string            `json:"description"`
			Enum        []json.RawMessage `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(q.Schema, &schema) != nil {
		return nil
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		text := visible(name)
		if p.Type != "" {
			text += " (" + visible(p.Type) + ")"
		}
		if !slices.Contains(schema.Required, name) {
			text += ", optional"
		}
		for _, more := range []string{p.Title, p.Description} {
			text += suffix(": ", shorten(oneLine(more), 200))
		}
		if len(p.Enum) > 0 {
			var values []string
			for _, v := range p.Enum {
				values = append(values, string(v))
			}
			text += ", one of " + shorten(visible(strings.Join(values, ", ")), 400)
		}
		lines = append(lines, text)
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
	if actions[event.InputAccept] {
		r.line(green, "✓ "+tool+" answered"+by)
		return
	}
	r.line(yellow, "✗ "+tool+" got no answer: declined"+by)
}

// Inputs returns a table of calls that wait for input, in the given order. It is empty without calls.
func Inputs(calls []threadclient.WaitingInput, opts TableOptions) string {
	t := table{head: []string{"THREAD", "CALL THAT ASKS", "TOOL", "QUESTION", "FIELDS", "AGENT", "SINCE"}}
	for _, c := range calls {
		for _, q := range c.Request.Questions {
			t.row(visible(c.ThreadID), visible(c.Request.ToolCallID), visible(c.Request.ToolName), oneLine(q.Message), strings.Join(details(q), "; "),
				visible(c.Request.Agent), opts.time(c.Request.RequestedAt))
		}
	}
	return t.String()
}
