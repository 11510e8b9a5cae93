package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
)

// Defaults and limits of a [Server].
const (
	DefaultTimeout      = 2 * time.Minute
	DefaultStartTimeout = time.Minute
	DefaultMaxTools     = 128
	DefaultMaxResult    = 1 << 20
	DefaultMaxCatalog   = 1 << 20

	maxTimeout    = 12 * time.Hour
	maxMaxTools   = 1000
	minResult     = 1 << 10
	maxResultSize = tool.MaxResult
	maxName       = 24
)

var serverName = regexp.MustCompile(`^[a-z0-9-]{1,24}$`)

// Secret is a value that is neither logged nor marshalled.
type Secret string

// String hides the value.
func (Secret) String() string { return "[hidden]" }

// GoString hides the value.
func (Secret) GoString() string { return "[hidden]" }

// LogValue hides the value.
func (Secret) LogValue() slog.Value { return slog.StringValue("[hidden]") }

// MarshalText hides the value.
func (Secret) MarshalText() ([]byte, error) { return []byte("[hidden]"), nil }

// Server declares a server. It is either a program (Command) or a URL.
type Server struct {
	// Name has 1 to 24 of a–z, 0–9 and -. Required.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`

	// Command is a program with its arguments, which speaks the protocol on stdin and stdout. Besides Env,
	// it sees only the environment variables that commands of package shell see.
	Command []string          `json:"command,omitempty"`
	Env     map[string]Secret `json:"env,omitempty"`

	// Dir is the working directory of the program. Default: that of the worker.
	Dir string `json:"dir,omitempty"`

	// URL is the address of a server that speaks the protocol over streamable HTTP. Headers are sent to
	// its host only.
	URL     string            `json:"url,omitempty"`
	Headers map[string]Secret `json:"headers,omitempty"`

	// Login makes people log in to the server at URL, with OAuth. It needs [Config].Logins. A server for all
	// namespaces then has a connection for each namespace that uses it. Default: no login.
	Login *Login `json:"-"`

	// Tools are glob patterns of the server's own names of the tools to offer. Default: all.
	Tools []string `json:"tools,omitempty"`

	// Trusted makes the hints of the server count. Without it, each call needs approval unless the agent's
	// policy says otherwise, and no call is repeated.
	Trusted bool `json:"trusted,omitempty"`

	// Timeout is the limit of one call, at most 12 h. Default 2 minutes.
	Timeout time.Duration `json:"timeout,omitempty"`

	// StartTimeout is the limit for starting the server and reading its lists. Default 1 minute.
	StartTimeout time.Duration `json:"startTimeout,omitempty"`

	// MaxTools is the maximum number of tools that are offered, at most 1000. Default 128.
	MaxTools int `json:"maxTools,omitempty"`

	// MaxResult is the maximum size of a result, in bytes, 1 KiB to 8 MiB. Default 1 MiB.
	MaxResult int `json:"maxResult,omitempty"`

	// MaxCatalog is the maximum size of the descriptions and schemas of all tools, in bytes. Default 1 MiB.
	MaxCatalog int `json:"maxCatalog,omitempty"`

	// TaskQueue is the task queue of the workers that run the server. Default: any worker.
	TaskQueue string `json:"taskQueue,omitempty"`
}

// Transport returns "stdio" or "http".
func (s Server) Transport() string {
	if s.URL != "" {
		return "http"
	}
	return "stdio"
}

