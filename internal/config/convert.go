package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/near"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// config decodes the file and validates references between its parts. Agents are converted after
// the parts to which they refer, and before hooks and rules, which refer to agents.
func (d *document) config(root ast.Node) *Config {
	var f configFile
	d.decode(root, "", reflect.ValueOf(&f).Elem(), fieldRule{})
	if d.has("version") && f.Version != json.Number("1") {
		d.fieldErrorf("version", KindInvalid, "must be 1, the only version there is")
	}
	c := &Config{StaleAfter: f.Temporal.StaleAfter, StepsAsActivities: f.Temporal.StepsAsActivities, TemporalUI: f.Temporal.UI, AllowedHosts: f.HTTP.AllowedHosts, AllowedOrigins: f.HTTP.AllowedOrigins, PublicURL: f.HTTP.PublicURL, Tools: d.builtInTools(f.Tools), declared: d.declared}
	c.Tools.Client = d.clientTools(f.Tools.Client)
	c.MCP, c.MCPAPI = d.mcpServers(f.MCP), d.mcpAPI(f.MCPAPI)
	models := d.builtIn()
	for name, entry := range f.Models {
		models.add(name, entry)
	}
	models.useChains()
	if len(models.chains) > 0 {
		c.Fallbacks = models.chains
	}
	c.ApproverGroups = f.ApproverGroups
	d.invalid("approverGroups", c.ApproverGroups.Validate())
	d.groups = c.groups()
	c.Agents = d.agents(f.Agents, f.Limits, models)
	models.use("titleModel", f.TitleModel)
	c.TitleModel, c.Knowledge, c.Retention = f.TitleModel, f.Knowledge, f.Retention
	models.useEmbedder("knowledge.embedder", f.Knowledge.Embedder)
	models.useOne("knowledge.contextModel", f.Knowledge.ContextModel)
	models.useOne("knowledge.rerankModel", f.Knowledge.RerankModel)
	models.useOne("knowledge.entityModel", f.Knowledge.EntityModel)
	c.Models, c.Keys = models.result()
	c.Redact = d.redactor(f.Redact)
	known := d.known(c.Agents)
	c.Hooks = d.hooks(f.Hooks, known)
	c.Rules = d.rules(f.Rules, known)
	c.ApprovalRules = d.approvalRules("approvalRules", f.ApprovalRules)
	d.references("", known.Rules(c.ApprovalRules))
	c.Webhooks = d.webhooks(f.Webhooks, known)
	c.APIKeys = d.apiKeys(f.APIKeys)
	c.keysHold = d.has("apiKeys") && !d.failedBelow("apiKeys")
	return c
}

// uniqueName reports a duplicate name. lines maps the previous names to their lines.
func (d *document) uniqueName(path, what, name string, lines map[string]int) {
	path += ".name"
	if line, taken := lines[name]; taken {
		d.fieldErrorf(path, KindDuplicate, "%s %q already exists, in line %d: choose another name", what, name, line)
	} else if name != "" {
		lines[name] = d.placeOf(path).Line
	}
}

// known returns the names that exist. Agents with errors are not known.
func (d *document) known(agents agent.Fixed) names.Known {
	out := names.Known{Tools: d.tools, Groups: d.groups}
	for _, a := range agents {
		if a.Name == "" {
			return names.Known{Tools: d.tools, Groups: d.groups}
		}
		out.Agents = append(out.Agents, a.Name)
	}
	if out.Agents != nil {
		out.Agents = append(out.Agents, d.declared.Agents...)
	}
	return out
}

// references reports wrong names in the part of the file at a path.
func (d *document) references(path string, problems names.Problems) {
	for _, p := range problems {
		if strings.HasPrefix(p.Field, "approvals.") {
			d.keyErrorf(join(path, p.Field), KindReference, "%s", p.Problem)
		} else {
			d.fieldErrorf(join(path, p.Field), KindReference, "%s", p.Problem)
		}
	}
}

func (d *document) builtInTools(t toolsEntry) Tools {
	shell := Shell{
		Root: d.relative(cmp.Or(t.Shell.Root, DefaultRoot)), Timeout: t.Shell.Timeout,
		MaxOutput: int(t.Shell.MaxOutput), MaxProgress: int(t.Shell.MaxProgress), Env: t.Shell.Env, Runner: t.Shell.Runner,
	}
	var clock Clock
	if t.Clock.Timezone != "" {
		clock.Timezone, _ = time.LoadLocation(t.Clock.Timezone)
	}
	return Tools{Shell: shell, Clock: clock}
}

