package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

// Bounds of hooks are those of package hook, which a test compares.
const (
	maxHookTimeout  = 365 * 24 * time.Hour
	maxHookAttempts = 100
)

var hookFields = []string{"name", "workflow", "filter", "onFailure", "timeout", "maxAttempts", "holdOutput"}

// hooks reads the hook workflows, in the order in which they are asked. Their filters
// may name these agents.
func (d *document) hooks(v value, agents agent.Fixed) []hook.Hook {
	var hooks []hook.Hook
	lines := map[string]int{}
	for _, item := range v.items() {
		h, name := item.hook(agents)
		if name != nil {
			if line, taken := lines[h.Name]; taken {
				name.fail("another hook has the name %q already, in line %d: choose another name", h.Name, line)
			} else {
				lines[h.Name] = name.at.Line
			}
		}
		hooks = append(hooks, h)
	}
	return hooks
}

// hook reads one hook; name is where its name stands, if it has one.
func (v value) hook(agents agent.Fixed) (h hook.Hook, name *value) {
	for _, f := range v.fields(hookFields...) {
		switch f.key {
		case "name":
			if h.Name, _ = f.hookName(); h.Name != "" {
				name = &f.value
			}
		case "workflow":
			h.Workflow = f.hookWorkflow()
		case "filter":
			h.Filter = f.filter(agents)
		case "onFailure":
			mode, _ := f.oneOf(string(hook.Closed), string(hook.Open))
			h.OnFailure = hook.FailureMode(mode)
		case "timeout":
			h.Timeout, _ = f.duration(0, maxHookTimeout, "no limit")
		case "maxAttempts":
			h.MaxAttempts, _ = f.count(maxHookAttempts, "the default, 1")
		case "holdOutput":
			h.HoldOutput, _ = f.boolean()
		}
	}
	if !v.has("name", hookFields) {
		v.missing("name", "is missing: every hook needs one")
	}
	if !v.has("workflow", hookFields) {
		v.missing("workflow", "is missing: say which workflow decides, by its type and taskQueue")
	}
	return h, name
}

func (f field) hookName() (string, bool) {
	s, ok := f.word()
	if !ok {
		return "", false
	}
	if err := (hook.Hook{Name: s, Workflow: &hook.Workflow{Type: "x"}}).Validate(); err != nil {
		f.fail("%q: use 1 to 64 letters, digits, - and _, beginning with a letter or digit", s)
		return "", false
	}
	return s, true
}

func (f field) hookWorkflow() *hook.Workflow {
	w := &hook.Workflow{}
	known := []string{"type", "taskQueue"}
	for _, f := range f.fields(known...) {
		s, ok := f.word()
		switch {
		case f.key == "type":
			w.Type = s
		case ok && s == f.doc.taskQueue:
			f.fail("%q is where the threads themselves run, and nobody there knows the workflow: give its worker another task queue", s)
		default:
			w.TaskQueue = s
		}
	}
	if !f.has("type", known) {
		f.missing("type", "is missing: write the name of the workflow, as its worker registers it")
	}
	if !f.has("taskQueue", known) {
		f.missing("taskQueue", "is missing: write the task queue on which the workflow's worker listens")
	}
	return w
}

// filter reads what a hook sees. One that lets nothing through is a mistake: nobody
// would notice that the hook is never asked.
func (f field) filter(agents agent.Fixed) (out hook.Filter) {
	var types []value
	for _, f := range f.fields("types", "createdBy", "agents", "tools", "namespaces") {
		switch f.key {
		case "types":
			types = f.entries()
			out.Types = words(types, value.eventType)
		case "createdBy":
			for _, by := range words(f.entries(), value.createdBy) {
				out.CreatedBy = append(out.CreatedBy, event.CreatedBy(by))
			}
		case "agents":
			out.Agents = words(f.entries(), func(v value) (string, bool) { return v.agentOf(agents) })
		case "tools":
			out.Tools = words(f.entries(), value.tool)
		case "namespaces":
			out.Namespaces = words(f.entries(), value.namespace)
		}
	}
	if len(out.Types) != len(types) {
		return out // types have mistakes of their own
	}
	const why = "people and the system have no agent, only calls and their results have tools, and events of your own types have neither, nor a creator"
	if len(types) == 0 && !selects(out) {
		f.fail("selects no event at all: %s", why)
	}
	for i, item := range types {
		one := out
		if one.Types = out.Types[i : i+1]; !selects(one) {
			item.fail("the rest of the filter selects no event of this type: %s", why)
		}
	}
	return out
}

