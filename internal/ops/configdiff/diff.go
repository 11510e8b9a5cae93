// Package configdiff says what a changed configuration would do to calls that wait, and to agents, rules, hooks and what else a file
// declares.
package configdiff

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// Side is a configuration: the one that runs, or the changed one.
type Side struct {
	// Agents are those that take effect, stored ones included, by their names in lower case.
	Agents map[string]agent.Agent

	ApprovalRules []approval.Rule
	Rules         []rule.Spec

	// Groups knows the groups of approvers. Nil = there are none.
	Groups approval.Groups

	// Hooks are in their order.
	Hooks []hook.Hook

	Webhooks []webhook.Endpoint

	// Knowledge is compared field by field.
	Knowledge any

	Redact *redact.Redactor

	// Retention is compared with what its next pass would do.
	Retention retention.Due

	// Tool returns a tool's definition. False = unknown, such as those of MCP servers.
	Tool func(name string) (tool.Definition, bool)

	// ClientTools are the definitions of tools of connected clients.
	ClientTools []tool.Definition
}

// Policy returns the verdict on a call that nobody has approved before, or why it cannot run.
type Policy func(rules []approval.Rule, who agent.Agent, d tool.Definition, namespace, threadID, arguments string) (approval.Verdict, error)

// Change is a difference of something that has a name.
type Change struct {
	Name    string   `json:"name" doc:"What differs"`
	Changes []string `json:"changes" nullable:"false" doc:"How it differs"`

	// Threads is only set for agents.
	Threads int `json:"threads,omitempty" doc:"Open threads that name the agent, at most 1000: their next steps use the change"`
}

// Call is a call that waits for approval, and what the change does to it.
type Call struct {
	ThreadID   string   `json:"threadId" doc:"The thread"`
	ToolCallID string   `json:"toolCallId" doc:"The call that waits"`
	Tool       string   `json:"tool" doc:"The tool"`
	Agent      string   `json:"agent" doc:"The agent that made the call"`
	Effects    []string `json:"effects" nullable:"false" doc:"What the change does to the call. Empty: nothing"`
}

// Diff is the effect of a changed configuration.
type Diff struct {
	Calls         []Call   `json:"calls" nullable:"false" doc:"All calls that wait for approval, the longest wait first"`
	Agents        []Change `json:"agents" nullable:"false" doc:"Agents that differ"`
	Tools         []Change `json:"tools" nullable:"false" doc:"Tools of connected clients that differ"`
	Rules         []Change `json:"rules" nullable:"false" doc:"Rules for environment events that differ"`
	Hooks         []Change `json:"hooks" nullable:"false" doc:"Hooks that differ; they change with the restart of a worker, for the next events. Decisions in progress continue with the hooks with which they began"`
	Webhooks      []Change `json:"webhooks" nullable:"false" doc:"Webhooks that differ; they change with the next request"`
	Settings      []Change `json:"settings" nullable:"false" doc:"The sections retention, knowledge and redact, if they differ; they change with the restart of a worker"`
	Groups        []Change `json:"approverGroups" nullable:"false" doc:"Groups of approvers that agents and rules name and whose members differ"`
	ApprovalRules bool     `json:"approvalRules" doc:"Whether the approval rules of all agents differ; they change with the restart of a worker"`
	More          bool     `json:"more,omitempty" doc:"More threads wait than were asked"`
	Unanswered    []string `json:"unanswered,omitempty" doc:"Threads with waiting calls that did not answer in time"`
}

// Same reports whether the change does nothing.
func (d Diff) Same() bool {
	return !d.ApprovalRules && len(d.Agents)+len(d.Tools)+len(d.Rules)+len(d.Hooks)+len(d.Webhooks)+len(d.Settings)+len(d.Groups) == 0 &&
		!slices.ContainsFunc(d.Calls, func(c Call) bool { return len(c.Effects) > 0 })
}

