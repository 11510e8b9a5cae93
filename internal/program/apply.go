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
	"github.com/threadmill/threadmill/tool"
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

// Apply adds the settings to the configurations of a runtime and of its API, which may declare parts of their own.
func (s Settings) Apply(cfg *threadmill.Config, api *httpapi.Config) {
	cfg.Propose = s.proposing(*cfg, api.Webhooks)
	beside(cfg, s.File)
	cfg.Models, cfg.Fallbacks = merged(s.Models, cfg.Models), merged(s.File.Fallbacks, cfg.Fallbacks)
	cfg.ModelRetries, cfg.ModelLimits = merged(s.ModelRetries, cfg.ModelRetries), merged(s.ModelLimits, cfg.ModelLimits)
	cfg.Tools = slices.Concat(s.Tools, cfg.Tools)
	if s.AgentSource != nil {
		cfg.AgentSource = s.AgentSource
	}
	if s.ApproverGroups != nil {
		cfg.ApproverGroups = s.ApproverGroups
	}
	if s.RuleSource != nil {
		cfg.RuleSource = s.RuleSource
	}
	if s.WebhookSource != nil {
		api.WebhookSource = s.WebhookSource
	}
	api.TemporalUI = cmp.Or(s.File.TemporalUI, api.TemporalUI)
	if len(s.AllowedHosts) > 0 {
		api.AllowedHosts = s.AllowedHosts
	}
	if len(s.AllowedOrigins) > 0 {
		api.AllowedOrigins = s.AllowedOrigins
	}
}

// beside adds to what a program declares what needs a restart to follow the file. The file's choice of single values, such as the title
// model, precedes that of the program.
func beside(cfg *threadmill.Config, file *config.Config) {
	cfg.ApprovalRules = slices.Concat(cfg.ApprovalRules, file.ApprovalRules)
	cfg.Hooks = ordered(cfg.Hooks, file.Hooks)
	cfg.TitleModel, cfg.StaleAfter = cmp.Or(file.TitleModel, cfg.TitleModel), cmp.Or(file.StaleAfter, cfg.StaleAfter)
	cfg.StepsAsActivities = file.StepsAsActivities || cfg.StepsAsActivities
	cfg.Knowledge = cmp.Or(knowledgeOf(file.Knowledge), cfg.Knowledge)
	cfg.Knowledge.Reader = cmp.Or(cfg.Knowledge.Reader, formats.Reader())
	cfg.Retention = cmp.Or(threadmill.Retention(file.Retention), cfg.Retention)
	cfg.Redact = cmp.Or(file.Redact, cfg.Redact)
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
	for _, h := range s.File.Hooks {
		if h.Workflow != nil {
			list = append(list, fmt.Sprintf("%s (%s on task queue %s)", h.Name, h.Workflow.Type, h.Workflow.TaskQueue))
		}
	}
	return strings.Join(list, ", ")
}

// proposing returns the function that reads a changed file, beside what the program declares.
func (s Settings) proposing(declared threadmill.Config, webhooks []webhook.Endpoint) func([]byte) (threadmill.Config, []webhook.Endpoint, error) {
	return func(text []byte) (threadmill.Config, []webhook.Endpoint, error) {
		cfg := declared
		file, err := config.Parse("the file", text, s.folder, config.Env(s.getenv), config.ThreadsQueue(declared.TaskQueue), config.Declares(declaredNames(declared)))
		if err != nil {
			return cfg, nil, err
		}
		beside(&cfg, file)
		cfg.Agents, cfg.Rules = file.Agents, slices.Concat(declared.Rules, file.Rules)
		cfg.Tools = slices.Clone(declared.Tools)
		for _, d := range file.Tools.Client {
			cfg.Tools = append(cfg.Tools, tool.ClientSide(d))
		}
		if declared.ApproverGroups == nil {
			cfg.ApproverGroups = file.ApproverGroups
		}
		return cfg, slices.Concat(webhooks, file.Webhooks), nil
	}
}
