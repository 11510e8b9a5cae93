package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// Types of a [Provider].
const (
	// OpenAI is OpenAI, and every provider with the same protocol.
	OpenAI = "openai"
	// OpenAIResponses is OpenAI's Responses API.
	OpenAIResponses = "openai-responses"
	// OpenAIAzure and OpenAIResponsesAzure are the two APIs of OpenAI on Azure.
	OpenAIAzure          = "openai-azure"
	OpenAIResponsesAzure = "openai-responses-azure"
	// Anthropic is Anthropic's Messages API.
	Anthropic = "anthropic"
	// AnthropicBedrock and AnthropicVertex are Anthropic's models on Amazon Bedrock and on Vertex AI.
	AnthropicBedrock = "anthropic-bedrock"
	AnthropicVertex  = "anthropic-vertex"
	// Google is Google's Gemini API.
	Google = "google"
	// GoogleVertex is Gemini on Vertex AI.
	GoogleVertex = "google-vertex"
	// Demo is the offline demo model.
	Demo = "demo"
	// Fallback is a chain of models and no provider.
	Fallback = "fallback"
)

// Names of the built-in tools.
const (
	ShellCmd    = "shell_cmd"
	CurrentTime = "current_time"
)

// Config is the validated content of a file.
type Config struct {
	// Agents are in the order of the file: the first one is the default agent. The file's limits
	// are part of each agent; the defaults of zero limits are those of package agent.
	Agents agent.Fixed

	// Models are the providers that the file declares or its agents use, ordered by name. A
	// provider that no agent uses is omitted if one of its variables is not set.
	Models []Provider

	// Fallbacks are the fallback chains of models, by name.
	Fallbacks map[string]llm.Fallback

	// TitleModel, "provider/model" or a chain, generates titles for threads without one. Empty = no titles.
	TitleModel string

	// Knowledge says how documents are indexed and found.
	Knowledge Knowledge

	// Retention says how long threads are kept.
	Retention Retention

	// Redact replaces text that must not be kept. Nil = nothing is.
	Redact *redact.Redactor

	// Keys are the names of the environment variables with the keys of providers, by the name of the
	// provider.
	Keys map[string]string

	Tools Tools

	// MCP are the MCP servers, ordered by name, and MCPAPI says which ones may be declared through the
	// API.
	MCP    []MCPServer
	MCPAPI MCPAPI

	// Hooks are hook workflows, in the order in which they run.
	Hooks []hook.Hook

	// Rules handle environment events, in addition to the default rules.
	Rules []rule.Rule

	// ApprovalRules apply to the tool calls of all agents, before the agents' own rules.
	ApprovalRules []approval.Rule

	// ApproverGroups are the members of groups that rules and agents name as approvers. Nil = the file has none.
	ApproverGroups approval.FixedGroups

	// Webhooks are the endpoints of webhooks.
	Webhooks []webhook.Endpoint

	// APIKeys are the API keys in the file. keysHold means that the file has the list, without a mistake in it.
	APIKeys  []auth.Key
	keysHold bool

	// StaleAfter is the time after which a silent step is retried. 0 = the runtime's default.
	StaleAfter time.Duration

	// StepsAsActivities runs each step as an activity.
	StepsAsActivities bool

	// TemporalUI is the address of Temporal's Web UI.
	TemporalUI string

	// AllowedHosts are the host names by which requests may reach the API.
	AllowedHosts []string

	// AllowedOrigins are the origins whose web pages may call the API.
	AllowedOrigins []string

	// PublicURL is the origin by which browsers reach the API.
	PublicURL string

	// declared are the names of what the program itself has.
	declared Declared

	// Files are the paths of the files, the configuration itself first. Nil without a file.
	Files []string
}

// Knowledge has the fields of threadmill.Knowledge.
type Knowledge struct {
	Embedder                   string
	ContextModel, RerankModel  string
	EntityModel                string
	Dimension                  int
	ChunkTokens, OverlapTokens int
	PrivateAddresses           bool
}

// Retention has the fields of threadmill.Retention.
type Retention struct{ ClosedThreads, IdleThreads, ToolLogs, Every time.Duration }

// Bounds of [Retention]; the minimums equal those of the runtime, as a test checks.
const (
	MinRetention        = time.Hour
	MinToolLogRetention = 48 * time.Hour
	MinRetentionEvery   = time.Minute

	maxRetention      = 100 * 365 * 24 * time.Hour
	maxRetentionEvery = 7 * 24 * time.Hour

	keptForEver = "for ever"
)

// Bounds of [Knowledge].ChunkTokens, which equal those of the runtime, as a test checks.
const (
	MinChunkTokens = 16
	MaxChunkTokens = 4096
)

// Provider describes a model provider. Equal values describe the same provider.
type Provider struct {
	// Name is the part of an agent's model before the slash.
	Name string

	// Type is the kind of service: a constant, such as [OpenAI].
	Type string

	// BaseURL is the address; empty = the provider's own.
	BaseURL string

	// APIKey is the key; empty = calls without a key.
	APIKey Secret

	// Retry is the retry policy of model calls, and Limits limit their rate.
	Retry  llm.Retry
	Limits llm.Limits

	Place
}