// clientTools converts the tools of connected clients, which agents may use.
func (d *document) clientTools(entries []clientEntry) []tool.Definition {
	var tools []tool.Definition
	for i, e := range entries {
		path := fmt.Sprintf("tools.client[%d]", i)
		if !d.has(path) {
			path = "tools.client"
		}
		d.pathArguments(path, e)
		switch {
		case e.Name == "":
			continue
		case slices.ContainsFunc(d.tools, func(name string) bool { return strings.EqualFold(name, e.Name) }):
			d.fieldErrorf(path+".name", KindDuplicate, "a tool %q already exists (upper and lower case do not differ): choose another name", e.Name)
			continue
		}
		d.tools = append(d.tools, e.Name)
		e.Definition.Client = true
		tools = append(tools, e.Definition)
	}
	return tools
}

// pathArguments reports path arguments that are not parameters.
func (d *document) pathArguments(path string, e clientEntry) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if d.failedBelow(path+".parameters") || len(e.Parameters) > 0 && json.Unmarshal(e.Parameters, &schema) != nil {
		return
	}
	known := slices.Sorted(maps.Keys(schema.Properties))
	for i, name := range e.PathArguments {
		at := fmt.Sprintf("%s.pathArguments[%d]", path, i)
		switch {
		case name == "" || slices.Contains(known, name):
		case len(known) == 0:
			d.fieldErrorf(at, KindReference, "the parameters have no properties: declare %q there", name)
		default:
			d.fieldErrorf(at, KindReference, "the parameters have no property %q; %s", name, near.Suggest(name, known))
		}
	}
}

// schema decodes a JSON Schema, written as YAML.
func (d *document) schema(n ast.Node, path string) json.RawMessage {
	if d.describe(n) != "a mapping" {
		d.wrongType(n, path, "a JSON Schema: a mapping, with type: object")
		return nil
	}
	var schema any
	if d.decodeAny(n, path, reflect.ValueOf(&schema).Elem()); d.failedBelow(path) {
		return nil
	}
	if object, ok := schema.(map[string]any); !ok || object["type"] != "object" {
		d.fieldErrorf(path, KindInvalid, "must have type: object, because arguments are an object; its fields stand under properties")
		return nil
	}
	raw, err := json.Marshal(schema)
	if err == nil {
		err = tool.Definition{Name: "tool", Parameters: raw}.ValidateArguments("{}")
	}
	if arguments := (*tool.ArgumentError)(nil); err != nil && !errors.As(err, &arguments) {
		d.fieldErrorf(path, KindInvalid, "is not a JSON Schema: %s", strings.TrimPrefix(err.Error(), `tool "tool": `))
		return nil
	}
	return raw
}

func (d *document) agents(entries []agentEntry, limits agent.Limits, models *models) agent.Fixed {
	var agents agent.Fixed
	lines := map[string]int{}
	for i, e := range entries {
		path := fmt.Sprintf("agents[%d]", i)
		d.uniqueName(path, "agent", strings.ToLower(e.Name), lines)
		models.use(path+".model", e.Model)
		a := e.Agent
		a.Instructions, a.ApprovalRules = d.instructions(path, e), d.approvalRules(path+".approvalRules", e.ApprovalRules)
		a.NoAutoMention = e.AutoMention != nil && !*e.AutoMention
		a.Limits = agent.Limits{
			MaxSteps:        cmp.Or(e.Limits.MaxSteps, limits.MaxSteps),
			ModelTimeout:    cmp.Or(e.Limits.ModelTimeout, limits.ModelTimeout),
			ContextMessages: cmp.Or(e.Limits.ContextMessages, limits.ContextMessages),
			MaxToolCalls:    cmp.Or(e.Limits.MaxToolCalls, limits.MaxToolCalls),
			MaxReplyBytes:   cmp.Or(e.Limits.MaxReplyBytes, limits.MaxReplyBytes),
			MaxResult:       cmp.Or(e.Limits.MaxResult, limits.MaxResult),
		}
		if e.WorkingDirectory != "" {
			a.WorkingDirectory = d.relative(e.WorkingDirectory)
		}
		d.references(path, d.known(nil).Agent(a))
		for i := range a.ApprovalRules {
			if at := fmt.Sprintf("%s.approvalRules[%d].agents", path, i); d.has(at) {
				d.keyErrorf(at, KindUnknown, "unknown field; the rules of an agent look at its own calls only")
			}
		}
		if !d.failedBelow(path + ".approvalTerms") {
			d.invalid(path+".approvalTerms", a.ApprovalTerms.Validate())
		}
		agents = append(agents, a)
	}
	return agents
}

