package program

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/mcp/sealed"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/clock"
	"github.com/threadmill/threadmill/tool/shell"
	"github.com/threadmill/threadmill/webhook"
)

// SettingsConfig configures [Load].
type SettingsConfig struct {
	// File is the path of the configuration. Default: none, and the environment configures one
	// agent.
	File string

	// Workspace is the working directory of shell_cmd without a File. Default: the folder
	// "workspace" below the program's working directory.
	Workspace string

	// TaskQueue is the task queue of the threads. Default [signals.DefaultTaskQueue].
	TaskQueue string

	// AllowedHosts are the values of --allowed-hosts. Default: those of [EnvAllowedHosts], or else
	// those of File.
	AllowedHosts []string

	// AllowedOrigins are the values of --allowed-origins. Default: those of [EnvAllowedOrigins], or
	// else those of File.
	AllowedOrigins []string

	// SecretsFile is the path of a file with a key that encrypts secrets in the store. It is created if it does
	// not exist. Default: the key is in [EnvSecretsKey], or there is none.
	SecretsFile string

	// Declared is what the application declares in Go: File may refer to its names.
	Declared threadmill.Config

	// DeclaredAPI is what it declares of the API.
	DeclaredAPI httpapi.Config

	// Getenv defaults to os.Getenv.
	Getenv func(string) string

	// Logger logs edits of File. Default: slog.Default().
	Logger *slog.Logger
}

// Settings are what a configuration declares, and what is made of it. File applies as of the start; sources follow the file.
type Settings struct {
	// File is what the file has, or the environment without one. Its models, tools, keys and addresses are not those that apply.
	File *config.Config

	AgentSource    agent.Source
	ApproverGroups approval.Groups
	RuleSource     rule.Source
	WebhookSource  webhook.Source

	Models       map[string]llm.Provider
	ModelRetries map[string]llm.Retry
	ModelLimits  map[string]llm.Limits
	Tools        []tool.Tool

	// APIKeys are those of the environment.
	APIKeys   []auth.Key
	KeySource auth.KeySource

	// AllowedHosts are the names by which requests may call the listeners.
	AllowedHosts []string

	// AllowedOrigins are the origins whose web pages may call the API.
	AllowedOrigins []string

	// PublicURL is the origin by which browsers reach the API. Empty = unknown.
	PublicURL string

	// secrets encrypt what is secret in the store. Without a key, nothing secret is stored.
	secrets sealed.Keys

	getenv func(string) string

	// folder is that of the file, to which its paths are relative.
	folder string
}

// EnvPublicURL is the variable with the origin by which browsers reach the API.
const EnvPublicURL = "THREADMILL_PUBLIC_URL"

// EnvAllowedHosts is the variable with the names by which requests may call the listeners,
// separated by commas.
const EnvAllowedHosts = "THREADMILL_ALLOWED_HOSTS"

// EnvAllowedOrigins is the variable with the origins whose web pages may call the API, separated by
// commas.
const EnvAllowedOrigins = "THREADMILL_ALLOWED_ORIGINS"

// Load reads the configuration and constructs its parts, and creates the working directory of
// shell_cmd.
func Load(cfg SettingsConfig) (Settings, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.TaskQueue == "" {
		cfg.TaskQueue = signals.DefaultTaskQueue
	}
	s := Settings{getenv: cfg.Getenv, folder: filepath.Dir(cfg.File)}
	if err := conflicts(cfg); err != nil {
		return s, err
	}
	c, err := s.read(cfg)
	if err != nil {
		return s, err
	}
	if len(c.ApproverGroups) > 0 && cfg.Declared.ApproverGroups != nil {
		return s, Usagef("approverGroups: the program sets Config.ApproverGroups, which the file would replace: remove approverGroups from the file")
	}
	if c.Redact != nil && cfg.Declared.Redact != nil {
		return s, Usagef("redact: the program sets Config.Redact, which the file would replace: remove redact from the file")
	}
	if err := s.addKeys(cfg.Getenv(EnvAPIKeys)); err != nil {
		return s, err
	}
	s.File = c
	if s.AllowedHosts, err = chosen("--allowed-hosts", cfg.AllowedHosts, EnvAllowedHosts, cfg.Getenv, c.AllowedHosts,
		func(list []string) error { return guard.Hosts{Allowed: list}.Validate() }); err != nil {
		return s, err
	}
	if s.AllowedOrigins, err = chosen("--allowed-origins", cfg.AllowedOrigins, EnvAllowedOrigins, cfg.Getenv, c.AllowedOrigins,
		func(list []string) error { return guard.Origins(list).Validate() }); err != nil {
		return s, err
	}
	if err := s.setPublicURL(cmp.Or(cfg.Getenv(EnvPublicURL), c.PublicURL)); err != nil {
		return s, err
	}
	if s.secrets, err = secrets(cfg.Getenv(EnvSecretsKey), cfg.SecretsFile); err != nil {
		return s, err
	}
	s.Models, s.ModelRetries, s.ModelLimits = map[string]llm.Provider{}, map[string]llm.Retry{}, map[string]llm.Limits{}
	for _, p := range c.Models {
		if cfg.Declared.Models[p.Name] != nil {
			continue // one of the environment: a file cannot declare it
		}
		if p.Limits != (llm.Limits{}) {
			s.ModelLimits[p.Name] = p.Limits
		}
		s.ModelRetries[p.Name] = p.Retry
		if s.Models[p.Name], err = provider(p, c.Keys[p.Name]); err != nil {
			return s, Usagef("models.%s: %w", p.Name, err)
		}
	}
	s.Tools, err = tools(c, cfg)
	return s, err
}

