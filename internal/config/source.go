package config

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/webhook"
)

// checkEvery is the minimum interval at which a [Source] checks its files.
const checkEvery = time.Second

// Source is an [agent.Source] that follows a file: it returns agents as in the file, at most a
// second old, so an edited prompt applies to the next model call.
//
// It is also a [rule.Source]: an edited rule applies to the next event.
//
// If the file becomes invalid or unreadable, the last valid agents and rules remain, and the errors
// are logged once. Providers and tools do not change until a restart: a change is logged, and an
// agent that uses a new or changed provider is an error.
type Source struct {
	path string
	abs  string
	opts []Option
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	current *Config
	files   []file
	checked time.Time
	warned  string // which parts need a restart
}

var (
	_ agent.Source = (*Source)(nil)
	_ agent.Lister = (*Source)(nil)
	_ rule.Source  = (*Source)(nil)

	_ approval.Groups = (*Source)(nil)
)

// Open loads the file at path and follows it. A nil log discards messages.
func Open(path string, log *slog.Logger, opts ...Option) (*Source, error) {
	return open(path, log, time.Now, opts)
}

func open(path string, log *slog.Logger, now func() time.Time, opts []Option) (*Source, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// The path stays valid if the working directory changes.
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, files, err := load(path, abs, opts)
	if err != nil {
		return nil, err
	}
	return &Source{path: path, abs: abs, opts: opts, log: log, now: now, checked: now(), current: c, files: files}, nil
}

// Agent implements [agent.Source]. All namespaces have the file's agents.
func (s *Source) Agent(ctx context.Context, namespace, name string) (agent.Agent, error) {
	return s.Config().Agents.Agent(ctx, namespace, name)
}

// Agents implements [agent.Lister].
func (s *Source) Agents(ctx context.Context, namespace string) ([]agent.Agent, error) {
	return s.Config().Agents.Agents(ctx, namespace)
}

// Rules implements [rule.Source]. All namespaces have the file's rules.
func (s *Source) Rules() []rule.Rule { return s.Config().Rules }

// Webhooks returns the current endpoints. The caller must not change them.
func (s *Source) Webhooks() []webhook.Endpoint { return s.Config().Webhooks }

// APIKeys returns the current API keys. The caller must not change them.
func (s *Source) APIKeys() []auth.Key { return s.Config().APIKeys }

// Members implements [approval.Groups].
func (s *Source) Members(ctx context.Context, namespace, group string) ([]string, error) {
	return s.Config().ApproverGroups.Members(ctx, namespace, group)
}

// Config returns the last valid configuration. The caller must not change it.
func (s *Source) Config() *Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that is set back must not stop the checks.
	if since := s.now().Sub(s.checked); since >= checkEvery || since < 0 {
		s.checked = s.now()
		if slices.ContainsFunc(s.files, file.changed) {
			s.reload()
		}
	}
	return s.current
}

func (s *Source) reload() {
	c, files, err := load(s.path, s.abs, s.opts)
	if err == nil {
		err = s.adopt(c)
	}
	s.files = files
	if err != nil {
		s.log.Error("the configuration has mistakes; agents and rules stay as they were", "file", s.path, "error", err)
		if c != nil && c.keysHold {
			s.revoke(c.APIKeys)
		}
		return
	}
	s.current = c
	s.log.Info("the configuration was read again", "file", s.path, "agents", len(c.Agents), "rules", len(c.Rules))
}

// revoke takes from a file with mistakes which API keys are no longer there, or expire sooner.
func (s *Source) revoke(now []auth.Key) {
	kept := *s.current
	kept.APIKeys = nil
	for _, key := range s.current.APIKeys {
		i := slices.IndexFunc(now, func(k auth.Key) bool { return k.Hash == key.Hash })
		if i < 0 {
			s.log.Warn("an API key was revoked", "file", s.path, "key", key.Name)
			continue
		}
		if at := now[i].ExpiresAt; !at.IsZero() && (key.ExpiresAt.IsZero() || at.Before(key.ExpiresAt)) {
			key.ExpiresAt = at
		}
		kept.APIKeys = append(kept.APIKeys, key)
	}
	s.current = &kept
}

