package tool

import (
	"encoding/json"
	"time"
)

// ServerStatus is the status of a server that provides tools.
type ServerStatus string

// The statuses of a server.
const (
	// ServerUnknown means that no worker has reported on the server yet.
	ServerUnknown ServerStatus = "unknown"
	// ServerConnecting means that a worker starts the server, or connects to it.
	ServerConnecting ServerStatus = "connecting"
	// ServerReady means that the server can be called.
	ServerReady ServerStatus = "ready"
	// ServerFailed means that the server cannot be reached, or is declared wrongly. Error says why.
	ServerFailed ServerStatus = "failed"
	// ServerStopped means that its worker has ended.
	ServerStopped ServerStatus = "stopped"
	// ServerNeedsLogin means that the server rejects requests without a login.
	ServerNeedsLogin ServerStatus = "needs_login"
)

// ServerState is what is known about a server that provides tools. Texts of the server have no control
// characters and are bounded.
type ServerState struct {
	// The name of the server. Its tools are called server__tool.
	Name string `json:"name"`

	// The namespace that declares it. Missing: all namespaces have it.
	Namespace string `json:"namespace,omitempty"`

	// What the operator says about it.
	Description string `json:"description,omitempty"`

	// How it is connected.
	Transport string `json:"transport" enum:"stdio,http"`

	// The program, without arguments, or the URL, without its query.
	Address string `json:"address"`

	// Whether the operator trusts its hints.
	Trusted bool `json:"trusted,omitempty"`

	// Whether it can be called.
	Status ServerStatus `json:"status" enum:"unknown,connecting,ready,failed,stopped,needs_login"`

	// Why it cannot be called.
	Error string `json:"error,omitempty"`

	// When the status began.
	Since time.Time `json:"since"`

	// How often it was connected again since its worker began.
	Restarts int `json:"restarts,omitempty"`

	// When it is connected again.
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`

	// The worker that reported this last.
	Worker string `json:"worker,omitempty"`

	// The version of the protocol.
	ProtocolVersion string `json:"protocolVersion,omitempty"`

	// What the server calls itself.
	ServerName string `json:"serverName,omitempty"`

	// Its own version.
	ServerVersion string `json:"serverVersion,omitempty"`

	// What it tells models about its use. Shown to people only.
	Instructions string `json:"instructions,omitempty"`

	// The end of what the program wrote besides messages.
	Log string `json:"log,omitempty"`

	// The tools that it offers, as it listed them last.
	Tools []ServerTool `json:"tools" nullable:"false"`

	// How many resources and resource templates it has.
	Resources int `json:"resources,omitempty"`

	// How many prompts it has.
	Prompts int `json:"prompts,omitempty"`

	// When it listed its tools last.
	ListedAt *time.Time `json:"listedAt,omitempty"`

	// What it offers wrongly. The rest works.
	Problems []ServerProblem `json:"problems,omitempty"`
}

// LoginPer says whom a login to a server belongs to.
type LoginPer string

// Whom a login belongs to.
const (
	// LoginPerNamespace is one login for all threads of a namespace. It is the default.
	LoginPerNamespace LoginPer = "namespace"
	// LoginPerUser is a login of each person, used for the turns that answer her messages.
	LoginPerUser LoginPer = "user"
)

// ServerLogin is what is known about a login to a server.
type ServerLogin struct {
	// Whom a login belongs to. namespace: all threads; user: one person.
	Per LoginPer `json:"per" enum:"namespace,user"`

	// With per user: whose login this is. Missing: the request names nobody.
	User string `json:"user,omitempty"`

	// Identifies the login. A person who logs in again has another one.
	ID string `json:"id,omitempty"`

	// Whether there is a valid login.
	LoggedIn bool `json:"loggedIn"`

	// Why the last login is no longer valid.
	Lost string `json:"lost,omitempty"`

	// Who logged in.
	By string `json:"by,omitempty"`

	// When.
	At time.Time `json:"at,omitzero"`

	// The authorization server.
	Issuer string `json:"issuer,omitempty"`

	// What the login permits.
	Scopes []string `json:"scopes,omitempty"`

	// What a call lacked. The next login asks for it.
	Wanted []string `json:"wanted,omitempty"`
}

// ServerTool is a tool of a server.
type ServerTool struct {
	// The name for agents and models.
	Name string `json:"name"`

	// The name that the server uses.
	OwnName string `json:"ownName"`

	// Of a tool that stands for a method of the protocol: the method.
	Method string `json:"method,omitempty"`

	// A title for people.
	Title string `json:"title,omitempty"`

	// What models read.
	Description string `json:"description,omitempty"`

	// The JSON Schema of the arguments.
	Parameters json.RawMessage `json:"parameters"`

	// What the server says about the effects of the tool.
	Hints ServerHints `json:"hints"`

	// Identifies what models and approvers read. It changes with it.
	Digest string `json:"digest"`

	// When the server listed it first.
	FirstSeen time.Time `json:"firstSeen"`

	// When its digest changed last.
	ChangedAt *time.Time `json:"changedAt,omitempty"`
}

// ServerHints is what a server says about the effects of a tool. Only the hints of trusted servers
// have consequences.
type ServerHints struct {
	// It changes nothing.
	ReadOnly bool `json:"readOnly,omitempty"`

	// It may change or delete what exists.
	Destructive bool `json:"destructive,omitempty"`

	// A second call with the same arguments has no further effect.
	Idempotent bool `json:"idempotent,omitempty"`

	// It reaches things outside of the server.
	OpenWorld bool `json:"openWorld,omitempty"`
}

// ServerProblem is something that a server offers wrongly.
type ServerProblem struct {
	// The tool, or the list, that has the problem.
	Subject string `json:"subject"`

	// What is wrong.
	Reason string `json:"reason"`
}

// ServerResource is a resource of a server, or a template for the URIs of resources.
type ServerResource struct {
	// The URI, or its template.
	URI string `json:"uri"`

	// Whether the URI is a template.
	Template bool `json:"template,omitempty"`

	// Its name.
	Name string `json:"name,omitempty"`

	// A title for people.
	Title string `json:"title,omitempty"`

	// What it is.
	Description string `json:"description,omitempty"`

	// Its type.
	MIMEType string `json:"mimeType,omitempty"`

	// Its size in bytes, if known.
	Size int64 `json:"size,omitempty"`
}

// ServerContent is a part of the content of a resource.
type ServerContent struct {
	// The URI.
	URI string `json:"uri,omitempty"`

	// The type.
	MIMEType string `json:"mimeType,omitempty"`

	// Text.
	Text string `json:"text,omitempty"`

	// Data that is not text, in Base64.
	Data []byte `json:"data,omitempty"`
}

// ServerPrompt is a prompt of a server.
type ServerPrompt struct {
	// The name.
	Name string `json:"name"`

	// A title for people.
	Title string `json:"title,omitempty"`

	// What it is for.
	Description string `json:"description,omitempty"`

	// Its arguments.
	Arguments []ServerPromptArgument `json:"arguments,omitempty"`
}

// ServerPromptArgument is an argument of a prompt.
type ServerPromptArgument struct {
	// The name.
	Name string `json:"name"`

	// A title for people.
	Title string `json:"title,omitempty"`

	// What it is for.
	Description string `json:"description,omitempty"`

	// Whether it must be given.
	Required bool `json:"required,omitempty"`
}

// ServerPromptText is a prompt with its arguments filled in.
type ServerPromptText struct {
	// What it is for.
	Description string `json:"description,omitempty"`

	// The messages.
	Messages []ServerPromptMessage `json:"messages" nullable:"false"`
}

// ServerPromptMessage is a message of a prompt.
type ServerPromptMessage struct {
	// Who says it.
	Role string `json:"role" enum:"user,assistant"`

	// The text. Images and audio are described.
	Text string `json:"text"`
}
