package tool

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/threadmill/threadmill/event"
)

// ServerDeclaration declares an MCP server at run time. It has either an address or a command. Secrets
// are in environment variables of the workers, whose names begin with MCP_.
type ServerDeclaration struct {
	// What the server is for.
	Description string `json:"description,omitempty" maxLength:"2000"`

	// The address of a server that is called over streamable HTTP.
	URL string `json:"url,omitempty" maxLength:"2000"`

	// With url: the headers of requests, by name, with the environment variables of the workers that have their values.
	// The variables begin with MCP_.
	HeadersEnv map[string]string `json:"headersEnv,omitempty"`

	// The program, with arguments, that workers start and call over its standard input and output. The operator must
	// have permitted commands.
	Command []string `json:"command,omitempty" maxItems:"100"`

	// With command: the environment variables of the program, by name, with those of the workers that have their
	// values. The variables of the workers begin with MCP_.
	EnvFrom map[string]string `json:"envFrom,omitempty"`

	// With command: the working directory of the program. Default: that of the worker.
	Dir string `json:"dir,omitempty" maxLength:"1000"`

	// Patterns for the server's own names of the tools to offer, such as read_*. Default: all.
	Tools []string `json:"tools,omitempty" maxItems:"1000"`

	// Believe what the server says of the effects of its tools.
	Trusted bool `json:"trusted,omitempty"`

	// The limit of a call, at most 12h. Default: 2m.
	Timeout string `json:"timeout,omitempty" example:"30s"`

	// With url: people log in to the server, with OAuth. Default: no login.
	Login *LoginDeclaration `json:"login,omitempty"`

	// The task queue whose workers connect to the server. Default: all workers.
	TaskQueue string `json:"taskQueue,omitempty" maxLength:"200"`
}

// LoginDeclaration declares how people log in to an MCP server.
type LoginDeclaration struct {
	// Whom a login belongs to. namespace: all threads; user: each person has a login of her own. Default: namespace.
	Per LoginPer `json:"per,omitempty" enum:"namespace,user"`

	// The client that was registered with the authorization server beforehand. Default: the client registers itself.
	ClientID string `json:"clientId,omitempty" maxLength:"1000"`

	// With clientId: the environment variable of workers and API that has its secret. It begins with MCP_.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty"`

	// The scopes to ask for. Default: those that the server names.
	Scopes []string `json:"scopes,omitempty" maxItems:"100"`
}

// Limits of a [ServerDeclaration].
const (
	// SecretPrefix begins the names of the environment variables that a declaration may use, since whoever
	// may declare a server must not read all of them.
	SecretPrefix = "MCP_"

	// MaxServerTimeout is the maximum limit of a call.
	MaxServerTimeout = 12 * time.Hour

	maxPairs = 50
)

