package oauthtest

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// client is a registered client.
type client struct {
	id, secret   string
	method       string // "" permits each method with a secret
	redirectURIs []string
	grants       []string
	forgotten    bool
}

// registration is the metadata of a client (RFC 7591).
type registration struct {
	ClientID      string   `json:"client_id,omitempty"`
	ClientSecret  string   `json:"client_secret,omitempty"`
	SecretExpires *int     `json:"client_secret_expires_at,omitempty"`
	ClientName    string   `json:"client_name,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	AuthMethod    string   `json:"token_endpoint_auth_method,omitempty"`
	GrantTypes    []string `json:"grant_types,omitempty"`
	ResponseTypes []string `json:"response_types,omitempty"`
	Scope         string   `json:"scope,omitempty"`
}

// Register registers a client beforehand. Without a method it may authenticate with any that uses a secret. It
// returns the id and the secret, which is empty for [MethodNone].
func (s *Server) Register(method string, redirectURIs ...string) (id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.addClient(method, redirectURIs, []string{grantCode, grantRefresh})
	return c.id, c.secret
}

// addClient registers a client. The caller holds the lock.
func (s *Server) addClient(method string, redirectURIs, grants []string) *client {
	c := &client{id: "client-" + rand.Text(), method: method, redirectURIs: redirectURIs, grants: grants}
	if method != MethodNone {
		c.secret = s.secret("secret")
	}
	s.clients[c.id] = c
	return c
}

// register is the registration endpoint.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	config := s.settings()
	if config.NoRegistration {
		http.NotFound(w, r)
		return
	}
	s.unauthenticated(r)
	var in registration
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = in.check(config)
	}
	if err != nil {
		code := "invalid_client_metadata"
		if errors.Is(err, errRedirect) {
			code = "invalid_redirect_uri"
		}
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": s.violate("registration: %v", err)})
		return
	}
	c := s.addClient(in.AuthMethod, in.RedirectURIs, in.GrantTypes)
	s.counts.Registrations++
	in.ClientID = c.id
	if c.secret != "" {
		in.ClientSecret, in.SecretExpires = c.secret, new(int) // never
	}
	writeJSON(w, http.StatusCreated, in)
}

var errRedirect = errors.New("the redirect URI is not valid")

// check sets the defaults of a registration, and validates it.
func (r *registration) check(config Config) error {
	if r.AuthMethod == "" {
		r.AuthMethod = MethodBasic
	}
	if len(r.GrantTypes) == 0 {
		r.GrantTypes = []string{grantCode}
	}
	if len(r.ResponseTypes) == 0 {
		r.ResponseTypes = []string{"code"}
	}
	switch {
	case !slices.Contains(config.authMethods(), r.AuthMethod):
		return fmt.Errorf("token_endpoint_auth_method %q is not supported", r.AuthMethod)
	case !slices.Contains(r.GrantTypes, grantCode), !slices.Equal(r.ResponseTypes, []string{"code"}):
		return errors.New("only authorization codes are supported")
	case r.ClientName == "":
		return errors.New("client_name is missing: people would not know who asks")
	case len(r.RedirectURIs) == 0:
		return fmt.Errorf("%w: there is none", errRedirect)
	}
	for _, uri := range r.RedirectURIs {
		if !validRedirect(uri) {
			return fmt.Errorf("%w: %q", errRedirect, uri)
		}
	}
	return nil
}

// validRedirect accepts https, and http on this machine, without a fragment.
func validRedirect(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || strings.Contains(uri, "#") {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// lookup returns a client: a registered one, or one that its metadata document describes.
func (s *Server) lookup(ctx context.Context, id string) (*client, error) {
	s.mu.Lock()
	c, documents := s.clients[id], s.config.Documents
	s.mu.Unlock()
	switch {
	case c != nil && c.forgotten:
		return nil, errForgotten
	case c != nil:
		return c, nil
	case documents == nil || !strings.HasPrefix(id, "https://"):
		return nil, fmt.Errorf("unknown client %q", id)
	}
	c, err := readDocument(ctx, documents, id)
	if err != nil {
		return nil, fmt.Errorf("client metadata document %s: %w", id, err)
	}
	return c, nil
}

// errForgotten is no violation: the client could not know.
var errForgotten = errors.New("the client is not registered any more")

// readDocument reads a client metadata document.
func readDocument(ctx context.Context, documents *http.Client, id string) (*client, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, err
	}
	res, err := documents.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var doc registration
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return nil, fmt.Errorf("its content type is %q", kind)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(&doc); err != nil {
		return nil, err
	}
	if err := doc.check(Config{}); err != nil {
		return nil, err
	}
	switch {
	case doc.ClientID != id:
		return nil, fmt.Errorf("its client_id is %q", doc.ClientID)
	case doc.AuthMethod != MethodNone || doc.ClientSecret != "":
		return nil, errors.New("a public document cannot agree on a secret")
	}
	return &client{id: id, method: MethodNone, redirectURIs: doc.RedirectURIs, grants: doc.GrantTypes}, nil
}

// authenticateClient returns the client of a request to the token or the revocation endpoint, whose form was parsed.
func (s *Server) authenticateClient(r *http.Request) (*client, error) {
	method, id, secret := MethodNone, r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if secret != "" {
		method = MethodPost
	}
	if user, password, ok := r.BasicAuth(); ok {
		if method == MethodPost {
			return nil, errors.New("two client authentication methods were used at once")
		}
		method = MethodBasic
		var err error
		if id, err = url.QueryUnescape(user); err != nil {
			return nil, err
		}
		if secret, err = url.QueryUnescape(password); err != nil {
			return nil, err
		}
	} else if r.Header.Get("Authorization") != "" {
		return nil, errors.New("the token endpoint got a header Authorization that is not Basic")
	}
	c, err := s.lookup(r.Context(), id)
	if err != nil {
		return nil, err
	}
	switch {
	case c.method != "" && c.method != method:
		return nil, fmt.Errorf("the client authenticated with %s instead of %s", method, c.method)
	case !slices.Contains(s.settings().authMethods(), method):
		return nil, fmt.Errorf("the client authenticated with %s, which the metadata does not offer", method)
	case subtle.ConstantTimeCompare([]byte(c.secret), []byte(secret)) != 1:
		return nil, errors.New("the secret of the client is wrong")
	}
	return c, nil
}
