package program

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/webhook"
)

// declaredNames returns the names to which a file may refer.
func declaredNames(cfg threadmill.Config) config.Declared {
	d := config.Declared{Models: slices.Sorted(maps.Keys(cfg.Models)), Fallbacks: slices.Sorted(maps.Keys(cfg.Fallbacks))}
	for _, t := range cfg.Tools {
		d.Tools = append(d.Tools, t.Definition().Name)
	}
	for _, a := range cfg.Agents {
		d.Agents = append(d.Agents, a.Name)
	}
	for _, h := range cfg.Hooks {
		d.Hooks = append(d.Hooks, h.Name)
	}
	if groups, fixed := cfg.ApproverGroups.(approval.FixedGroups); fixed {
		d.Groups = slices.Sorted(maps.Keys(groups))
	} else {
		d.AnyGroup = cfg.ApproverGroups != nil
	}
	return d
}

// conflicts reports what both a file and the application would provide at run time.
func conflicts(cfg SettingsConfig) error {
	if cfg.File == "" {
		return nil
	}
	for _, source := range []struct {
		field string
		set   bool
	}{
		{"AgentSource", cfg.Declared.AgentSource != nil},
		{"RuleSource", cfg.Declared.RuleSource != nil},
		{"WebhookSource", cfg.DeclaredAPI.WebhookSource != nil},
	} {
		if source.set {
			return Usagef("--config: the program sets Config.%s, which the file would replace: omit the flag", source.field)
		}
	}
	return nil
}

// Apply adds the settings to the configurations of a runtime and of its API, which may declare parts of their own. The file's choice
// of single values, such as the title model, precedes that of the program.
func (s Settings) Apply(cfg *threadmill.Config, api *httpapi.Config) {
	cfg.Propose = s.proposing(*cfg, api.Webhooks)
	cfg.Models, cfg.Fallbacks = merged(s.Models, cfg.Models), merged(s.Fallbacks, cfg.Fallbacks)
	cfg.ModelRetries, cfg.ModelLimits = merged(s.ModelRetries, cfg.ModelRetries), merged(s.ModelLimits, cfg.ModelLimits)
	cfg.Tools = slices.Concat(s.Tools, cfg.Tools)
	cfg.ApprovalRules = slices.Concat(cfg.ApprovalRules, s.ApprovalRules)
	cfg.Hooks = ordered(cfg.Hooks, s.Hooks)
	cfg.TitleModel, cfg.StaleAfter, api.TemporalUI = cmp.Or(s.TitleModel, cfg.TitleModel), cmp.Or(s.StaleAfter, cfg.StaleAfter), cmp.Or(s.TemporalUI, api.TemporalUI)
	cfg.StepsAsActivities = s.StepsAsActivities || cfg.StepsAsActivities
	cfg.Knowledge = readable(cmp.Or(s.Knowledge, cfg.Knowledge))
	cfg.Retention = cmp.Or(s.Retention, cfg.Retention)
	if len(s.AllowedHosts) > 0 {
		api.AllowedHosts = s.AllowedHosts
	}
	if len(s.AllowedOrigins) > 0 {
		api.AllowedOrigins = s.AllowedOrigins
	}
	if s.AgentSource != nil {
		cfg.AgentSource = s.AgentSource
	}
	if s.ApproverGroups != nil {
		cfg.ApproverGroups = s.ApproverGroups
	}
	cfg.Redact = cmp.Or(s.Redact, cfg.Redact)
	if s.RuleSource != nil {
		cfg.RuleSource = s.RuleSource
	}
	if s.WebhookSource != nil {
		api.WebhookSource = s.WebhookSource
	}
}

// readable returns the settings with a reader of documents.
func readable(k threadmill.Knowledge) threadmill.Knowledge {
	k.Reader = cmp.Or(k.Reader, formats.Reader())
	return k
}

// merged adds the values of the program to those of the settings.
func merged[V any](settings, own map[string]V) map[string]V {
	all := maps.Clone(settings)
	if all == nil {
		return own
	}
	maps.Copy(all, own)
	return all
}

// ordered returns the hooks of the program, followed by those of the file. The file may name hooks of the program,
// which then run at that place.
func ordered(own, file []hook.Hook) []hook.Hook {
	named := func(list []hook.Hook, name string) int {
		return slices.IndexFunc(list, func(h hook.Hook) bool { return h.Name == name })
	}
	var out []hook.Hook
	for _, h := range own {
		if named(file, h.Name) < 0 {
			out = append(out, h)
		}
	}
	for _, h := range file {
		if at := named(own, h.Name); at >= 0 {
			h = own[at]
		}
		out = append(out, h)
	}
	return out
}

// WhichHooks lists the hook workflows of the settings, and the task queues that need workers of their own.
func (s Settings) WhichHooks() string {
	var list []string
	for _, h := range s.Hooks {
		if h.Workflow != nil {
			list = append(list, fmt.Sprintf("%s (%s on task queue %s)", h.Name, h.Workflow.Type, h.Workflow.TaskQueue))
		}
	}
	return strings.Join(list, ", ")
}

// proposing returns the function that reads a changed file, beside what the program declares.
func (s Settings) proposing(declared threadmill.Config, webhooks []webhook.Endpoint) func([]byte) (threadmill.Proposal, error) {
	return func(file []byte) (threadmill.Proposal, error) {
		c, err := config.Parse("the file", file, s.folder, config.Env(s.getenv), config.ThreadsQueue(declared.TaskQueue), config.Declares(declaredNames(declared)))
		if err != nil {
			return threadmill.Proposal{}, err
		}
		p := threadmill.Proposal{
			Agents: c.Agents, ClientTools: c.Tools.Client, Rules: slices.Concat(declared.Rules, c.Rules), Hooks: ordered(declared.Hooks, c.Hooks),
			ApprovalRules: slices.Concat(declared.ApprovalRules, c.ApprovalRules), ApproverGroups: declared.ApproverGroups,
			Webhooks: slices.Concat(webhooks, c.Webhooks), Knowledge: readable(cmp.Or(knowledgeOf(c.Knowledge), declared.Knowledge)),
			Retention: cmp.Or(threadmill.Retention(c.Retention), declared.Retention), Redact: cmp.Or(c.Redact, declared.Redact),
		}
		if declared.ApproverGroups == nil {
			p.ApproverGroups = c.ApproverGroups
		}
		for _, t := range declared.Tools {
			if d := t.Definition(); d.Client {
				p.ClientTools = append(p.ClientTools, d)
			}
		}
		return p, nil
	}
}