// adopt keeps the parts that need a restart.
func (s *Source) adopt(c *Config) error {
	for _, a := range c.Agents {
		if _, chain := c.Fallbacks[a.Model]; chain {
			if _, before := s.current.Fallbacks[a.Model]; !before {
				return fmt.Errorf("agent %q uses the fallback chain %q, which is new: restart to use it", a.Name, a.Model)
			}
			continue
		}
		if name, _, _ := strings.Cut(a.Model, "/"); slices.Contains(c.declared.Models, name) || slices.Contains(c.declared.Fallbacks, name) {
			continue
		}
		now, _, _ := c.Provider(a.Model)
		if before, _, ok := s.current.Provider(a.Model); !ok || before != now {
			return fmt.Errorf("agent %q uses provider %q, which is new or has changed: restart to use it", a.Name, now.Name)
		}
	}
	changed := s.needRestart(c)
	if changed != "" && changed != s.warned {
		s.log.Warn(changed+" have changed: restart to apply that", "file", s.path)
	}
	s.warned = changed
	c.Models, c.Fallbacks, c.Tools, c.Hooks, c.StaleAfter, c.StepsAsActivities = s.current.Models, s.current.Fallbacks, s.current.Tools, s.current.Hooks, s.current.StaleAfter, s.current.StepsAsActivities
	c.MCP, c.MCPAPI = s.current.MCP, s.current.MCPAPI
	c.TemporalUI, c.Keys = s.current.TemporalUI, s.current.Keys
	c.AllowedHosts, c.AllowedOrigins, c.PublicURL = s.current.AllowedHosts, s.current.AllowedOrigins, s.current.PublicURL
	c.TitleModel, c.ApprovalRules = s.current.TitleModel, s.current.ApprovalRules
	return fits(c)
}

// fits reports names in the agents, or in the rules and hooks of the process, that mean nothing to each
// other. Under another name, an agent would escape them.
func fits(c *Config) error {
	known := c.names()
	problems := known.Rules(c.ApprovalRules)
	for i, h := range c.Hooks {
		for _, p := range known.Filter(h.Filter) {
			problems = append(problems, &event.FieldError{Field: fmt.Sprintf("hooks[%d].%s", i, p.Field), Problem: p.Problem})
		}
	}
	for i, a := range c.Agents {
		for _, p := range known.Agent(a) {
			problems = append(problems, &event.FieldError{Field: fmt.Sprintf("agents[%d].%s", i, p.Field), Problem: p.Problem})
		}
	}
	if err := problems.First(); err != nil {
		return fmt.Errorf("agents do not fit what the process started with, so a restart is required: %w", err)
	}
	return nil
}

// needRestart lists the changed parts of the file that need a restart.
func (s *Source) needRestart(c *Config) string {
	var parts []string
	for _, part := range []struct {
		name string
		same bool
	}{
		{"models", sameProviders(c.Models, s.current.Models) && reflect.DeepEqual(c.Fallbacks, s.current.Fallbacks)},
		{"settings of titles", c.TitleModel == s.current.TitleModel},
		{"tools", reflect.DeepEqual(c.Tools, s.current.Tools)},
		{"mcp", reflect.DeepEqual(c.MCP, s.current.MCP) && c.MCPAPI == s.current.MCPAPI},
		{"hooks", reflect.DeepEqual(c.Hooks, s.current.Hooks)},
		{"approvalRules", reflect.DeepEqual(c.ApprovalRules, s.current.ApprovalRules)},
		{"settings of Temporal", c.StaleAfter == s.current.StaleAfter && c.StepsAsActivities == s.current.StepsAsActivities && c.TemporalUI == s.current.TemporalUI},
		{"settings of HTTP", slices.Equal(c.AllowedHosts, s.current.AllowedHosts) && slices.Equal(c.AllowedOrigins, s.current.AllowedOrigins) && c.PublicURL == s.current.PublicURL},
	} {
		if !part.same {
			parts = append(parts, part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// sameProviders reports whether no provider was added or changed. A removed one is harmless.
func sameProviders(list, before []Provider) bool {
	known := make(map[Provider]bool, len(before))
	for _, p := range before {
		known[p] = true
	}
	for _, p := range list {
		if !known[p] {
			return false
		}
	}
	return true
}
