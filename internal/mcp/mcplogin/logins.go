package mcplogin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/mcp/sealed"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// The kinds of documents.
const (
	kindLogin  = "mcp_login"
	kindClient = "mcp_client"
)

// anyVersion replaces any version of a document: see [store.Documents].
const anyVersion = -1

// The paths that browsers and authorization servers visit.
const (
	PathStart    = "/oauth/login/"
	PathCallback = "/oauth/callback"
	PathClient   = "/oauth/client.json"
)

// Config configures [Logins]. All fields but Logger are required.
type Config struct {
	Documents store.Documents
	Keys      sealed.Keys

	// PublicURL is the address by which browsers reach the API.
	PublicURL string

	// Logger receives what happens to logins. Default [slog.Default].
	Logger *slog.Logger
}

// Logins keeps the logins of all namespaces. It implements [mcp.Logins].
type Logins struct {
	documents store.Documents
	keys      sealed.Keys
	public    *url.URL
	log       *slog.Logger
}

var _ mcp.Logins = (*Logins)(nil)

// New returns the logins in a store.
func New(cfg Config) (*Logins, error) {
	u, err := url.Parse(cfg.PublicURL)
	if err != nil {
		return nil, err
	}
	u.Path = cmp.Or(u.Path, "/") // JoinPath would make relative paths
	return &Logins{cfg.Documents, cfg.Keys, u, cmp.Or(cfg.Logger, slog.Default())}, nil
}

// login is a stored login.
type login struct {
	// ID is another one for each login, and stays the same when tokens are renewed.
	ID   string    `json:"id"`
	User string    `json:"user,omitempty"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`

	// Server is the address of the server. Its tokens are sent to no other one.
	Server string `json:"server"`

	authority
	Client client   `json:"client"`
	Scopes []string `json:"scopes,omitempty"`

	Token oauth2.Token `json:"token"`

	// Renewing is the time until which a worker may be renewing the token.
	Renewing time.Time `json:"renewing,omitzero"`

	// Lost is the reason that the login is no longer valid.
	Lost string `json:"lost,omitempty"`

	// Wanted are scopes that a call lacked.
	Wanted []string `json:"wanted,omitempty"`

	version int
}

// valid reports whether requests can be made with the login.
func (l login) valid() bool { return l.ID != "" && l.Lost == "" }

// content is the content of a document. What is sealed cannot be used for another document.
type content struct {
	Sealed string `json:"sealed"`
}

// documentName returns the name of the document of a login.
func documentName(server, user string) string {
	if user == "" {
		return server
	}
	sum := sha256.Sum256([]byte(user))
	return server + "/" + hex.EncodeToString(sum[:16])
}

func purpose(kind, namespace, name string) string { return kind + "\n" + namespace + "\n" + name }

func (l *Logins) put(ctx context.Context, namespace, kind, name, by string, v any, after int) (int, error) {
	text, err := l.keys.Seal(purpose(kind, namespace, name), v)
	if err != nil {
		return 0, err
	}
	raw, err := json.Marshal(content{text})
	if err != nil {
		return 0, err
	}
	d, err := l.documents.PutDocument(ctx, namespace, store.Document{Kind: kind, Name: name, By: by, Content: raw}, after)
	return d.Version, err
}

func (l *Logins) open(namespace string, d store.Document, v any) error {
	var c content
	if err := json.Unmarshal(d.Content, &c); err != nil {
		return err
	}
	return l.keys.Open(purpose(d.Kind, namespace, d.Name), c.Sealed, v)
}

// find returns a login; its ID is empty if there is none. One that was encrypted with a key that is gone is lost, and so
// is one to another address.
func (l *Logins) find(ctx context.Context, namespace string, s mcp.Server, user string) (login, error) {
	d, err := l.documents.Document(ctx, namespace, kindLogin, documentName(s.Name, user))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return login{}, nil
	case err != nil:
		return login{}, err
	}
	var found login
	if err := l.open(namespace, d, &found); err != nil {
		l.log.Warn("a login to an MCP server cannot be read", "mcpServer", s.Name, "err", err)
		found = login{ID: "unreadable", User: user, By: d.By, At: d.At, Lost: "the key that encrypted it is gone"}
	}
	if found.Lost == "" && found.Server != s.URL {
		found.Lost = "it was a login to another address: the server was declared anew"
	}
	found.version = d.Version
	return found, nil
}

