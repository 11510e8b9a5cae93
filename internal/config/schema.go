package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/guard"
)

var topFields = []string{"version", "models", "titleModel", "agents", "tools", "limits", "hooks", "rules", "approvalRules", "webhooks", "apiKeys", "temporal", "http"}

// config reads the whole file. Agents come late: they refer to the rest, and hooks and
// rules to them.
func (d *document) config(root value) *Config {
	c := &Config{Tools: defaultTools()}
	c.Tools.Shell.Root = d.relative(c.Tools.Shell.Root)
	var agents, hooks, rules, titles *field
	var limits agent.Limits
	var approvalRules, webhooks *field
	models := d.builtIn()
	for _, f := range root.fields(topFields...) {
		switch f.key {
		case "version":
			f.version()
		case "models":
			models.read(f.value)
		case "titleModel":
			titles = &f
		case "tools":
			f.readTools(&c.Tools)
		case "limits":
			limits = f.limits()
		case "agents":
			agents = &f
		case "hooks":
			hooks = &f
		case "rules":
			rules = &f
		case "approvalRules":
			approvalRules = &f
		case "webhooks":
			webhooks = &f
		case "apiKeys":
			c.APIKeys = d.apiKeys(f.value)
		case "temporal":
			f.temporal(c)
		case "http":
			f.http(c)
		}
	}
	switch {
	case agents != nil:
		c.Agents = d.agents(agents.value, limits, models)
	case !root.has("agents", topFields):
		root.doc.fail(root.at, "agents", "is missing: the file needs at least one agent, with a name and a model")
	}
	if titles != nil {
		c.TitleModel = models.use(titles.value)
	}
	c.Models = models.result()
	if hooks != nil {
		c.Hooks = d.hooks(hooks.value, c.Agents)
	}
	if rules != nil {
		c.Rules = d.rules(rules.value, c.Agents)
	}
	if approvalRules != nil {
		c.ApprovalRules = d.approvalRules(approvalRules.value, c.Agents)
	}
	if webhooks != nil {
		c.Webhooks = d.webhooks(webhooks.value, c.Agents)
	}
	return c
}

func (f field) version() {
	if n, ok := f.doc.resolve(f.node).(*ast.IntegerNode); !ok || n.GetToken().Value != "1" {
		f.fail("must be 1, the only version there is")
	}
}

// The least and the default of staleAfter are those of the runtime, which a test of
// package program compares.
const (
	minStaleAfter     = 10 * time.Second
	maxStaleAfter     = time.Hour
	defaultStaleAfter = 12 * time.Second
)

func (f field) temporal(c *Config) {
	for _, f := range f.fields("staleAfter") {
		c.StaleAfter, _ = f.duration(minStaleAfter, maxStaleAfter, byDefault(defaultStaleAfter))
	}
}

func (f field) http(c *Config) {
	for _, f := range f.fields("allowedHosts") {
		c.AllowedHosts = words(f.items(), value.allowedHost)
	}
}

func (v value) allowedHost() (string, bool) {
	name, ok := v.word()
	if !ok {
		return "", false
	}
	if err := (guard.Hosts{Allowed: []string{name}}).Validate(); err != nil {
		v.fail("%s", err)
		return "", false
	}
	return name, true
}

// limits reads limits. Only what is set is not zero.
func (f field) limits() agent.Limits {
	var l agent.Limits
	for _, f := range f.fields("maxSteps", "modelTimeout", "contextMessages") {
		switch f.key {
		case "maxSteps":
			l.MaxSteps, _ = f.count(maxSteps, fmt.Sprintf("the default, %d", agent.DefaultMaxSteps))
		case "modelTimeout":
			l.ModelTimeout, _ = f.duration(0, maxModelTimeout, byDefault(agent.DefaultModelTimeout))
		case "contextMessages":
			l.ContextMessages, _ = f.count(maxContext, fmt.Sprintf("the default, %d", agent.DefaultContextMessages))
		}
	}
	return l
}

// or returns l with what it leaves out taken from the defaults of the file.
func or(l, defaults agent.Limits) agent.Limits {
	if l.MaxSteps == 0 {
		l.MaxSteps = defaults.MaxSteps
	}
	if l.ModelTimeout == 0 {
		l.ModelTimeout = defaults.ModelTimeout
	}
	if l.ContextMessages == 0 {
		l.ContextMessages = defaults.ContextMessages
	}
	return l
}

func (d *document) agents(v value, limits agent.Limits, models *models) agent.Fixed {
	if v.kind() == "empty" {
		v.fail("is empty: the file needs at least one agent, with a name and a model")
		return nil
	}
	before := len(d.errs)
	items := v.items()
	if len(items) == 0 && len(d.errs) == before {
		v.fail("is empty: the file needs at least one agent, with a name and a model")
	}
	var agents agent.Fixed
	lines := map[string]int{}
	for _, item := range items {
		a, name := item.agent(models)
		if name != nil {
			key := strings.ToLower(a.Name)
			if line, taken := lines[key]; taken {
				name.fail("another agent has the name %q already, in line %d (upper and lower case do not differ): choose another name", a.Name, line)
			} else {
				lines[key] = name.at.Line
			}
		}
		a.Limits = or(a.Limits, limits)
		agents = append(agents, a)
	}
	return agents
}