func (d *document) instructions(path string, e agentEntry) string {
	path += ".instructionsFile"
	switch {
	case !d.has(path):
		return e.Instructions
	case d.has(parent(path) + ".instructions"):
		d.keyErrorf(path, KindInvalid, "instructions is set as well: keep one of them")
		return ""
	case e.InstructionsFile == "":
		return ""
	}
	name := e.InstructionsFile
	file := readFile(d.relative(name))
	// An unreadable file counts too: a Source waits until it is readable again.
	d.files = append(d.files, file)
	switch {
	case file.err != nil:
		d.fieldErrorf(path, KindUnreadable, "%s: %v (a path is relative to the folder of the configuration)", name, file.err)
	case !utf8.ValidString(file.data):
		d.fieldErrorf(path, KindUnreadable, "%s is not UTF-8 text: save it as UTF-8", name)
	case strings.TrimSpace(file.data) == "":
		d.fieldErrorf(path, KindUnreadable, "%s is empty: write the instructions into it or remove the field", name)
	}
	return file.data
}

// approvalRules converts rules, whose names must be unique: they are stored with decisions.
func (d *document) approvalRules(list string, rules []approval.Rule) []approval.Rule {
	lines := map[string]int{}
	for i := range rules {
		r, path := &rules[i], fmt.Sprintf("%s[%d]", list, i)
		r.When, r.Reason = strings.TrimSpace(r.When), strings.TrimSpace(r.Reason)
		if !d.failedBelow(path) && !d.invalid(path, r.Validate()) {
			d.uniqueName(path, "rule", strings.ToLower(r.Name), lines)
		}
	}
	return rules
}

func (d *document) hooks(hooks []hook.Hook, known names.Known) []hook.Hook {
	lines := map[string]int{}
	for i, h := range hooks {
		path := fmt.Sprintf("hooks[%d]", i)
		d.uniqueName(path, "hook", h.Name, lines)
		d.hookOfProgram(path, h)
		if h.Workflow != nil && d.taskQueue != "" && h.Workflow.TaskQueue == d.taskQueue {
			d.fieldErrorf(path+".workflow.taskQueue", KindInvalid, "%q is where the threads themselves run, and no worker there knows the workflow: give its worker another task queue", d.taskQueue)
		}
		d.references(path, known.Filter(h.Filter))
		d.filter(path+".filter", h.Filter)
	}
	return hooks
}

// hookOfProgram reports a hook without a workflow that is none of the program's. One of those is only put in its place.
func (d *document) hookOfProgram(path string, h hook.Hook) {
	switch {
	case h.Workflow != nil && slices.Contains(d.declared.Hooks, h.Name):
		d.fieldErrorf(path+".name", KindDuplicate, "the program has a hook %q: choose another name, or omit workflow to put the program's hook here", h.Name)
		return
	case h.Workflow != nil || d.has(path+".workflow"):
		return
	case h.Name == "" || !slices.Contains(d.declared.Hooks, h.Name):
		d.fieldErrorf(path+".workflow", KindMissing, "is missing: say which workflow decides, by its type and taskQueue")
		return
	}
	for _, field := range []string{"filter", "timeout", "onFailure", "maxAttempts", "holdOutput"} {
		if d.has(path + "." + field) {
			d.keyErrorf(path+"."+field, KindInvalid, "the hook %q is the program's, which sets its fields: only name it here", h.Name)
		}
	}
}

// filter reports a filter that no event can match, since its hook would never run.
func (d *document) filter(path string, f hook.Filter) {
	const why = "people and the system have no agent, only calls and their results have tools, and custom events have neither, nor a creator"
	switch {
	case d.failedBelow(path):
	case len(f.Types) == 0 && !selects(f):
		d.fieldErrorf(path, KindInvalid, "selects no event: %s", why)
	default:
		for i := range f.Types {
			one := f
			if one.Types = f.Types[i : i+1]; !selects(one) {
				d.fieldErrorf(fmt.Sprintf("%s.types[%d]", path, i), KindInvalid, "the rest of the filter selects no event of this type: %s", why)
			}
		}
	}
}

// selects reports whether an event can match a filter.
func selects(f hook.Filter) bool {
	by, namespace := "", ""
	if len(f.Agents) > 0 {
		by = f.Agents[0]
	}
	if len(f.Namespaces) > 0 {
		namespace = f.Namespaces[0]
	}
	subjects := []hook.Subject{
		{Type: event.TypeMessage, CreatedBy: event.CreatedByUser},
		{Type: event.TypeMessage, CreatedBy: event.CreatedBySystem},
		{Type: event.TypeMessage, CreatedBy: event.CreatedByAgent, Agent: by},
		{Type: event.TypeMessage, CreatedBy: event.CreatedByTool, Agent: by, Tools: f.Tools},
		{Type: event.TypeToolCall, CreatedBy: event.CreatedByAgent, Agent: by, Tools: f.Tools},
		{Type: event.TypeLLMCall, CreatedBy: event.CreatedByAgent, Agent: by},
	}
	for _, custom := range f.Types {
		subjects = append(subjects, hook.Subject{Type: custom})
	}
	return slices.ContainsFunc(subjects, func(s hook.Subject) bool {
		s.Namespace = namespace
		return f.Matches(s)
	})
}

