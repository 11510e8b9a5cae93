package config

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/tool"
)

// MCPServer describes an MCP server. It has either a command, or an address.
type MCPServer struct {
	Name, Description string

	// Command is the program, with arguments, that is started and called over its standard input and
	// output, in Dir, which is absolute, and with the variables Env.
	Command []string
	Dir     string
	Env     map[string]Secret

	// URL is the address of a server that is called over HTTP, and Headers the headers of requests.
	URL     string
	Headers map[string]Secret

	// Login says how people log in to the server at URL. Nil = they do not.
	Login *MCPLogin

	// Tools are patterns for the server's own names of the tools to offer. Empty = all.
	Tools []string

	// Trusted says that what the server says of its tools is believed.
	Trusted bool

	// Timeout is the limit of a call. 0 = the default.
	Timeout time.Duration

	// TaskQueue is the task queue whose workers connect to the server. Empty = all workers.
	TaskQueue string
}

// MCPLogin says how people log in to an MCP server.
type MCPLogin struct {
	// Per says whom a login belongs to.
	Per tool.LoginPer

	// ClientID and ClientSecret are those of a client that was registered beforehand. Empty = the client
	// registers itself.
	ClientID     string
	ClientSecret Secret

	// Scopes are the scopes to ask for. Empty = those that the server names.
	Scopes []string
}

// MCPAPI says which servers may be declared through the API.
type MCPAPI struct {
	// Servers permits servers at public addresses. Agents may then name servers that are not declared
	// yet.
	Servers bool

	// Commands permits servers that are programs. Whoever may declare one runs any program.
	Commands bool

	// PrivateAddresses permits servers at private addresses.
	PrivateAddresses bool
}

type mcpEntry struct {
	Description string
	Command     []string
	Env         []string
	EnvFrom     map[string]string
	Dir         string
	URL         string
	HeadersEnv  map[string]string
	Login       *mcpLoginEntry
	Tools       []string
	Trusted     bool
	Timeout     time.Duration
	TaskQueue   string
}

type mcpLoginEntry struct {
	Per             tool.LoginPer
	ClientID        string `yaml:"clientId"`
	ClientSecretEnv string
	Scopes          []string
}

// maxMCPServers is the maximum number of servers.
const maxMCPServers = 100

// mcpServers converts the MCP servers, whose tools agents may use.
func (d *document) mcpServers(entries map[string]mcpEntry) []MCPServer {
	var servers []MCPServer
	if len(entries) > maxMCPServers {
		d.fieldErrorf("mcp", KindLimit, "has %d servers, at most %d are allowed", len(entries), maxMCPServers)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		at := "mcp." + name
		if problem := tool.ServerNameProblem(name); problem != "" {
			d.keyErrorf(at, KindInvalid, "%s", problem)
			continue
		}
		// Even of a server with mistakes, agents may name the tools.
		d.tools = append(d.tools, event.ToolPattern(name))
		servers = append(servers, d.mcpServer(at, name, entries[name]))
	}
	return servers
}

// mcpAPI reports permissions that have no effect.
func (d *document) mcpAPI(m MCPAPI) MCPAPI {
	for field, set := range map[string]bool{"commands": m.Commands, "privateAddresses": m.PrivateAddresses} {
		if set && !m.Servers {
			d.fieldErrorf("mcpApi."+field, KindInvalid, "has no effect without servers: true, which permits servers to be declared through the API")
		}
	}
	if m.Servers {
		d.tools = append(d.tools, names.AnyServer)
	}
	return m
}

func (d *document) mcpServer(at, name string, e mcpEntry) MCPServer {
	d.mcpTransport(at, e)
	s := MCPServer{
		Name: name, Description: e.Description, Command: e.Command, URL: e.URL, Tools: e.Tools, Trusted: e.Trusted,
		Timeout: e.Timeout, TaskQueue: e.TaskQueue,
		Env: map[string]Secret{}, Headers: map[string]Secret{},
	}
	if len(e.Command) > 0 {
		s.Dir = d.relative(cmp.Or(e.Dir, "."))
	}
	for _, variable := range e.Env {
		if value := d.getenv(variable); value != "" {
			s.Env[variable] = Secret(value)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(e.EnvFrom)) {
		field := at + ".envFrom." + variable
		switch {
		case !anyVariable.MatchString(variable):
			d.keyErrorf(field, KindInvalid, "is no name of an environment variable (letters, digits and _)")
		case slices.Contains(e.Env, variable):
			d.keyErrorf(field, KindDuplicate, "env passes this variable on as it is: keep one of them")
		default:
			s.Env[variable] = Secret(d.secret(field, e.EnvFrom[variable]))
		}
	}
	for _, header := range slices.Sorted(maps.Keys(e.HeadersEnv)) {
		field := at + ".headersEnv." + header
		if problem := tool.ServerHeaderProblem(header); problem != "" {
			d.keyErrorf(field, KindInvalid, "%s", problem)
			continue
		}
		value := d.secret(field, e.HeadersEnv[header])
		if !httpguts.ValidHeaderFieldValue(value) {
			d.fieldErrorf(field, KindInvalid, "the environment variable %s has control characters, which a header cannot have", e.HeadersEnv[header])
		}
		s.Headers[http.CanonicalHeaderKey(header)] = Secret(value)
	}
	s.Login = d.mcpLogin(at, e)
	return s
}

func (d *document) mcpLogin(at string, e mcpEntry) *MCPLogin {
	l := e.Login
	if l == nil {
		return nil
	}
	at += ".login"
	if l.ClientSecretEnv != "" && l.ClientID == "" {
		d.keyErrorf(at+".clientSecretEnv", KindInvalid, "is only for a client that was registered beforehand: set clientId, or remove it")
	}
	for header := range e.HeadersEnv {
		if http.CanonicalHeaderKey(header) == "Authorization" {
			d.keyErrorf(at, KindInvalid, "and headersEnv.%s exclude each other: keep one of them", header)
		}
	}
	return &MCPLogin{
		Per: cmp.Or(l.Per, tool.LoginPerNamespace), ClientID: l.ClientID, Scopes: l.Scopes,
		ClientSecret: Secret(d.secret(at+".clientSecretEnv", l.ClientSecretEnv)),
	}
}

// mcpTransport reports fields that do not fit together.
func (d *document) mcpTransport(at string, e mcpEntry) {
	command, address := at+".command", at+".url"
	only := func(of string, fields ...string) {
		for _, field := range fields {
			if d.has(at + "." + field) {
				d.keyErrorf(at+"."+field, KindInvalid, "is only for a server with %s: remove it", of)
			}
		}
	}
	switch {
	case d.has(command) && d.has(address):
		d.keyErrorf(address, KindInvalid, "command is set as well: keep one of them")
	case d.has(command):
		only("a url", "headersEnv", "login")
	case d.has(address):
		only("a command", "env", "envFrom", "dir")
	default:
		d.fieldErrorf(command, KindMissing, "is missing, and so is url: write the command that starts the server, or the address at which it runs")
	}
}
