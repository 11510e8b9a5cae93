package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/builtin"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// Types of a [Provider].
const (
	// OpenAI is OpenAI, and everything that speaks its protocol.
	OpenAI = "openai"
	// Demo is the offline stand-in.
	Demo = "demo"
)

// Names of the built-in tools.
const (
	ShellCmd    = "shell_cmd"
	CurrentTime = "current_time"
)

// Config is what a file declares, checked as a whole.
type Config struct {
	// Agents in the order of the file: the first one is the default agent. Limits of
	// the file are part of each agent; those that are zero have agent's defaults.
	Agents agent.Fixed

	// Models are the providers that the file declares or its agents use, in order of
	// their names. One that no agent uses is left out if a variable of it is not set.
	Models []Provider

	// TitleModel, "provider/model", gives threads without a title one. Empty = none does.
	TitleModel string

	Tools Tools

	// Hooks are workflows that see events, in the order in which they are asked.
	Hooks []hook.Hook

	// Rules say what becomes of environment events, beside the default rules.
	Rules []rule.Rule

	// ApprovalRules look at the tool calls of all agents, before the agents' own.
	ApprovalRules []approval.Rule

	// Webhooks are the sources of webhooks.
	Webhooks []webhook.Endpoint

	// APIKeys are those of the file.
	APIKeys []auth.Key

	// StaleAfter is how long a running step may be silent before it is run again. Zero
	// is the runtime's default.
	StaleAfter time.Duration

	// AllowedHosts are names by which requests may call the API.
	AllowedHosts []string

	// Files are the paths that were read, the configuration itself first. Empty
	// without a file.
	Files []string
}

// Provider describes a provider of models. Two values that are equal describe the
// same provider.
type Provider struct {
	// Name is what stands before the slash in an agent's model.
	Name string

	// Type is [OpenAI] or [Demo].
	Type string

	// BaseURL "" is the provider's own address.
	BaseURL string

	// APIKey "" calls without a key.
	APIKey Secret

	// Retry says how calls that fail are made again.
	Retry llm.Retry
}

// Tools describes the built-in tools, and those of connected clients.
type Tools struct {
	Shell Shell
	Clock Clock

	// Client are tools of connected clients, which run their calls.
	Client []tool.Definition
}

// Shell describes shell_cmd. A zero field has the tool's default.
type Shell struct {
	// Root is the directory that commands start in, an absolute path when the
	// configuration came from a file.
	Root string

	// Timeout of one command.
	Timeout time.Duration

	// MaxOutput and MaxProgress are bytes per stream.
	MaxOutput   int
	MaxProgress int

	// Env names the variables that a command sees besides the usual ones.
	Env []string

	// Runner is the program that runs a command line, with its arguments. Empty = sh -c.
	Runner []string
}

// Clock describes current_time.
type Clock struct {
	// Timezone is the zone of calls that name none. Nil is UTC.
	Timezone *time.Location
}

// DefaultRoot is where shell_cmd works, relative to the folder of the file, or to
// the working directory without one.
const DefaultRoot = "workspace"

// Secret is a string that does not show itself when it is printed, logged or
// encoded.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns stars, or nothing if there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Provider returns the provider of a model written "provider/model", and the name
// of the model.
func (c *Config) Provider(model string) (p Provider, name string, ok bool) {
	prefix, name, _ := strings.Cut(model, "/")
	i, ok := slices.BinarySearchFunc(c.Models, prefix, func(p Provider, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return Provider{}, "", false
	}
	return c.Models[i], name, true
}

// Option sets what few need.
type Option func(*document)

// Env replaces the environment, for tests. Default [os.Getenv].
func Env(getenv func(string) string) Option { return func(d *document) { d.getenv = getenv } }

// KnownTools names tools besides the built-in ones that an agent may have.
func KnownTools(names ...string) Option {
	return func(d *document) { d.tools = append(d.tools, names...) }
}

// ThreadsQueue names the task queue of the threads, which no hook workflow can have.
func ThreadsQueue(name string) Option { return func(d *document) { d.taskQueue = name } }

// Load reads the file at path. Every mistake in it is an [*Error]; several are
// joined, in order of their lines.
func Load(path string, opts ...Option) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, _, err := load(path, abs, opts)
	return c, err
}

// load also returns the files that were looked for, whether or not there is an
// error.
func load(name, abs string, opts []Option) (*Config, []file, error) {
	main := readFile(abs)
	if main.err != nil {
		return nil, []file{main}, fmt.Errorf("reading the configuration %s: %w", name, main.err)
	}
	c, files, err := parse(name, []byte(main.data), filepath.Dir(abs), opts)
	files = append([]file{main}, files...)
	if err != nil {
		return nil, files, err
	}
	c.Files = paths(files)
	return c, files, nil
}

// Parse reads data as if it stood in a file. Errors call it name; paths in it are
// relative to dir.
func Parse(name string, data []byte, dir string, opts ...Option) (*Config, error) {
	c, files, err := parse(name, data, dir, opts)
	if err != nil {
		return nil, err
	}
	c.Files = paths(files)
	return c, nil
}

func parse(name string, data []byte, dir string, opts []Option) (*Config, []file, error) {
	d := &document{name: name, dir: dir, getenv: os.Getenv, tools: append([]string{ShellCmd, CurrentTime}, builtin.Names()...)}
	for _, opt := range opts {
		opt(d)
	}
	c := &Config{}
	if root, ok := d.open(data); ok {
		c = d.config(root)
	}
	return c, d.files, d.err()
}
