package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"

	defaultLifetime = time.Hour
)

// family has the tokens that come from one authorization.
type family struct {
	client   *client
	user     string
	resource string
	scopes   []string
	revoked  bool
}

type accessToken struct {
	family  *family
	scopes  []string
	expires time.Time
}

type refreshToken struct {
	family *family
	used   bool
}

// tokenError is an error of the token endpoint. Not each is a violation: a user may have revoked a grant.
type tokenError struct {
	code   string
	reason error
	wrong  bool
}

func wrong(code, format string, args ...any) *tokenError {
	return &tokenError{code, fmt.Errorf(format, args...), true}
}

// token is the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.held(r.Context())
	if s.fails(w) {
		return
	}
	c, failure := s.tokenClient(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[string]any
	if failure == nil {
		switch grant := r.PostForm.Get("grant_type"); {
		case !slices.Contains(c.grants, grant):
			failure = wrong("unauthorized_client", "the client has not registered for the grant %q", grant)
		case grant == grantCode:
			out, failure = s.exchange(c, r.PostForm)
		case grant == grantRefresh:
			out, failure = s.refreshTokens(c, r.PostForm)
		default:
			failure = wrong("unsupported_grant_type", "grant_type is %q", grant)
		}
	}
	if failure != nil {
		s.reject(w, failure)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// fails answers a request with the status that a test wants.
func (s *Server) fails(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == 0 {
		return false
	}
	s.failures--
	http.Error(w, "The authorization server is not available.", s.failStatus)
	return true
}

// tokenClient parses a form, and returns the client that has sent it.
func (s *Server) tokenClient(w http.ResponseWriter, r *http.Request) (*client, *tokenError) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, wrong("invalid_request", "the content type is %q", r.Header.Get("Content-Type"))
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return nil, wrong("invalid_request", "%w", err)
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, wrong("invalid_request", "%s is there twice", name)
		}
	}
	if r.URL.RawQuery != "" {
		return nil, wrong("invalid_request", "parameters were sent in the address")
	}
	c, err := s.authenticateClient(r)
	if err != nil {
		return nil, &tokenError{"invalid_client", err, !errors.Is(err, errForgotten)}
	}
	return c, nil
}

// reject answers with an error. The caller holds the lock.
func (s *Server) reject(w http.ResponseWriter, e *tokenError) {
	if e.wrong {
		s.violate("token: %s: %v", e.code, e.reason)
	}
	status := http.StatusBadRequest
	if e.code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="token"`)
	}
	writeJSON(w, status, map[string]string{"error": e.code, "error_description": e.reason.Error()})
}

// verifierForm is that of a PKCE verifier.
var verifierForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// exchange exchanges a code for tokens. The caller holds the lock.
func (s *Server) exchange(c *client, form url.Values) (map[string]any, *tokenError) {
	code := s.codes[form.Get("code")]
	verifier := form.Get("code_verifier")
	hash := sha256.Sum256([]byte(verifier))
	switch {
	case code == nil || code.client.id != c.id:
		return nil, wrong("invalid_grant", "unknown code")
	case code.family != nil:
		code.family.revoked = true
		return nil, wrong("invalid_grant", "the code was used before")
	case !code.expires.After(time.Now()):
		return nil, &tokenError{"invalid_grant", errors.New("the code has expired"), false}
	case form.Get("redirect_uri") != code.redirectURI:
		return nil, wrong("invalid_grant", "redirect_uri is %q instead of %q", form.Get("redirect_uri"), code.redirectURI)
	case !verifierForm.MatchString(verifier):
		return nil, wrong("invalid_grant", "code_verifier is missing or malformed")
	case base64.RawURLEncoding.EncodeToString(hash[:]) != code.challenge:
		return nil, wrong("invalid_grant", "code_verifier does not match code_challenge")
	case form.Get("resource") != code.resource:
		return nil, wrong("invalid_target", "resource is %q instead of %q", form.Get("resource"), code.resource)
	}
	code.family = &family{client: c, user: code.user, resource: code.resource, scopes: code.scopes}
	s.counts.Exchanges++
	withRefresh := slices.Contains(c.grants, grantRefresh) &&
		(!s.config.OfflineAccess || slices.Contains(code.scopes, ScopeOffline))
	return s.issue(code.family, code.scopes, withRefresh), nil
}

// refreshTokens exchanges a refresh token for new tokens. The caller holds the lock.
func (s *Server) refreshTokens(c *client, form url.Values) (map[string]any, *tokenError) {
	r := s.refresh[form.Get("refresh_token")]
	scopes := strings.Fields(form.Get("scope"))
	switch {
	case r == nil || r.family.client.id != c.id:
		return nil, wrong("invalid_grant", "unknown refresh token")
	case r.used:
		r.family.revoked = true
		s.counts.Reuses++
		return nil, wrong("invalid_grant", "the refresh token was used before: all tokens of the login are revoked")
	case r.family.revoked:
		return nil, &tokenError{"invalid_grant", errors.New("the login was revoked"), false}
	case form.Get("resource") != r.family.resource:
		return nil, wrong("invalid_target", "resource is %q instead of %q", form.Get("resource"), r.family.resource)
	}
	for _, scope := range scopes {
		if !slices.Contains(r.family.scopes, scope) {
			return nil, wrong("invalid_scope", "the scope %q was not granted", scope)
		}
	}
	if len(scopes) == 0 {
		scopes = r.family.scopes
	}
	s.counts.Refreshes++
	r.used = !s.config.KeepRefresh
	return s.issue(r.family, scopes, r.used), nil
}

// issue makes tokens. The caller holds the lock.
func (s *Server) issue(f *family, scopes []string, withRefresh bool) map[string]any {
	lifetime := s.config.Lifetime
	if lifetime == 0 {
		lifetime = defaultLifetime
	}
	token := s.secret("access")
	s.access[token] = &accessToken{f, scopes, time.Now().Add(lifetime)}
	out := map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(lifetime.Seconds()), "scope": strings.Join(scopes, " "),
	}
	if withRefresh {
		refresh := s.secret("refresh")
		s.refresh[refresh] = &refreshToken{family: f}
		out["refresh_token"] = refresh
	}
	return out
}

// revoke is the revocation endpoint. Unknown tokens are revoked already.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	c, failure := s.tokenClient(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if failure != nil {
		s.reject(w, failure)
		return
	}
	s.counts.Revocations++
	token := r.PostForm.Get("token")
	var f *family
	if a := s.access[token]; a != nil {
		f = a.family
	} else if r := s.refresh[token]; r != nil {
		f = r.family
	}
	switch {
	case f == nil:
		s.violate("revoke: unknown token")
	case f.client.id != c.id:
		s.reject(w, wrong("invalid_grant", "the token belongs to another client"))
		return
	default:
		f.revoked = true
	}
	w.WriteHeader(http.StatusOK)
}
