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
	Name        string       `json:"name" doc:"The name of the server. Its tools are called server__tool"`
	Namespace   string       `json:"namespace,omitempty" doc:"The namespace that declares it. Missing: all namespaces have it"`
	Description string       `json:"description,omitempty" doc:"What the operator says about it"`
	Transport   string       `json:"transport" enum:"stdio,http" doc:"How it is connected"`
	Address     string       `json:"address" doc:"The program, without arguments, or the URL, without its query"`
	Trusted     bool         `json:"trusted,omitempty" doc:"Whether the operator trusts its hints"`
	Status      ServerStatus `json:"status" enum:"unknown,connecting,ready,failed,stopped,needs_login" doc:"Whether it can be called"`
	Error       string       `json:"error,omitempty" doc:"Why it cannot be called"`
	Since       time.Time    `json:"since" doc:"When the status began"`
	Restarts    int          `json:"restarts,omitempty" doc:"How often it was connected again since its worker began"`
	NextAttempt *time.Time   `json:"nextAttempt,omitempty" doc:"When it is connected again"`
	Worker      string       `json:"worker,omitempty" doc:"The worker that reported this last"`

	ProtocolVersion string `json:"protocolVersion,omitempty" doc:"The version of the protocol"`
	ServerName      string `json:"serverName,omitempty" doc:"What the server calls itself"`
	ServerVersion   string `json:"serverVersion,omitempty" doc:"Its own version"`
	Instructions    string `json:"instructions,omitempty" doc:"What it tells models about its use. Shown to people only"`
	Log             string `json:"log,omitempty" doc:"The end of what the program wrote besides messages"`

	Tools     []ServerTool    `json:"tools" nullable:"false" doc:"The tools that it offers, as it listed them last"`
	Resources int             `json:"resources,omitempty" doc:"How many resources and resource templates it has"`
	Prompts   int             `json:"prompts,omitempty" doc:"How many prompts it has"`
	ListedAt  *time.Time      `json:"listedAt,omitempty" doc:"When it listed its tools last"`
	Problems  []ServerProblem `json:"problems,omitempty" doc:"What it offers wrongly. The rest works"`
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
	Per      LoginPer  `json:"per" enum:"namespace,user" doc:"Whom a login belongs to. namespace: all threads; user: one person"`
	User     string    `json:"user,omitempty" doc:"With per user: whose login this is. Missing: the request names nobody"`
	ID       string    `json:"id,omitempty" doc:"Identifies the login. A person who logs in again has another one"`
	LoggedIn bool      `json:"loggedIn" doc:"Whether there is a valid login"`
	Lost     string    `json:"lost,omitempty" doc:"Why the last login is no longer valid"`
	By       string    `json:"by,omitempty" doc:"Who logged in"`
	At       time.Time `json:"at,omitzero" doc:"When"`
	Issuer   string    `json:"issuer,omitempty" doc:"The authorization server"`
	Scopes   []string  `json:"scopes,omitempty" doc:"What the login permits"`
	Wanted   []string  `json:"wanted,omitempty" doc:"What a call lacked. The next login asks for it"`
}

// ServerTool is a tool of a server.
type ServerTool struct {
	Name        string          `json:"name" doc:"The name for agents and models"`
	OwnName     string          `json:"ownName" doc:"The name that the server uses"`
	Method      string          `json:"method,omitempty" doc:"Of a tool that stands for a method of the protocol: the method"`
	Title       string          `json:"title,omitempty" doc:"A title for people"`
	Description string          `json:"description,omitempty" doc:"What models read"`
	Parameters  json.RawMessage `json:"parameters" doc:"The JSON Schema of the arguments"`
	Hints       ServerHints     `json:"hints" doc:"What the server says about the effects of the tool"`
	Digest      string          `json:"digest" doc:"Identifies what models and approvers read. It changes with it"`
	FirstSeen   time.Time       `json:"firstSeen" doc:"When the server listed it first"`
	ChangedAt   *time.Time      `json:"changedAt,omitempty" doc:"When its digest changed last"`
}

// ServerHints is what a server says about the effects of a tool. Only the hints of trusted servers
// have consequences.
type ServerHints struct {
	ReadOnly    bool `json:"readOnly,omitempty" doc:"It changes nothing"`
	Destructive bool `json:"destructive,omitempty" doc:"It may change or delete what exists"`
	Idempotent  bool `json:"idempotent,omitempty" doc:"A second call with the same arguments has no further effect"`
	OpenWorld   bool `json:"openWorld,omitempty" doc:"It reaches things outside of the server"`
}

// ServerProblem is something that a server offers wrongly.
type ServerProblem struct {
	Subject string `json:"subject" doc:"The tool, or the list, that has the problem"`
	Reason  string `json:"reason" doc:"What is wrong"`
}

// ServerResource is a resource of a server, or a template for the URIs of resources.
type ServerResource struct {
	URI         string `json:"uri" doc:"The URI, or its template"`
	Template    bool   `json:"template,omitempty" doc:"Whether the URI is a template"`
	Name        string `json:"name,omitempty" doc:"Its name"`
	Title       string `json:"title,omitempty" doc:"A title for people"`
	Description string `json:"description,omitempty" doc:"What it is"`
	MIMEType    string `json:"mimeType,omitempty" doc:"Its type"`
	Size        int64  `json:"size,omitempty" doc:"Its size in bytes, if known"`
}

// ServerContent is a part of the content of a resource.
type ServerContent struct {
	URI      string `json:"uri,omitempty" doc:"The URI"`
	MIMEType string `json:"mimeType,omitempty" doc:"The type"`
	Text     string `json:"text,omitempty" doc:"Text"`
	Data     []byte `json:"data,omitempty" doc:"Data that is not text, in Base64"`
}

// ServerPrompt is a prompt of a server.
type ServerPrompt struct {
	Name        string                 `json:"name" doc:"The name"`
	Title       string                 `json:"title,omitempty" doc:"A title for people"`
	Description string                 `json:"description,omitempty" doc:"What it is for"`
	Arguments   []ServerPromptArgument `json:"arguments,omitempty" doc:"Its arguments"`
}

// ServerPromptArgument is an argument of a prompt.
type ServerPromptArgument struct {
	Name        string `json:"name" doc:"The name"`
	Title       string `json:"title,omitempty" doc:"A title for people"`
	Description string `json:"description,omitempty" doc:"What it is for"`
	Required    bool   `json:"required,omitempty" doc:"Whether it must be given"`
}

// ServerPromptText is a prompt with its arguments filled in.
type ServerPromptText struct {
	Description string                `json:"description,omitempty" doc:"What it is for"`
	Messages    []ServerPromptMessage `json:"messages" nullable:"false" doc:"The messages"`
}

// ServerPromptMessage is a message of a prompt.
type ServerPromptMessage struct {
	Role string `json:"role" enum:"user,assistant" doc:"Who says it"`
	Text string `json:"text" doc:"The text. Images and audio are described"`
}
