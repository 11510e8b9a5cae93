package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

var ruleFields = []string{
	"name", "events", "where", "priority", "enabled", "debounce", "throttle", "log", "processor", "agent",
}

// rules reads the rules for environment events. Their agents are those of the file.
func (d *document) rules(v value, agents agent.Fixed) []rule.Rule {
	before, items := len(d.errs), v.items()
	rules := make([]rule.Rule, len(items))
	right := make([]bool, len(items))
	for i, item := range items {
		rules[i], right[i] = item.rule(agents)
	}
	lines := map[string]int{}
	for i, item := range items {
		if !right[i] {
			continue
		}
		r, at := rules[i], d.placeOf(item.path+".name")
		name := r.Spec().Name
		if line, taken := lines[name]; taken {
			d.fail(at, item.path+".name", "another rule has the name %q already, in line %d: choose another name (without one, a rule is called like the first of its events)", name, line)
			continue
		}
		lines[name] = at.Line
		d.accepts(item.path, rule.Reachable(r, rules))
	}
	if len(d.errs) > before {
		return rules
	}
	var field *event.FieldError
	if _, err := rule.NewSet(rules, nil); errors.As(err, &field) {
		v.fail("%s", field.Problem) // a mistake of all of them together
	}
	return rules
}

// rule reads one rule, and reports whether there is no mistake in it.
func (v value) rule(agents agent.Fixed) (r rule.Rule, right bool) {
	before := len(v.doc.errs)
	for _, f := range v.fields(ruleFields...) {
		switch f.key {
		case "name":
			if r.Name, right = f.word(); right {
				v.doc.accepts(v.path, rule.Rule{Name: r.Name, Events: []string{event.TypeUserQuery}}.Validate())
			}
		case "events":
			r.Events = f.eventPatterns()
		case "where":
			r.Where = f.conditions()
		case "priority":
			r.Priority = f.priority()
		case "enabled":
			enabled, ok := f.boolean()
			r.Disabled = ok && !enabled
		case "debounce":
			r.Debounce, _ = f.duration(0, rule.MaxHold, "none")
		case "throttle":
			r.Throttle, _ = f.duration(0, rule.MaxHold, "none")
		case "log":
			r.Log, _ = f.boolean()
		case "processor":
			r.Processor, _ = f.word()
		case "agent":
			r.Agent = f.ruleAgent(agents)
		}
	}
	if !v.has("events", ruleFields) {
		v.missing("events", `is missing: name the types of events, such as file.changed, "github.*" or "*"`)
	}
	if len(v.doc.errs) > before {
		return r, false
	}
	return r, v.doc.accepts(v.path, r.Validate())
}

// accepts reports whether there is no mistake, and otherwise puts it to its place: the
// error names a field inside of path.
func (d *document) accepts(path string, err error) bool {
	var field *event.FieldError
	if !errors.As(err, &field) {
		return true
	}
	path += "." + field.Field
	d.fail(d.placeOf(path), path, "%s", field.Problem)
	return false
}

// eventPatterns reads one pattern of types, or a list of them.
func (f field) eventPatterns() []string {
	switch f.doc.resolve(f.node).(type) {
	case *ast.SequenceNode:
		return words(f.entries(), value.eventPattern)
	case *ast.MappingNode:
		f.fail("is a mapping, must be text, or a list of texts")
		return nil
	}
	if s, ok := f.eventPattern(); ok {
		return []string{s}
	}
	return nil
}

func (v value) eventPattern() (string, bool) {
	s, ok := v.word()
	if !ok {
		return "", false
	}
	var field *event.FieldError
	if errors.As(rule.Rule{Name: "x", Events: []string{s}}.Validate(), &field) {
		v.fail("%s", field.Problem)
		return "", false
	}
	return s, true
}

func (f field) priority() int {
	n, ok := f.doc.resolve(f.node).(*ast.IntegerNode)
	if !ok {
		f.fail("is %s, must be a whole number", f.shown())
		return 0
	}
	i := integer(n)
	if !(math.Abs(i) <= rule.MaxPriority) {
		f.fail("is %s, must be %d to %d", n.GetToken().Value, -rule.MaxPriority, rule.MaxPriority)
		return 0
	}
	return int(i)
}

