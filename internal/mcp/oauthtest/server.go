package oauthtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// Scopes of the MCP server.
const (
	ScopeRead    = "read"
	ScopeWrite   = "write"
	ScopeOffline = "offline_access"
)

// Place is where the MCP server publishes the metadata of the resource (RFC 9728).
type Place int

// Places of the metadata.
const (
	InChallenge Place = iota // at an address that only the challenge names
	AtPath                   // at the well-known address with the path of the MCP server; the challenge does not name it
	AtRoot                   // at the well-known address without a path; the resource is the origin
)

// Config has the switches of a [Server]. The zero value is the default.
type Config struct {
	// ResourceMetadata is the place of the resource's metadata.
	ResourceMetadata Place

	// IssuerPath is the path of the issuer, such as /tenant. Default: none.
	IssuerPath string

	// OpenID publishes the authorization server's metadata as OpenID Connect Discovery only.
	OpenID bool

	// NoRegistration switches dynamic registration off: see [Server.Register].
	NoRegistration bool

	// Documents accepts client metadata documents. They are read with this client.
	Documents *http.Client

	// AuthMethods are the client authentication methods of the token endpoint. Default: all.
	AuthMethods []string

	// NoIss omits the iss parameter of authorization responses.
	NoIss bool

	// WrongIss sends the iss of another server, as in a mix-up attack.
	WrongIss bool

	// Lifetime is the lifetime of access tokens. Default: an hour.
	Lifetime time.Duration

	// OfflineAccess issues refresh tokens only to those who ask for the scope offline_access.
	OfflineAccess bool

	// KeepRefresh does not rotate refresh tokens.
	KeepRefresh bool

	// Interactive shows a page with an Allow button. Default: authorize redirects at once.
	Interactive bool
}

// Server is an MCP server with its authorization server. See [New].
type Server struct {
	// URL is the address of the MCP server.
	URL string

	resource, issuer *httptest.Server

	mu         sync.Mutex
	config     Config
	user       string
	deny       bool
	failures   int
	failStatus int
	hold       *hold

	clients  map[string]*client
	pending  map[string]authorization // waiting for a person
	codes    map[string]*code
	access   map[string]*accessToken
	refresh  map[string]*refreshToken
	sessions map[string]string // users of MCP sessions
	notes    map[string][]string

	violations []string
	secrets    []string
	counts     Counts
}

// Counts counts what happened.
type Counts struct {
	// Registrations of clients.
	Registrations int

	// Authorizations that were granted.
	Authorizations int

	// Denials of authorizations.
	Denials int

	// Exchanges of codes for tokens.
	Exchanges int

	// Refreshes that returned tokens.
	Refreshes int

	// Reuses of refresh tokens that had been replaced.
	Reuses int

	// Revocations that clients asked for.
	Revocations int
}

// New starts a server, and stops it at the end of the test. The user is alice.
func New(t testing.TB) *Server {
	s := &Server{
		user: "alice", clients: map[string]*client{}, pending: map[string]authorization{}, codes: map[string]*code{},
		access: map[string]*accessToken{}, refresh: map[string]*refreshToken{}, sessions: map[string]string{},
		notes: map[string][]string{},
	}
	s.resource = httptest.NewServer(s.resourceHandler())
	s.URL = s.resource.URL + mcpPath
	s.issuer = httptest.NewServer(s.issuerHandler())
	t.Cleanup(func() {
		for _, server := range []*httptest.Server{s.resource, s.issuer} {
			server.CloseClientConnections() // streams would keep it open
			server.Close()
		}
	})
	return s
}

// Configure changes the switches, also while the server runs.
func (s *Server) Configure(change func(*Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.config)
}

func (s *Server) settings() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// Issuer returns the issuer of the authorization server.
func (s *Server) Issuer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issuerID()
}

func (s *Server) issuerID() string { return s.issuer.URL + s.config.IssuerPath }

// Resource returns the identifier of the MCP server, which tokens are bound to.
func (s *Server) Resource() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resourceID()
}

func (s *Server) resourceID() string {
	if s.config.ResourceMetadata == AtRoot {
		return s.resource.URL
	}
	return s.URL
}

// SetUser changes who is logged in at the authorization server.
func (s *Server) SetUser(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user = name
}

// Deny makes the user deny the next authorization.
func (s *Server) Deny() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deny = true
}

// FailTokens answers the next n requests to the token endpoint with a status.
func (s *Server) FailTokens(n, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.failStatus = n, status
}

// hold makes token requests wait.
type hold struct {
	reached, open chan struct{}
	once          sync.Once
}

// HoldTokens makes requests to the token endpoint wait until release is called. reached is closed when one has arrived.
func (s *Server) HoldTokens() (reached <-chan struct{}, release func()) {
	h := &hold{reached: make(chan struct{}), open: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = h
	return h.reached, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hold = nil
		close(h.open)
	}
}

// held returns when no test holds token requests, or the client has gone.
func (s *Server) held(ctx context.Context) {
	s.mu.Lock()
	h := s.hold
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.once.Do(func() { close(h.reached) })
	select {
	case <-h.open:
	case <-ctx.Done():
	}
}

// Expire lets all access tokens expire now.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.access {
		a.expires = time.Time{}
	}
}

// Revoke withdraws what a user has granted.
func (s *Server) Revoke(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refresh {
		if r.family.user == user {
			r.family.revoked = true
		}
	}
	for _, a := range s.access {
		if a.family.user == user {
			a.family.revoked = true
		}
	}
}

// ForgetClients removes all clients, as servers do after some time.
func (s *Server) ForgetClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		c.forgotten = true
	}
}

// Violations returns what clients did wrong, in order.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Secrets returns all tokens, codes and client secrets so far. None of them may become visible.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

// Counts returns what happened so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Notes returns the notes of a user, in order.
func (s *Server) Notes(user string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes[user])
}

// violate records what a client did wrong. The caller holds the lock.
func (s *Server) violate(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	s.violations = append(s.violations, text)
	return text
}

// secret makes a secret, and remembers it. The caller holds the lock.
func (s *Server) secret(kind string) string {
	secret := kind + "-" + rand.Text()
	s.secrets = append(s.secrets, secret)
	return secret
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}
