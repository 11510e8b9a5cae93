package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tool"
)

// Login describes how people log in to a server, with OAuth 2.1.
type Login struct {
	// Per says whom a login belongs to. Default [tool.LoginPerNamespace].
	Per tool.LoginPer

	// ClientID and ClientSecret are those of a client that was registered with the authorization server
	// beforehand. Default: the client registers itself.
	ClientID     string
	ClientSecret Secret

	// Scopes are the scopes to ask for. Default: those that the server names.
	Scopes []string
}

// personal reports whether each person has a login of her own.
func (s Server) personal() bool { return s.Login != nil && s.Login.Per == tool.LoginPerUser }

func (s Server) loginProblem() string {
	l := s.Login
	switch {
	case l == nil:
		return ""
	case s.URL == "":
		return "login belongs to url"
	case l.Per != "" && l.Per != tool.LoginPerNamespace && l.Per != tool.LoginPerUser:
		return fmt.Sprintf("login.per is %.40q, must be %s or %s", l.Per, tool.LoginPerNamespace, tool.LoginPerUser)
	case l.ClientSecret != "" && l.ClientID == "":
		return "login.clientSecret belongs to login.clientId"
	}
	for name := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return "the header Authorization and login exclude each other"
		}
	}
	return ""
}

// Logins keeps the logins to servers, for all processes. Implementations are safe for concurrent use.
// The user is empty for the login of a namespace.
type Logins interface {
	// Handler returns the handler of a connection. Its errors that only a new login can remove are
	// [*LoginError] errors. The client is for requests to the authorization server.
	Handler(namespace string, s Server, user string, client *http.Client) auth.OAuthHandler

	// Current identifies a login. It is empty if there is none, or only one to another address; a new login
	// has another id.
	Current(ctx context.Context, namespace string, s Server, user string) (id string, err error)

	// AnyUser returns somebody who is logged in to a server, or "".
	AnyUser(ctx context.Context, namespace string, s Server) (string, error)

	// Question returns the question that makes a person log in.
	Question(namespace string, s Server, user string) event.InputQuestion
}

// LoginError is the error of a request that needs another login.
type LoginError struct {
	// Reason says what the present login lacks. Empty = there is none.
	Reason string

	// Partial means that the present login stays valid for other requests.
	Partial bool

	// Refused is the present login, as [Logins.Current] identifies it.
	Refused string
}

func (e *LoginError) Error() string {
	if e.Reason == "" {
		return errLogin.Error()
	}
	return "it needs a new login: " + e.Reason
}

// Is makes every LoginError an errLogin.
func (e *LoginError) Is(target error) bool { return target == errLogin }

const (
	loginTimeout      = 30 * time.Second
	maxLoginRedirects = 3
)

// loginClient returns a client for requests to authorization servers. public forbids private addresses.
func loginClient(public bool) *http.Client {
	return &http.Client{
		Timeout: loginTimeout, Transport: newRemote(Server{}, public),
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if via[0].Method != http.MethodGet { // it would carry secrets
				return errors.New("the authorization server redirects, which a request with secrets does not follow")
			}
			if len(via) >= maxLoginRedirects {
				return errors.New("the authorization server redirects too often")
			}
			return nil
		},
	}
}

// Find returns a server of a namespace, with a client for requests to its authorization server. If there is
// none, it returns [ErrNoServer].
func (m *Manager) Find(ctx context.Context, namespace, name string) (Server, *http.Client, error) {
	d, err := m.find(ctx, namespace, name)
	if err != nil {
		return Server{}, nil, err
	}
	return d.server, loginClient(d.source && !m.cfg.SourcePrivate), nil
}

// connect returns the connection for a call. The connection of a person begins with her first call.
func (r *toolCall) connect(ctx context.Context) (*connection, error) {
	k := account{key: r.declaration.key}
	if !r.server.personal() {
		if c := r.m.connection(k); c != nil {
			return c, nil
		}
		// A worker that has just started knows the tool from the catalog.
		r.m.awaitRun(ctx)
		r.m.reconcile(ctx, k.namespace)
		return r.m.connection(k), nil
	}
	if r.call.User == "" {
		return nil, r.failed("people log in to it, and the turn does not answer a person's message", notCalled)
	}
	id, err := r.m.cfg.Logins.Current(ctx, k.namespace, r.server, r.call.User)
	switch {
	case err != nil:
		return nil, tool.Retryable(r.failed("its login cannot be read: "+err.Error(), notCalled))
	case id == "":
		return nil, r.askLogin(LoginError{})
	}
	k.user = r.call.User
	r.m.usedBy(k)
	r.m.reconcile(ctx, k.namespace)
	return r.m.connection(k), nil
}

// askLogin returns the error that makes the thread ask a person to log in.
func (r *toolCall) askLogin(lacks LoginError) error {
	q := r.m.cfg.Logins.Question(r.declaration.key.namespace, r.server, r.loginUser())
	q.ID = "login"
	q.Login = &event.InputLogin{Server: r.server.Name, User: r.loginUser(), Refused: lacks.Refused}
	if lacks.Reason != "" {
		q.Message += " " + clean(lacks.Reason, maxReason)
	}
	next := r.state // what people have answered before counts when the call is made again
	if len(next.IDs) > 0 && next.Held == nil {
		next.Held = r.call.Input.Answers
	}
	next.URLs = true
	state, err := json.Marshal(next)
	if err != nil {
		return r.failed(err.Error(), notCalled)
	}
	return &tool.InputRequired{Questions: []event.InputQuestion{q}, State: string(state)}
}

func (r *toolCall) loginUser() string {
	if r.server.personal() {
		return r.call.User
	}
	return ""
}

// relogin makes a connection that a login does not suffice for try again if there is another login by now.
func (c *connection) relogin(ctx context.Context, refused string) (bool, error) {
	id, err := c.cfg.Logins.Current(ctx, c.key.namespace, c.server, c.key.user)
	if err != nil {
		return false, fmt.Errorf("its login cannot be read: %w", err)
	}
	if id == "" || id == refused {
		return false, nil
	}
	c.update(func(s *State) { s.NextAttempt = nil }, tool.ServerConnecting)
	c.restart()
	return true, nil
}

// authorize returns the OAuth handler of a connection, or nil.
func (c *connection) authorize(ctx context.Context) (auth.OAuthHandler, error) {
	if c.server.Login == nil {
		return nil, nil
	}
	id, err := c.cfg.Logins.Current(ctx, c.key.namespace, c.server, c.key.user)
	if err != nil {
		return nil, fmt.Errorf("its login could not be read: %w", err)
	}
	c.mu.Lock()
	c.login = id
	c.mu.Unlock()
	return c.cfg.Logins.Handler(c.key.namespace, c.server, c.key.user, loginClient(c.public())), nil
}