var (
	serverForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,23}$`)
	secretForm   = regexp.MustCompile(`^` + SecretPrefix + `[A-Z0-9_]{1,100}$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,100}$`)
)

// ServerNameProblem returns what is wrong with the name of a server.
func ServerNameProblem(name string) string {
	if serverForm.MatchString(name) {
		return ""
	}
	return "must have 1 to 24 small letters, digits and -, beginning with a letter or digit: tools are named server__tool"
}

// ServerURLProblem returns what is wrong with the address of a server, without the address, which may
// contain a password.
func ServerURLProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "must be a web address, such as https://mcp.example.com/mcp"
	case u.User != nil:
		return "must not hold a user or password: use headersEnv"
	case u.Fragment != "":
		return "must not have a part after #"
	}
	return ""
}

// ServerHeaderProblem returns what is wrong with the name of a header of requests to a server.
func ServerHeaderProblem(name string) string {
	if !httpguts.ValidHeaderFieldName(name) {
		return "is no name of an HTTP header"
	}
	if slices.Contains(protocolHeaders, http.CanonicalHeaderKey(name)) {
		return "is a header that the protocol sets itself"
	}
	return ""
}

var protocolHeaders = []string{
	"Host", "Content-Type", "Content-Length", "Accept", "Connection", "Transfer-Encoding", "Mcp-Session-Id", "Mcp-Protocol-Version",
}

// ServerToolsProblem returns what is wrong with a pattern for the names of a server's tools.
func ServerToolsProblem(pattern string) string {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.ContainsAny(pattern, "/ ") {
		return "is not a pattern for the server's own names of tools, such as read_*"
	}
	return ""
}

// CallTimeout returns the limit of a call; 0 is the default.
func (d ServerDeclaration) CallTimeout() time.Duration {
	t, _ := time.ParseDuration(d.Timeout)
	return t
}

// Validate reports the first invalid field, as a [*event.FieldError].
func (d ServerDeclaration) Validate() error {
	switch {
	case d.URL != "" && len(d.Command) > 0:
		return event.FieldErrorf("command", "and url exclude each other: keep one of them")
	case d.URL == "" && len(d.Command) == 0:
		return event.FieldErrorf("url", "is required, or command")
	case d.URL == "" && len(d.HeadersEnv) > 0:
		return event.FieldErrorf("headersEnv", "is only for a server with a url")
	case d.URL != "" && (len(d.EnvFrom) > 0 || d.Dir != ""):
		return event.FieldErrorf("envFrom", "and dir are only for a server with a command")
	case d.URL != "" && ServerURLProblem(d.URL) != "":
		return event.FieldErrorf("url", "%s", ServerURLProblem(d.URL))
	case len(d.Command) > 0 && d.Command[0] == "":
		return event.FieldErrorf("command[0]", "is empty: write the program")
	}
	for _, name := range slices.Sorted(maps.Keys(d.HeadersEnv)) {
		if problem := ServerHeaderProblem(name); problem != "" {
			return event.FieldErrorf("headersEnv", "%.64q %s", name, problem)
		}
		if err := secretVariable("headersEnv."+name, d.HeadersEnv[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.EnvFrom)) {
		if !variableForm.MatchString(name) {
			return event.FieldErrorf("envFrom", "%.64q is no name of an environment variable", name)
		}
		if err := secretVariable("envFrom."+name, d.EnvFrom[name]); err != nil {
			return err
		}
	}
	if len(d.HeadersEnv) > maxPairs || len(d.EnvFrom) > maxPairs {
		return event.FieldErrorf("headersEnv", "and envFrom have at most %d entries", maxPairs)
	}
	for _, pattern := range d.Tools {
		if problem := ServerToolsProblem(pattern); problem != "" {
			return event.FieldErrorf("tools", "%.64q %s", pattern, problem)
		}
	}
	if t, err := time.ParseDuration(d.Timeout); d.Timeout != "" && (err != nil || t <= 0 || t > MaxServerTimeout) {
		return event.FieldErrorf("timeout", "must be a duration of at most 12h, such as 30s")
	}
	if err := d.Login.validate(d); err != nil {
		return err
	}
	return d.validateText()
}

func (l *LoginDeclaration) validate(d ServerDeclaration) error {
	if l == nil {
		return nil
	}
	switch {
	case d.URL == "":
		return event.FieldErrorf("login", "is only for a server with a url")
	case l.Per != "" && l.Per != LoginPerNamespace && l.Per != LoginPerUser:
		return event.FieldErrorf("login.per", "must be %s or %s", LoginPerNamespace, LoginPerUser)
	case l.ClientSecretEnv != "" && l.ClientID == "":
		return event.FieldErrorf("login.clientSecretEnv", "is only for a clientId")
	case l.ClientSecretEnv != "":
		if err := secretVariable("login.clientSecretEnv", l.ClientSecretEnv); err != nil {
			return err
		}
	}
	for name := range d.HeadersEnv {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return event.FieldErrorf("headersEnv", "Authorization and login exclude each other: keep one of them")
		}
	}
	for _, scope := range l.Scopes {
		if problem := ServerScopeProblem(scope); problem != "" {
			return event.FieldErrorf("login.scopes", "%.64q %s", scope, problem)
		}
	}
	return nil
}

// ServerScopeProblem returns what is wrong with an OAuth scope.
func ServerScopeProblem(scope string) string {
	if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
		return "is not a scope: scopes are words without spaces"
	}
	return ""
}

func secretVariable(field, name string) error {
	if secretForm.MatchString(name) {
		return nil
	}
	// The text may be the secret itself.
	return event.FieldErrorf(field, "must be the name of an environment variable of the workers that begins with %s (capitals, digits and _), not a value", SecretPrefix)
}

func (d ServerDeclaration) validateText() error {
	for _, field := range []struct {
		name  string
		texts []string
	}{{"description", []string{d.Description}}, {"command", d.Command}, {"dir", []string{d.Dir}}, {"taskQueue", []string{d.TaskQueue}}} {
		for _, text := range field.texts {
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\uFFFD' }) {
				return event.FieldErrorf(field.name, "must be text without control characters")
			}
		}
	}
	return nil
}

// ReadServerDeclaration reads a stored declaration. Unknown fields are an error: what a newer version wrote
// there might be what makes the declaration harmless.
func ReadServerDeclaration(raw json.RawMessage) (ServerDeclaration, error) {
	var d ServerDeclaration
	if err := event.DecodeKnownJSON("", raw, &d); err != nil {
		return ServerDeclaration{}, err
	}
	return d, d.Validate()
}