// Address returns the program, or the URL without credentials and query.
func (s Server) Address() string {
	if s.URL == "" {
		if len(s.Command) == 0 {
			return ""
		}
		return path.Base(s.Command[0])
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// WithDefaults returns s with the defaults of zero fields.
func (s Server) WithDefaults() Server {
	setDefault(&s.Timeout, DefaultTimeout)
	setDefault(&s.StartTimeout, DefaultStartTimeout)
	setDefault(&s.MaxTools, DefaultMaxTools)
	setDefault(&s.MaxResult, DefaultMaxResult)
	setDefault(&s.MaxCatalog, DefaultMaxCatalog)
	return s
}

// Validate reports the first field that is missing or invalid. It does not repeat secrets.
func (s Server) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("MCP server %.40q: %s", s.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case !serverName.MatchString(s.Name):
		return fmt.Errorf("MCP server name %.40q: use 1 to %d of a to z, 0 to 9 and -", s.Name, maxName)
	case len(s.Command) == 0 && s.URL == "":
		return fail("either command or url is required")
	case len(s.Command) > 0 && s.URL != "":
		return fail("command and url exclude each other")
	case len(s.Command) > 0 && s.Command[0] == "":
		return fail("command must begin with the name of a program")
	case s.URL != "" && (len(s.Env) > 0 || s.Dir != ""):
		return fail("env and dir belong to command")
	case s.URL == "" && len(s.Headers) > 0:
		return fail("headers belong to url")
	case s.Timeout < 0 || s.Timeout > maxTimeout:
		return fail("timeout is %s, must be positive and at most %s (or 0 for the default, %s)", s.Timeout, maxTimeout, DefaultTimeout)
	case s.StartTimeout < 0 || s.StartTimeout > maxTimeout:
		return fail("startTimeout is %s, must be positive and at most %s (or 0 for the default, %s)", s.StartTimeout, maxTimeout, DefaultStartTimeout)
	case s.MaxTools < 0 || s.MaxTools > maxMaxTools:
		return fail("maxTools is %d, must be 1 to %d (or 0 for the default, %d)", s.MaxTools, maxMaxTools, DefaultMaxTools)
	case s.MaxResult != 0 && (s.MaxResult < minResult || s.MaxResult > maxResultSize):
		return fail("maxResult is %d, must be %d to %d bytes (or 0 for the default, %d)", s.MaxResult, minResult, maxResultSize, DefaultMaxResult)
	case s.MaxCatalog != 0 && (s.MaxCatalog < minResult || s.MaxCatalog > maxResultSize):
		return fail("maxCatalog is %d, must be %d to %d bytes (or 0 for the default, %d)", s.MaxCatalog, minResult, maxResultSize, DefaultMaxCatalog)
	}
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fail("url must be an address that begins with http:// or https://")
		}
	}
	if problem := s.loginProblem(); problem != "" {
		return fail("%s", problem)
	}
	for _, pattern := range s.Tools {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fail("tools: %.40q is not a glob pattern", pattern)
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fail("env %.40q must be the name of a variable", name)
		}
	}
	for name, value := range s.Headers {
		if !headerName.MatchString(name) || strings.ContainsAny(string(value), "\r\n\x00") {
			return fail("header %.40q is not valid", name)
		}
	}
	return nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// Source provides the servers that a namespace declares at run time.
type Source interface {
	Servers(ctx context.Context, namespace string) ([]Server, error)
}

// Config configures a [Manager].
type Config struct {
	// Servers are servers for all namespaces. The operator declares them.
	Servers []Server

	// Source provides the servers of namespaces. Optional. It is asked again after a few seconds; see
	// [Manager.Refresh].
	Source Source

	// SourceCommands permits servers of Source to be programs, which run with the rights of the worker.
	// Without it, they must be URLs.
	SourceCommands bool

	// SourcePrivate permits servers of Source to have addresses in private networks, also of this
	// machine. Without it, connections to such addresses fail.
	SourcePrivate bool

	// Catalog is what all processes know about the servers. Default: in memory.
	Catalog Catalog

	// Local reports whether this process connects to a server. Default: to all.
	Local func(Server) bool

	// Logins keeps the logins to servers. Required for servers with Login.
	Logins Logins

	// Worker is the name of this process in states. Optional.
	Worker string

	// Version is the version of the client that servers see. Default "dev".
	Version string

	// Redact redacts what servers say of themselves and of what they offer, their logs, and errors. Default: only configured secrets
	// are hidden in logs and errors.
	Redact *redact.Redactor

	// Logger receives what happens to connections. Default [slog.Default].
	Logger *slog.Logger
}

func (c Config) complete() (Config, error) {
	if c.Catalog == nil {
		c.Catalog = NewCatalog()
	}
	if c.Local == nil {
		c.Local = func(Server) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	setDefault(&c.Version, "dev")
	var problems []error
	servers, taken := make([]Server, 0, len(c.Servers)), map[string]bool{}
	for _, s := range c.Servers {
		if err := s.Validate(); err != nil {
			problems = append(problems, err)
		} else if s.Login != nil && c.Logins == nil {
			problems = append(problems, fmt.Errorf("MCP server %q: login needs Config.Logins", s.Name))
		} else if taken[s.Name] {
			problems = append(problems, fmt.Errorf("MCP server %q: the name is used twice", s.Name))
		}
		taken[s.Name] = true
		servers = append(servers, s.WithDefaults())
	}
	c.Servers = servers
	return c, errors.Join(problems...)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

type (
	// State is [tool.ServerState].
	State = tool.ServerState
	// Status is [tool.ServerStatus].
	Status = tool.ServerStatus
	// Tool is [tool.ServerTool].
	Tool = tool.ServerTool
	// Hints is [tool.ServerHints].
	Hints = tool.ServerHints
	// Problem is [tool.ServerProblem].
	Problem = tool.ServerProblem
)