// entries are the items of a list that must not be empty: here an empty list would
// mean everything.
func (f field) entries() []value {
	before := len(f.doc.errs)
	items := f.items()
	if len(items) == 0 && len(f.doc.errs) == before {
		f.fail("is empty: name at least one, or remove the field, which selects all")
	}
	return items
}

// words reads the items of a list, none of which may be there twice.
func words(items []value, read func(value) (string, bool)) []string {
	var list []string
	for _, item := range items {
		s, ok := read(item)
		switch {
		case !ok:
		case slices.Contains(list, s):
			item.fail("%q is in the list twice: remove one", s)
		default:
			list = append(list, s)
		}
	}
	return list
}

var builtInTypes = []string{event.TypeMessage, event.TypeToolCall, event.TypeLLMCall}

// eventType reads a type, or a pattern that ends in a star. Any name may be a type of
// somebody's own, but one that looks like a built-in one is more likely a mistake.
func (v value) eventType() (string, bool) {
	s, ok := v.word()
	if !ok {
		return "", false
	}
	begin, wild := strings.CutSuffix(s, "*")
	switch {
	case strings.Contains(begin, "*"):
		v.fail("%q: a * can stand at the end only, where it matches every type that begins like it", s)
	case wild && begin == event.TypeLLMCall:
		v.fail("%q: only the full name selects model calls: write %s", s, begin)
	case wild || has(builtInTypes, s):
		return s, true
	case event.Reserved(s):
		v.fail("no hook sees %q: threads make these themselves; hooks see message, tool_call, llm_call and your own types", s)
	default:
		for _, known := range builtInTypes {
			if distance(plain(s), plain(known)) <= 1 {
				v.fail("%q is not a type that threads have; did you mean %q? (a type of your own that is called so is written %[1]s*)", s, known)
				return "", false
			}
		}
		return s, true
	}
	return "", false
}

func (v value) createdBy() (string, bool) {
	return v.oneOf(string(event.User), string(event.Agent), string(event.Tool), string(event.System))
}

// agentOf reads the name of an agent of the file.
func (v value) agentOf(agents agent.Fixed) (string, bool) {
	s, ok := v.word()
	if !ok {
		return "", false
	}
	names := make([]string, len(agents))
	for i, a := range agents {
		if a.Name == "" || strings.EqualFold(a.Name, s) { // a missing name is mistake enough
			return s, true
		}
		names[i] = a.Name
	}
	if len(names) == 0 {
		return s, true
	}
	v.fail("unknown agent %q; %s", s, suggest(s, names))
	return "", false
}

func (v value) tool() (string, bool) {
	s, ok := v.word()
	if ok && !has(v.doc.tools, s) {
		v.fail("unknown tool %q; %s", s, suggest(s, v.doc.tools))
		return "", false
	}
	return s, ok
}

func (v value) namespace() (string, bool) {
	s, ok := v.word()
	if !ok {
		return "", false
	}
	var problem *event.FieldError
	if errors.As(signals.CheckID("", s), &problem) {
		v.fail("%s", problem.Problem)
		return "", false
	}
	return s, true
}

// selects reports whether there can be an event that a filter selects.
func selects(f hook.Filter) bool {
	by, namespace := "", ""
	if len(f.Agents) > 0 {
		by = f.Agents[0]
	}
	if len(f.Namespaces) > 0 {
		namespace = f.Namespaces[0]
	}
	subjects := []hook.Subject{
		{Type: event.TypeMessage, CreatedBy: event.User},
		{Type: event.TypeMessage, CreatedBy: event.System},
		{Type: event.TypeMessage, CreatedBy: event.Agent, Agent: by},
		{Type: event.TypeMessage, CreatedBy: event.Tool, Agent: by, Tools: f.Tools},
		{Type: event.TypeToolCall, CreatedBy: event.Agent, Agent: by, Tools: f.Tools},
		{Type: event.TypeLLMCall, CreatedBy: event.Agent, Agent: by},
	}
	for _, own := range f.Types {
		subjects = append(subjects, hook.Subject{Type: own})
	}
	return slices.ContainsFunc(subjects, func(s hook.Subject) bool {
		s.Namespace = namespace
		return f.Matches(s)
	})
}