// chosen returns the list of a flag, or else that of an environment variable, or else that of the
// file, which was validated with the file.
func chosen(flag string, list []string, variable string, getenv func(string) string, inFile []string, validate func([]string) error) ([]string, error) {
	name := flag
	if env := getenv(variable); len(list) == 0 && env != "" {
		name, list = variable, strings.Split(env, ",")
	}
	if len(list) == 0 {
		return inFile, nil
	}
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	if err := validate(list); err != nil {
		return nil, Usagef("%s: %w", name, err)
	}
	return list, nil
}

// setPublicURL sets the origin by which browsers reach the API, and permits its host.
func (s *Settings) setPublicURL(origin string) error {
	if origin == "" {
		return nil
	}
	origin = strings.TrimSuffix(origin, "/")
	if err := (guard.Origins{origin}).Validate(); err != nil {
		return Usagef("%s: %w", EnvPublicURL, err)
	}
	u, err := url.Parse(origin)
	if err != nil {
		return Usagef("%s: %w", EnvPublicURL, err)
	}
	s.PublicURL = origin
	if !slices.Contains(s.AllowedHosts, u.Hostname()) {
		s.AllowedHosts = append(slices.Clone(s.AllowedHosts), u.Hostname())
	}
	return nil
}

func (s *Settings) read(cfg SettingsConfig) (*config.Config, error) {
	if cfg.File == "" {
		c, err := config.Default(cfg.Getenv)
		if err != nil {
			return nil, &usageError{err}
		}
		if cfg.Workspace != "" {
			c.Tools.Shell.Root = cfg.Workspace
		}
		if len(cfg.Declared.Agents) > 0 || cfg.Declared.AgentSource != nil {
			c.Agents, c.TitleModel = nil, "" // the application has its own
			return c, nil
		}
		for _, t := range cfg.Declared.Tools {
			c.Agents[0].Tools = append(c.Agents[0].Tools, t.Definition().Name)
		}
		s.AgentSource = c.Agents
		return c, nil
	}
	source, err := config.Open(cfg.File, cfg.Logger, config.Env(cfg.Getenv), config.ThreadsQueue(cfg.TaskQueue), config.Declares(declaredNames(cfg.Declared)))
	var mistake *config.Error
	switch {
	case errors.As(err, &mistake):
		return nil, err
	case err != nil:
		return nil, Usagef("--config: %w", err)
	}
	s.AgentSource, s.RuleSource, s.WebhookSource, s.KeySource = source, source, source, source
	if cfg.Declared.ApproverGroups == nil {
		s.ApproverGroups = source
	}
	return source.Config(), nil
}

// tools returns the tools of connected clients and all built-in ones that the application does not replace: an edit of
// the file may add a tool to an agent. Without a file, an application's own agents name what they need.
func tools(c *config.Config, cfg SettingsConfig) ([]tool.Tool, error) {
	declared := declaredNames(cfg.Declared)
	list := []tool.Tool{}
	if !slices.Contains(declared.Tools, config.CurrentTime) {
		list = append(list, clock.New(clock.Config{Timezone: c.Tools.Clock.Timezone}))
	}
	for _, d := range c.Tools.Client {
		list = append(list, tool.ClientSide(d))
	}
	needed := named(c, cfg.Declared, config.ShellCmd)
	if slices.Contains(declared.Tools, config.ShellCmd) || !needed && cfg.File == "" {
		return list, nil
	}
	cmd, err := shellTool(c.Tools.Shell)
	switch {
	case err == nil:
		list = append(list, cmd)
	case needed:
		return nil, Usagef("tools.shell_cmd: %w", err)
	default:
		cfg.Logger.Info("shell_cmd is not available; nothing names it", "error", err)
	}
	return list, nil
}

// named reports whether an agent, an approval rule or a hook names a tool.
func named(c *config.Config, declared threadmill.Config, name string) bool {
	has := func(names []string) bool { return slices.Contains(names, name) }
	return slices.ContainsFunc(slices.Concat(c.Agents, declared.Agents), func(a agent.Agent) bool { return has(a.Tools) }) ||
		slices.ContainsFunc(slices.Concat(c.ApprovalRules, declared.ApprovalRules), func(r approval.Rule) bool { return has(r.Tools) }) ||
		slices.ContainsFunc(slices.Concat(c.Hooks, declared.Hooks), func(h hook.Hook) bool { return has(h.Filter.Tools) })
}

func shellTool(s config.Shell) (tool.Tool, error) {
	if err := os.MkdirAll(s.Root, 0o750); err != nil {
		return nil, fmt.Errorf("root: %w: set another one", err)
	}
	return shell.New(shell.Config{
		Root: s.Root, Timeout: s.Timeout, MaxOutput: s.MaxOutput, MaxProgress: s.MaxProgress, Env: s.Env, Runner: s.Runner,
	})
}

func knowledgeOf(k config.Knowledge) threadmill.Knowledge {
	return threadmill.Knowledge{
		Embedder: k.Embedder, Dimension: k.Dimension, ChunkTokens: k.ChunkTokens, OverlapTokens: k.OverlapTokens,
		ContextModel: k.ContextModel, RerankModel: k.RerankModel, EntityModel: k.EntityModel, PrivateAddresses: k.PrivateAddresses,
	}
}