func (d *document) rules(entries []ruleEntry, known names.Known) []rule.Rule {
	rules := make([]rule.Rule, len(entries))
	valid := make([]bool, len(entries))
	for i, e := range entries {
		path := fmt.Sprintf("rules[%d]", i)
		rules[i] = e.Rule
		rules[i].Disabled = e.Enabled != nil && !*e.Enabled
		d.references(path, known.Rule(e.Rule))
		for j, c := range e.Where {
			if at := fmt.Sprintf("%s.where[%d]", path, j); !d.failedBelow(at) {
				d.invalid(at, c.Validate())
			}
		}
		valid[i] = !d.failedBelow(path) && !d.invalid(path, rules[i].Validate())
	}
	lines, clean := map[string]int{}, !d.failedBelow("rules")
	for i, r := range rules {
		if !valid[i] {
			continue
		}
		path := fmt.Sprintf("rules[%d]", i)
		d.uniqueName(path, "rule", r.Spec().Name, lines)
		if !d.failedBelow(path) {
			d.invalid(path, rule.Reachable(r, rules))
		}
		clean = clean && !d.failedBelow(path)
	}
	_, err := rule.NewSet(rule.Config{Rules: rules})
	if field, ok := errors.AsType[*event.FieldError](err); ok && clean {
		d.fieldErrorf("rules", KindLimit, "%s", field.Problem) // of all of them together
	}
	if entries == nil {
		return nil
	}
	return rules
}

func (d *document) webhooks(entries []webhookEntry, known names.Known) []webhook.Endpoint {
	var sources []webhook.Endpoint
	lines := map[string]int{}
	for i, e := range entries {
		path := fmt.Sprintf("webhooks[%d]", i)
		s := e.Endpoint
		for j, name := range e.SecretEnv {
			at := fmt.Sprintf("%s.secretEnv[%d]", path, j)
			if !d.has(at) {
				at = path + ".secretEnv"
			}
			if secret := d.secret(at, name); secret != "" {
				s.Secrets = append(s.Secrets, webhook.Secret(secret))
			}
		}
		d.uniqueName(path, "webhook", s.Name, lines)
		d.references(path, known.Webhook(e.Event.Agents))
		// A switch that could not be decoded may have been on, so nothing else is reported as
		// missing.
		s.Unsigned = s.Unsigned || d.failed[path+".unsigned"]
		s.Event.Open = s.Event.Open || d.failed[path+".event.open"]
		if !s.Unsigned && !d.has(path+".signature") {
			d.fieldErrorf(path+".signature", KindMissing, "is missing: how requests are signed, such as github, stripe, slack or hmac")
		}
		for _, err := range all(s.Validate()) {
			if field, ok := errors.AsType[*event.FieldError](err); ok && field.Field == "secrets" {
				if d.has(path + ".secretEnv") {
					continue
				}
				err = event.FieldErrorf("secretEnv", "%s", field.Problem)
			}
			d.invalid(path, err)
		}
		sources = append(sources, s)
	}
	return sources
}

// secret returns the value of a variable.
func (d *document) secret(path, name string) string {
	secret := strings.TrimSpace(d.getenv(name))
	if name != "" && secret == "" {
		d.fieldErrorf(path, KindUnset, "the environment variable %s is not set: set it before starting", name)
	}
	return secret
}

func (d *document) apiKeys(entries []keyEntry) []auth.Key {
	var keys []auth.Key
	for i, e := range entries {
		path := fmt.Sprintf("apiKeys[%d]", i)
		k := e.Key
		if e.Expires != "" {
			k.ExpiresAt, _ = moment(e.Expires)
		}
		switch secret := d.secret(path+".secretEnv", e.SecretEnv); {
		case d.has(path+".hash") && d.has(path+".secretEnv"):
			d.fieldErrorf(path+".hash", KindInvalid, "and secretEnv exclude each other: keep one of them")
		case !d.has(path+".hash") && !d.has(path+".secretEnv"):
			d.fieldErrorf(path+".hash", KindMissing, "is missing, and so is secretEnv: set the hash of the key, which \"starter keys generate\" prints, or the variable that holds the key")
		case secret != "":
			_, token, err := auth.ParseToken(secret)
			if err != nil {
				d.fieldErrorf(path+".secretEnv", KindInvalid, "the environment variable %s %s", e.SecretEnv, err)
			}
			k.Hash = token.Hash()
		}
		if d.failedBelow(path) || d.invalid(path, k.Validate()) {
			continue
		}
		keys = append(keys, k)
		if err := auth.ValidateKeys(keys); err != nil {
			d.fieldErrorf(path, KindDuplicate, "%s", err)
			keys = keys[:len(keys)-1]
		}
	}
	return keys
}