// save stores a login in place of the version that was read. The error is a *store.ConflictError if there is another
// one by now.
func (l *Logins) save(ctx context.Context, namespace, server string, changed *login) error {
	version, err := l.put(ctx, namespace, kindLogin, documentName(server, changed.User), changed.By, changed, changed.version)
	if err == nil {
		changed.version = version
	}
	return err
}

// Current implements [mcp.Logins].
func (l *Logins) Current(ctx context.Context, namespace string, s mcp.Server, user string) (string, error) {
	found, err := l.find(ctx, namespace, s, user)
	if err != nil || !found.valid() {
		return "", err
	}
	return found.ID, nil
}

// AnyUser implements [mcp.Logins].
func (l *Logins) AnyUser(ctx context.Context, namespace string, s mcp.Server) (string, error) {
	all, err := l.documents.Documents(ctx, namespace, kindLogin, "", store.MaxLimit)
	if err != nil {
		return "", err
	}
	for _, d := range all {
		var found login
		if l.open(namespace, d, &found) == nil && found.valid() && found.Server == s.URL && found.User != "" && d.Name == documentName(s.Name, found.User) {
			return found.User, nil
		}
	}
	return "", nil
}

// Namespaces returns the namespaces with logins.
func (l *Logins) Namespaces(ctx context.Context) ([]string, error) {
	return l.documents.DocumentNamespaces(ctx, kindLogin)
}

// Question implements [mcp.Logins].
func (l *Logins) Question(_ string, s mcp.Server, user string) event.InputQuestion {
	who := "somebody to log in"
	if user != "" {
		who = user + " to log in"
	}
	page := l.at("/")
	page.Fragment = "/servers/" + s.Name + "/login"
	return event.InputQuestion{
		Kind: event.InputURL, URL: page.String(),
		Message: fmt.Sprintf("The MCP server %s (%s) needs %s.", s.Name, host(s.URL), who),
	}
}

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// at returns the public address of a path.
func (l *Logins) at(path string) *url.URL { return l.public.JoinPath(path) }

// Status returns what is known about a login to a server. Without a user, nothing is known about a login of a person.
func (l *Logins) Status(ctx context.Context, namespace string, s mcp.Server, user string) (tool.ServerLogin, error) {
	out := tool.ServerLogin{Per: cmp.Or(s.Login.Per, tool.LoginPerNamespace)}
	if s.Login.Per == tool.LoginPerUser {
		if out.User = user; user == "" {
			return out, nil
		}
	}
	found, err := l.find(ctx, namespace, s, out.User)
	if err != nil || found.ID == "" {
		return out, err
	}
	out.ID, out.LoggedIn, out.Lost, out.By, out.At, out.Issuer = found.ID, found.valid(), found.Lost, found.By, found.At, found.Issuer
	out.Scopes, out.Wanted = found.Scopes, found.Wanted
	return out, nil
}

// Forget deletes a login, and revokes it if the authorization server can. It returns [toolserver.ErrNotLoggedIn] if
// there is none.
func (l *Logins) Forget(ctx context.Context, c *http.Client, namespace string, s mcp.Server, user string) error {
	found, err := l.find(ctx, namespace, s, user)
	switch {
	case err != nil:
		return err
	case found.ID == "":
		return toolserver.ErrNotLoggedIn
	}
	if err := l.documents.DeleteDocument(ctx, namespace, kindLogin, documentName(s.Name, user), anyVersion); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := found.revoke(ctx, c); err != nil {
		l.log.Warn("a login to an MCP server was deleted, but could not be revoked", "mcpServer", s.Name, "err", err)
	}
	return nil
}

// newID returns a random id.
func newID() string { return rand.Text() }