// Compare compares two configurations, and what the change does to calls that wait. threads counts the open threads of an agent.
func Compare(ctx context.Context, namespace string, policy Policy, before, after Side, waiting threadclient.Waiting, threads func(context.Context, string) (int, error)) (Diff, error) {
	out := Diff{
		Calls: []Call{}, Agents: []Change{}, Tools: tools(before.ClientTools, after.ClientTools), Rules: rules(before.Rules, after.Rules),
		Hooks: hooks(before.Hooks, after.Hooks), Webhooks: webhooks(before.Webhooks, after.Webhooks), Settings: settings(before, after), ApprovalRules: !reflect.DeepEqual(some(before.ApprovalRules), some(after.ApprovalRules)),
		Groups: groups(ctx, namespace, before, after), More: waiting.More, Unanswered: waiting.Unanswered,
	}
	for _, name := range names(before.Agents, after.Agents) {
		changes := agents(before.Agents, after.Agents, name)
		if len(changes) == 0 {
			continue
		}
		n, err := threads(ctx, name)
		if err != nil {
			return out, err
		}
		out.Agents = append(out.Agents, Change{Name: name, Changes: changes, Threads: n})
	}
	for _, one := range waiting.Approvals {
		out.Calls = append(out.Calls, Call{
			ThreadID: one.ThreadID, ToolCallID: one.Request.ToolCallID, Tool: one.Request.ToolName, Agent: one.Request.Agent,
			Effects: call(ctx, namespace, policy, before, after, one),
		})
	}
	return out, nil
}

