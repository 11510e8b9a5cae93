package oauthtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

const codeLifetime = 10 * time.Minute

// authorization is a valid authorization request.
type authorization struct {
	client                       *client
	redirectURI, state, resource string
	challenge                    string
	scopes                       []string
}

// code is an authorization code.
type code struct {
	authorization
	user    string
	expires time.Time
	family  *family // since the code was used
}

// challengeForm is that of a S256 code challenge.
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// authorize is the authorization endpoint.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c, err := s.lookup(r.Context(), q.Get("client_id"))
	if err == nil && !slices.Contains(c.redirectURIs, q.Get("redirect_uri")) {
		err = fmt.Errorf("the redirect URI %q is not registered", q.Get("redirect_uri"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil { // nobody may be redirected
		text := err.Error()
		if !errors.Is(err, errForgotten) {
			text = s.violate("authorize: %v", err)
		}
		http.Error(w, text, http.StatusBadRequest)
		return
	}
	a := authorization{
		client: c, redirectURI: q.Get("redirect_uri"), state: q.Get("state"), resource: q.Get("resource"),
		challenge: q.Get("code_challenge"), scopes: strings.Fields(q.Get("scope")),
	}
	if code, err := s.checkAuthorization(&a, q); err != nil {
		s.respond(w, r, a, url.Values{"error": {code}, "error_description": {s.violate("authorize: %v", err)}})
		return
	}
	if s.config.Interactive {
		s.ask(w, a)
		return
	}
	s.finish(w, r, a, !s.deny)
}

// checkAuthorization returns the error code and the reason of an invalid request. The caller holds the lock.
func (s *Server) checkAuthorization(a *authorization, q url.Values) (string, error) {
	for name, values := range q {
		if len(values) > 1 {
			return "invalid_request", fmt.Errorf("%s is there twice", name)
		}
	}
	switch {
	case q.Get("response_type") != "code":
		return "unsupported_response_type", fmt.Errorf("response_type is %q", q.Get("response_type"))
	case a.challenge == "":
		return "invalid_request", errors.New("code_challenge is missing: PKCE is required")
	case q.Get("code_challenge_method") != "S256":
		return "invalid_request", fmt.Errorf("code_challenge_method is %q", q.Get("code_challenge_method"))
	case !challengeForm.MatchString(a.challenge):
		return "invalid_request", errors.New("code_challenge is not the hash of a verifier")
	case a.state == "":
		return "invalid_request", errors.New("state is missing")
	case a.resource != s.resourceID():
		return "invalid_target", fmt.Errorf("resource is %q instead of %q", a.resource, s.resourceID())
	}
	if len(a.scopes) == 0 {
		a.scopes = []string{ScopeRead}
	}
	for _, scope := range a.scopes {
		if !slices.Contains([]string{ScopeRead, ScopeWrite, ScopeOffline}, scope) {
			return "invalid_scope", fmt.Errorf("unknown scope %q", scope)
		}
	}
	return "", nil
}

var askPage = template.Must(template.New("ask").Parse(`<!doctype html>
<title>Protected notes</title>
<p>{{.User}}, a client asks for: {{.Scopes}}</p>
<form method="post" action="` + decidePath + `">
<input type="hidden" name="request" value="{{.Request}}">
<button name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</form>
`))

// ask shows a page on which the user decides. The caller holds the lock.
func (s *Server) ask(w http.ResponseWriter, a authorization) {
	id := rand.Text()
	s.pending[id] = a
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = askPage.Execute(w, map[string]string{"User": s.user, "Scopes": strings.Join(a.scopes, ", "), "Request": id}) // the browser is gone
}

// decide takes the decision of the user.
func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.PostFormValue("request")
	a, found := s.pending[id]
	if !found {
		http.Error(w, "This request has been decided.", http.StatusBadRequest)
		return
	}
	delete(s.pending, id)
	s.finish(w, r, a, r.PostFormValue("decision") == "allow" && !s.deny)
}

// finish redirects to the client with a code, or with the denial. The caller holds the lock.
func (s *Server) finish(w http.ResponseWriter, r *http.Request, a authorization, allowed bool) {
	if !allowed {
		s.deny = false
		s.counts.Denials++
		s.respond(w, r, a, url.Values{"error": {"access_denied"}, "error_description": {"The user has denied the request."}})
		return
	}
	s.counts.Authorizations++
	text := s.secret("code")
	s.codes[text] = &code{authorization: a, user: s.user, expires: time.Now().Add(codeLifetime)}
	s.respond(w, r, a, url.Values{"code": {text}})
}

// respond redirects to the client. The caller holds the lock.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, a authorization, answer url.Values) {
	if a.state != "" {
		answer.Set("state", a.state)
	}
	switch {
	case s.config.WrongIss:
		answer.Set("iss", "https://other.example")
	case !s.config.NoIss:
		answer.Set("iss", s.issuerID())
	}
	u, err := url.Parse(a.redirectURI)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := u.Query()
	for name, values := range answer {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	http.Redirect(w, r, u.String(), http.StatusFound)
}