func (f field) ruleAgent(agents agent.Fixed) *rule.Agent {
	a := &rule.Agent{}
	if f.kind() == "empty" {
		f.fail("is empty: write {} for the agent that takes part in the thread, or its name, or a prompt")
		return a
	}
	for _, f := range f.fields("name", "prompt", "systemPrompt") {
		switch f.key {
		case "name":
			a.Name, _ = f.agentOf(agents)
		case "prompt":
			a.Prompt, _ = f.text()
		case "systemPrompt":
			a.SystemPrompt, _ = f.text()
		}
	}
	return a
}

func (f field) conditions() []rule.Condition {
	var list []rule.Condition
	for _, item := range f.items() {
		before := len(f.doc.errs)
		c := item.condition()
		if len(f.doc.errs) == before {
			f.doc.accepts(item.path, c.Validate())
		}
		list = append(list, c)
	}
	return list
}

var conditionFields = []string{"field", "equals", "not", "in", "above", "below", "prefix", "contains", "exists"}

func (v value) condition() (c rule.Condition) {
	for _, f := range v.fields(conditionFields...) {
		switch f.key {
		case "field":
			c.Field, _ = f.word()
		case "equals":
			c.Equals = f.operand()
		case "not":
			c.Not = f.operand()
		case "in":
			c.In = []any{}
			for _, item := range f.items() {
				c.In = append(c.In, item.json())
			}
		case "above":
			c.Above = f.bound()
		case "below":
			c.Below = f.bound()
		case "prefix":
			c.Prefix, _ = f.text()
		case "contains":
			c.Contains = f.operand()
		case "exists":
			if exists, ok := f.boolean(); ok {
				c.Exists = &exists
			}
		}
	}
	return c
}

// operand reads what a field is compared with.
func (f field) operand() any {
	if f.kind() == "empty" {
		f.fail("is empty: write exists: false for a field that is not there, or is null")
		return nil
	}
	return f.json()
}

func (f field) bound() *float64 {
	var n float64
	switch node := f.doc.resolve(f.node).(type) {
	case *ast.IntegerNode:
		n = integer(node)
	case *ast.FloatNode:
		n = node.Value
	default:
		f.fail("is %s, must be a number", f.shown())
		return nil
	}
	return &n
}

// Bounds of the values in conditions, of which aliases can make many.
const (
	maxValues = 10_000 // of a file
	maxDepth  = 20
)

// json reads any value that has a JSON form, with what is in it.
func (v value) json() any {
	before := v.doc.values
	out := v.jsonWithin(maxDepth)
	if before <= maxValues && v.doc.values > maxValues {
		v.fail("is too much to compare with: a file has at most %d values in its conditions, at most %d deep", maxValues, maxDepth)
	}
	return out
}

func (v value) jsonWithin(depth int) any {
	v.doc.values++
	if depth == 0 {
		v.doc.values = maxValues + 1
	}
	if v.doc.values > maxValues {
		return nil
	}
	switch n := v.doc.resolve(v.node).(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.StringNode:
		return scalar(n)
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(n.Value)) // exact, unlike a float64
	case *ast.FloatNode:
		return n.Value
	case *ast.SequenceNode:
		list := []any{}
		for _, item := range v.items() {
			list = append(list, item.jsonWithin(depth-1))
		}
		return list
	case *ast.MappingNode:
		object := map[string]any{}
		for _, f := range v.fields() {
			object[f.key] = f.jsonWithin(depth - 1)
		}
		return object
	}
	v.fail("is %s, must be text, a number, true, false, a list or a mapping", v.kind())
	return nil
}

// scalar is text, or a number that is too large for the parser, which takes it for text.
func scalar(n *ast.StringNode) any {
	number := json.Number(n.Value)
	if _, err := json.Marshal(number); err != nil || n.Value == "" || n.GetToken().Type != token.StringType {
		return n.Value
	}
	return number
}