func some[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func names[V any](a, b map[string]V) []string {
	var out []string
	for _, m := range []map[string]V{a, b} {
		for name := range m {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// agents says how an agent differs.
func agents(before, after map[string]agent.Agent, name string) (out []string) {
	a, was := before[name]
	b, is := after[name]
	switch {
	case !is:
		return []string{"it is gone: its turns fail"}
	case !was:
		return []string{"it is new"}
	}
	if a.Model != b.Model {
		out = append(out, fmt.Sprintf("model: %s instead of %s", b.Model, a.Model))
	}
	out = append(out, lacking("tools: without ", a.Tools, b.Tools)...)
	out = append(out, lacking("tools: with ", b.Tools, a.Tools)...)
	for _, f := range fields(a, b, "Model", "Tools") {
		out = append(out, f.name+" differ")
	}
	return out
}

// field is a field of a structure that differs.
type field struct {
	name    string
	was, is any
}

// fields compares the exported fields of two structures, except some.
func fields(a, b any, except ...string) (out []field) {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		f := va.Type().Field(i)
		if !f.IsExported() || slices.Contains(except, f.Name) {
			continue
		}
		if was, is := va.Field(i).Interface(), vb.Field(i).Interface(); !reflect.DeepEqual(was, is) {
			out = append(out, field{strings.ToLower(f.Name[:1]) + f.Name[1:], was, is})
		}
	}
	return out
}

// String says how the field differs.
func (f field) String() string {
	show := func(v any) any {
		if reflect.ValueOf(v).IsZero() {
			return "the default"
		}
		return v
	}
	return fmt.Sprintf("%s: %v instead of %v", f.name, show(f.is), show(f.was))
}

// differs says that things with a name differ, for which it is not worth while to say how.
func differs[T any](_, _ T) []string { return []string{"it differs"} }

// named compares lists of things by their names. how says how two of them differ that are not equal.
func named[T any](before, after []T, name func(T) string, gone string, how func(T, T) []string) []Change {
	out := []Change{}
	index := func(list []T) map[string]T {
		m := map[string]T{}
		for _, one := range list {
			m[name(one)] = one
		}
		return m
	}
	a, b := index(before), index(after)
	for _, n := range names(a, b) {
		x, was := a[n]
		y, is := b[n]
		switch {
		case !is:
			out = append(out, Change{Name: n, Changes: []string{gone}})
		case !was:
			out = append(out, Change{Name: n, Changes: []string{"it is new"}})
		case !reflect.DeepEqual(x, y):
			if changes := how(x, y); len(changes) > 0 {
				out = append(out, Change{Name: n, Changes: changes})
			}
		}
	}
	return out
}

func tools(before, after []tool.Definition) []Change {
	return named(before, after, func(d tool.Definition) string { return d.Name }, "it is gone: calls of it fail", differs)
}

func rules(before, after []rule.Spec) []Change {
	return named(before, after, func(s rule.Spec) string { return s.Name }, "it is gone: other rules get its events", differs)
}

// inProgress is what a changed hook means for the events on which it decides.
const inProgress = "decisions in progress continue with the former one"

func hooks(before, after []hook.Hook) []Change {
	name := func(h hook.Hook) string { return h.Name }
	out := named(before, after, name, "it is gone: the next events pass without it; "+inProgress, func(a, b hook.Hook) (out []string) {
		if was, is := runsAs(a), runsAs(b); was != is {
			out = append(out, is+" instead of "+was)
		}
		if !reflect.DeepEqual(a.Filter, b.Filter) {
			out = append(out, "filter: "+filter(b.Filter)+" instead of "+filter(a.Filter))
		}
		for _, f := range fields(a, b, "Func", "Inline", "Workflow", "Filter") {
			out = append(out, f.String())
		}
		if len(out) > 0 {
			out = append(out, inProgress)
		}
		return out
	})
	was, is := shared(before, after, name), shared(after, before, name)
	if was != is {
		out = append(out, Change{Name: is, Changes: []string{"they run in this order instead of " + was}})
	}
	return out
}

// runsAs says how a hook runs.
func runsAs(h hook.Hook) string {
	switch {
	case h.Workflow != nil:
		return fmt.Sprintf("workflow %s on task queue %s", h.Workflow.Type, cmp.Or(h.Workflow.TaskQueue, "of the threads"))
	case h.Inline != nil:
		return "an inline function"
	}
	return "a function"
}

func filter(f hook.Filter) string {
	text, err := json.Marshal(f)
	if err != nil {
		return "one that cannot be shown"
	}
	return string(text)
}

// shared returns the names of a list that another one has too, in their order.
func shared[T any](all, others []T, name func(T) string) string {
	var names []string
	for _, one := range all {
		if slices.ContainsFunc(others, func(o T) bool { return name(o) == name(one) }) {
			names = append(names, name(one))
		}
	}
	return strings.Join(names, ", ")
}

// webhooks never shows secrets.
func webhooks(before, after []webhook.Endpoint) []Change {
	return named(before, after, func(e webhook.Endpoint) string { return e.Name }, "it is gone: its requests are rejected", func(a, b webhook.Endpoint) (out []string) {
		for _, f := range fields(a, b) {
			out = append(out, f.name+" differs")
		}
		return out
	})
}

// knowledgeEffects are the effects of changed fields of the section knowledge.
var knowledgeEffects = map[string]string{
	"embedder":      "all documents and entities get new vectors",
	"dimension":     "all documents and entities get new vectors",
	"chunkTokens":   "documents keep their chunks until they are ingested again",
	"overlapTokens": "documents keep their chunks until they are ingested again",
	"contextModel":  "documents keep their contexts until they are ingested again",
}

// settings compares the sections that are one thing each.
func settings(before, after Side) []Change {
	out := []Change{}
	add := func(name string, changes []string) {
		if len(changes) > 0 {
			out = append(out, Change{Name: name, Changes: changes})
		}
	}
	var changes []string
	for _, f := range fields(before.Knowledge, after.Knowledge) {
		text := f.String()
		if effect := knowledgeEffects[f.name]; effect != "" {
			text += ": " + effect
		}
		changes = append(changes, text)
	}
	add("knowledge", changes)
	add("retention", keeps(before.Retention, after.Retention))
	if !before.Redact.Equal(after.Redact) {
		add("redact", []string{"it differs: what is stored already stays as it is"})
	}
	return out
}

// keeps says how a retention differs, and what its next pass does.
func keeps(before, after retention.Due) (out []string) {
	for _, age := range []struct {
		name, was, is string
		effect        string
	}{
		{"idleThreads", before.IdleThreads, after.IdleThreads, fmt.Sprintf("the next pass closes %d threads instead of %d", len(after.Close), len(before.Close))},
		{"closedThreads", before.ClosedThreads, after.ClosedThreads, fmt.Sprintf("the next pass erases %d threads instead of %d", len(after.Erase), len(before.Erase))},
		{"toolLogs", before.ToolLogAge, after.ToolLogAge, fmt.Sprintf("the next pass deletes %d logs of tool calls instead of %d", after.ToolLogs, before.ToolLogs)},
		{"every", before.Every, after.Every, ""},
	} {
		if age.was == age.is {
			continue
		}
		text := fmt.Sprintf("%s: %s instead of %s", age.name, cmp.Or(age.is, "never"), cmp.Or(age.was, "never"))
		if age.effect != "" {
			text += ": " + age.effect
		}
		out = append(out, text)
	}
	return out
}

// call says what the change does to a call that waits.
func call(ctx context.Context, namespace string, policy Policy, before, after Side, waiting threadclient.WaitingApproval) []string {
	out := []string{}
	r := waiting.Request
	old, had := before.Agents[strings.ToLower(r.Agent)]
	who, has := after.Agents[strings.ToLower(r.Agent)]
	if !has {
		return append(out, fmt.Sprintf("agent %s is gone: the call cannot run", r.Agent))
	}
	if had && old.Model != who.Model {
		out = append(out, fmt.Sprintf("agent %s continues with %s instead of %s", r.Agent, who.Model, old.Model))
	}
	if had && offers(old, r.ToolName) && !offers(who, r.ToolName) {
		return append(out, fmt.Sprintf("agent %s no longer has the tool %s: the call cannot run", r.Agent, r.ToolName))
	}
	definition, known := after.Tool(r.ToolName)
	if _, was := before.Tool(r.ToolName); was && !known {
		return append(out, fmt.Sprintf("the tool %s is gone: the call cannot run", r.ToolName))
	}
	if !json.Valid([]byte(r.Arguments)) {
		return append(out, "the arguments are too long to be checked here")
	}
	if !known { // that of an MCP server: the rules see the call all the same
		definition = tool.Definition{Name: r.ToolName, Parameters: json.RawMessage(`{"type":"object"}`), NeedsApproval: true}
	}
	verdict, err := policy(after.ApprovalRules, who, definition, namespace, waiting.ThreadID, r.Arguments)
	if err != nil {
		return append(out, "the call cannot run: "+err.Error())
	}
	switch verdict.Effect {
	case approval.EffectDeny:
		out = append(out, fmt.Sprintf("%s denies it: an approval does not help", verdict.Rule))
	case approval.EffectAllow:
		out = append(out, "it would need no approval; this call still waits for one")
	case approval.EffectAsk:
		out = append(out, terms(ctx, namespace, before, after, r, verdict.Terms)...)
	}
	return out
}

// offers reports whether an agent has a tool.
func offers(a agent.Agent, name string) bool {
	return slices.ContainsFunc(a.Tools, func(t string) bool {
		server, all := strings.CutSuffix(t, "*")
		return t == name || all && strings.HasPrefix(name, server)
	})
}

// terms says how the terms of a request would differ.
func terms(ctx context.Context, namespace string, before, after Side, r event.ApprovalRequest, t approval.Terms) (out []string) {
	was := before.deciders(ctx, namespace, approval.Terms{Approvers: r.Approvers, Groups: r.Groups})
	if is := after.deciders(ctx, namespace, t); is != was {
		out = append(out, fmt.Sprintf("approvers: %s instead of %s", is, was))
	}
	if was, is := max(r.Quorum, 1), max(t.Quorum, 1); was != is {
		out = append(out, fmt.Sprintf("quorum: %d instead of %d", is, was))
	}
	return out
}

// deciders returns the people who may decide, members of groups included.
func (s Side) deciders(ctx context.Context, namespace string, t approval.Terms) string {
	if !t.Restricted() {
		return "anybody"
	}
	people := slices.Clone(t.Approvers)
	for _, group := range t.Groups {
		members, problem := s.members(ctx, namespace, group)
		if problem != "" {
			members = []string{fmt.Sprintf("group %s, which %s", group, problem)}
		}
		people = append(people, members...)
	}
	if slices.Sort(people); len(people) == 0 {
		return "nobody"
	}
	return strings.Join(slices.Compact(people), ", ")
}

// members returns the members of a group, or why they are not known.
func (s Side) members(ctx context.Context, namespace, group string) (members []string, problem string) {
	err := approval.ErrNoGroup
	if s.Groups != nil {
		members, err = s.Groups.Members(ctx, namespace, group)
	}
	switch {
	case errors.Is(err, approval.ErrNoGroup):
		return nil, "does not exist"
	case err != nil:
		return nil, "could not be read"
	}
	return members, ""
}

// groups compares the members of the groups that the agents and rules of either side name.
func groups(ctx context.Context, namespace string, before, after Side) []Change {
	out := []Change{}
	for _, group := range names(before.groups(), after.groups()) {
		was, missed := before.members(ctx, namespace, group)
		is, missing := after.members(ctx, namespace, group)
		var changes []string
		if missing != missed {
			changes = append(changes, "it "+cmp.Or(missing, "is new"))
		} else {
			changes = append(changes, lacking("without ", was, is)...)
			changes = append(changes, lacking("with ", is, was)...)
		}
		if len(changes) > 0 {
			out = append(out, Change{Name: group, Changes: changes})
		}
	}
	return out
}

// groups returns the names of the groups that agents and rules name.
func (s Side) groups() map[string]bool {
	out := map[string]bool{}
	add := func(t approval.Terms) {
		for _, group := range t.Groups {
			out[group] = true
		}
	}
	rules := func(rules []approval.Rule) {
		for _, r := range rules {
			add(r.Terms)
		}
	}
	rules(s.ApprovalRules)
	for _, a := range s.Agents {
		add(a.ApprovalTerms)
		rules(a.ApprovalRules)
	}
	return out
}

// lacking says which of the values are not among the others.
func lacking(word string, values, others []string) (out []string) {
	for _, v := range values {
		if !slices.Contains(others, v) {
			out = append(out, word+v)
		}
	}
	return out
}

// ErrNotChecked means that the process cannot read files of configurations.
var ErrNotChecked = errors.New("this process does not read configuration files: it cannot compare one")