var agentFields = []string{
	"name", "description", "instructions", "instructionsFile", "model", "temperature", "maxOutputTokens",
	"reasoningEffort", "tools", "approvals", "approvalRules", "approvalTerms", "onWaiting", "workingDirectory", "autoMention", "limits",
}

// agent reads one agent; name is where its name stands, if it has one.
func (v value) agent(models *models) (a agent.Agent, name *value) {
	var instructions, approvals, rules *field
	for _, f := range v.fields(agentFields...) {
		switch f.key {
		case "name":
			if a.Name, _ = f.agentName(); a.Name != "" {
				name = &f.value
			}
		case "description":
			a.Description, _ = f.text()
		case "instructions", "instructionsFile":
			if instructions != nil {
				f.failKey("instructions stand in line %d already: keep one of instructions and instructionsFile", instructions.at.Line)
				continue
			}
			instructions = &f
			a.Instructions = f.instructions()
		case "model":
			a.Model = models.use(f.value)
		case "temperature":
			if t, ok := f.number(0, 2); ok {
				a.Temperature = &t
			}
		case "maxOutputTokens":
			a.MaxOutputTokens, _ = f.count(maxOutputTokens, "the provider's default")
		case "reasoningEffort":
			a.ReasoningEffort, _ = f.word()
		case "tools":
			a.Tools = f.toolNames()
		case "approvals":
			approvals = &f
		case "approvalRules":
			rules = &f
		case "approvalTerms":
			a.ApprovalTerms = f.approvalTerms()
		case "onWaiting":
			a.OnWaiting = f.onWaiting()
		case "workingDirectory":
			if dir, ok := f.word(); ok {
				a.WorkingDirectory = f.doc.relative(dir)
			}
		case "autoMention":
			on, ok := f.boolean()
			a.NoAutoMention = ok && !on
		case "limits":
			a.Limits = f.limits()
		}
	}
	if approvals != nil {
		a.Approvals = approvals.approvals(a.Tools)
	}
	if rules != nil {
		a.ApprovalRules = rules.ownApprovalRules(a.Tools)
	}
	if !v.has("name", agentFields) {
		v.missing("name", "is missing: every agent needs one")
	}
	if !v.has("model", agentFields) {
		v.missing("model", `is missing: write it as provider/model, such as openai/gpt-4.1-mini`)
	}
	return a, name
}

// has reports whether v sets key, with whatever value, or was meant to. What is
// not a mapping is a mistake of its own.
func (v value) has(key string, known []string) bool {
	switch n := v.doc.resolve(v.node).(type) {
	case *ast.NullNode:
		return false
	case *ast.MappingNode:
		return slices.ContainsFunc(n.Values, func(e *ast.MappingValueNode) bool {
			k := keyText(e)
			return e.Key.IsMergeKey() || k == key || !has(known, k) && nearest(k, known) == key
		})
	}
	return true
}

func keyText(e *ast.MappingValueNode) string {
	if t := e.Key.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

func (v value) missing(key, format string, args ...any) {
	v.doc.fail(v.at, v.path+"."+key, format, args...)
}

func (f field) agentName() (string, bool) {
	s, ok := f.word()
	if !ok {
		return "", false
	}
	if err := (agent.Agent{Name: s, Model: "x/x"}).Validate(); err != nil {
		f.fail("%q: use 1 to 64 letters, digits, - and _, beginning with a letter or digit", s)
		return "", false
	}
	return s, true
}

func (f field) onWaiting() event.OnWaiting {
	text, ok := f.word()
	if o := event.OnWaiting(text); !ok || o.Valid() {
		return o
	}
	f.fail("%q is not one of answer, hold, cancel: they say what becomes of a message while a call of the agent waits for people", text)
	return ""
}

func (f field) instructions() string {
	s, ok := f.text()
	if !ok || f.key == "instructions" {
		return s
	}
	s = strings.TrimSpace(s)
	file := readFile(f.doc.relative(s))
	// Also if it cannot be read: a Source waits for it to come back.
	f.doc.files = append(f.doc.files, file)
	switch {
	case file.err != nil:
		f.fail("%s: %v (a path is relative to the folder of the configuration)", s, file.err)
		return ""
	case !utf8.ValidString(file.data):
		f.fail("%s is not UTF-8 text: save it as UTF-8", s)
		return ""
	case strings.TrimSpace(file.data) == "":
		f.fail("%s is empty: write the instructions into it or remove the field", s)
		return ""
	}
	return file.data
}

// toolNames reads the tools of an agent.
func (f field) toolNames() []string {
	var names []string
	for _, item := range f.items() {
		s, ok := item.word()
		switch {
		case !ok:
		case !has(f.doc.tools, s):
			item.fail("unknown tool %q; %s", s, suggest(s, f.doc.tools))
			names = append(names, nearest(s, f.doc.tools)) // a policy for it is no second mistake
		case slices.Contains(names, s):
			item.fail("%q is in the list twice: remove one", s)
		default:
			names = append(names, s)
		}
	}
	return names
}