// Place are settings of particular types of providers. Fields are empty for the others.
type Place struct {
	// Region is the region of Bedrock or Vertex AI, and Project the id of a Google Cloud project.
	Region  string
	Project string

	// APIVersion is the version of Azure's API, and Deployment the deployment that all calls go to; empty =
	// the one that has the name of the model.
	APIVersion string
	Deployment string

	// ReasoningSummary is the kind of the summaries of thoughts; empty = the default.
	ReasoningSummary string

	// Dialect is what a server that speaks OpenAI's protocol takes and wants; empty = the default.
	Dialect string
}

// Tools describes the built-in tools and the tools of connected clients.
type Tools struct {
	Shell Shell
	Clock Clock

	// Client are the tools that connected clients run.
	Client []tool.Definition
}

// Shell configures shell_cmd. Zero fields have the tool's defaults.
type Shell struct {
	// Root is the working directory of commands, absolute if the configuration is a file's.
	Root string

	// Timeout is the time limit of a command.
	Timeout time.Duration

	// MaxOutput and MaxProgress are limits for each output stream, in bytes.
	MaxOutput   int
	MaxProgress int

	// Env are the names of further environment variables for commands.
	Env []string

	// Runner is the program, with arguments, that runs a command line. Empty = sh -c.
	Runner []string
}

// Clock configures current_time.
type Clock struct {
	// Timezone is the default time zone. Nil = UTC.
	Timezone *time.Location
}

// DefaultRoot is the default working directory of shell_cmd, relative to the folder of the file or,
// without a file, to the working directory of the program.
const DefaultRoot = "workspace"

// Secret is a string that is hidden when it is printed, logged or encoded.
type Secret string

// Reveal returns the secret text.
func (s Secret) Reveal() string { return string(s) }

// String returns stars, or "" if the secret is empty.
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

// Provider returns the provider of a model "provider/model", and the model's name.
func (c *Config) Provider(model string) (p Provider, name string, ok bool) {
	prefix, name, _ := strings.Cut(model, "/")
	i, ok := slices.BinarySearchFunc(c.Models, prefix, func(p Provider, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return Provider{}, "", false
	}
	return c.Models[i], name, true
}

// builtInTools returns the names of the tools that exist without the file.
func builtInTools() []string { return append([]string{ShellCmd, CurrentTime}, builtin.Names()...) }

// groups returns the names of the groups of approvers, or nil if only the program knows them.
func (c *Config) groups() []string {
	if c.declared.AnyGroup {
		return nil
	}
	return slices.AppendSeq(append([]string{}, c.declared.Groups...), maps.Keys(c.ApproverGroups))
}

// names returns the names of tools and agents to which its parts may refer.
func (c *Config) names() names.Known {
	out := names.Known{Tools: append(builtInTools(), c.declared.Tools...), Agents: slices.Clone(c.declared.Agents), Groups: c.groups()}
	for _, d := range c.Tools.Client {
		out.Tools = append(out.Tools, d.Name)
	}
	for _, s := range c.MCP {
		out.Tools = append(out.Tools, event.ToolPattern(s.Name))
	}
	if c.MCPAPI.Servers {
		out.Tools = append(out.Tools, names.AnyServer)
	}
	for _, a := range c.Agents {
		out.Agents = append(out.Agents, a.Name)
	}
	return out
}

// Option configures [Load] and [Parse].
type Option func(*document)

// Env replaces the environment, for tests. Default [os.Getenv].
func Env(getenv func(string) string) Option { return func(d *document) { d.getenv = getenv } }

// ThreadsQueue is the task queue of the threads, which hook workflows must not use.
func ThreadsQueue(name string) Option { return func(d *document) { d.taskQueue = name } }

// Declared are the names of what a program declares in Go, to which the file may refer.
type Declared struct {
	Tools, Agents, Models, Fallbacks, Hooks, Groups []string

	// AnyGroup says that the program knows groups of approvers whose names it does not declare.
	AnyGroup bool
}

// Declares adds the names of what the program declares in Go. A file may then have no agents.
func Declares(names Declared) Option {
	return func(d *document) {
		d.declared = names
		d.tools = append(d.tools, names.Tools...)
	}
}

// Load reads the file at path. Each mistake is an [*Error]; several are joined, in order of their
// lines.
func Load(path string, opts ...Option) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, _, err := load(path, abs, opts)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// load also returns the files that it tried to read, and what it could read of them, even with an error.
func load(name, abs string, opts []Option) (*Config, []file, error) {
	main := readFile(abs)
	if main.err != nil {
		return nil, []file{main}, fmt.Errorf("reading the configuration %s: %w", name, main.err)
	}
	c, files, err := parse(name, []byte(main.data), filepath.Dir(abs), opts)
	files = append([]file{main}, files...)
	c.Files = paths(files)
	return c, files, err
}

// Parse reads data as the content of a file. name is the file in errors; paths are relative to dir.
func Parse(name string, data []byte, dir string, opts ...Option) (*Config, error) {
	c, files, err := parse(name, data, dir, opts)
	if err != nil {
		return nil, err
	}
	c.Files = paths(files)
	return c, nil
}

func parse(name string, data []byte, dir string, opts []Option) (*Config, []file, error) {
	d := &document{name: name, dir: dir, getenv: os.Getenv, tools: builtInTools()}
	for _, opt := range opts {
		opt(d)
	}
	c := &Config{}
	if root, ok := d.open(data); ok {
		c = d.config(root)
	}
	return c, d.files, d.err()
}
