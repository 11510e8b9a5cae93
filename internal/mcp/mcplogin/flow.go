package mcplogin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/threadmill/threadmill/tool/mcp"
)

const (
	// linkTTL is how long a link can be followed.
	linkTTL = 10 * time.Minute

	// cookieTTL is how long a person may take at the authorization server.
	cookieTTL = 15 * time.Minute

	purposeLink   = "mcp_login_link"
	purposeCookie = "mcp_login_cookie"
)

// Asked is a login that somebody has asked for.
type Asked struct {
	Namespace string    `json:"n"`
	Server    string    `json:"s"`
	User      string    `json:"u,omitempty"`
	By        string    `json:"b,omitempty"`
	Expires   time.Time `json:"e"`
}

// begun is a login at the authorization server. The browser keeps it in a cookie.
type begun struct {
	Asked
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	URL      string `json:"url"` // of the MCP server

	authority
	Client   client   `json:"client"`
	Scopes   []string `json:"scopes,omitempty"`
	IssParam bool     `json:"iss,omitempty"`
}

// UserError is an error that a person at the browser can understand.
type UserError struct{ Problem string }

func (e *UserError) Error() string { return e.Problem }

func userErrorf(format string, args ...any) error { return &UserError{fmt.Sprintf(format, args...)} }

// Link returns a link by which a browser logs in. by is who asks; the caller has checked that she may.
func (l *Logins) Link(namespace, server, user, by string) (link string, expires time.Time, err error) {
	expires = time.Now().Add(linkTTL).UTC().Truncate(time.Second)
	text, err := l.keys.Seal(purposeLink, Asked{namespace, server, user, by, expires})
	if err != nil {
		return "", expires, err
	}
	return l.at(PathStart + text).String(), expires, nil
}

// Asked returns what a link asks for.
func (l *Logins) Asked(sealed string) (Asked, error) {
	var a Asked
	switch err := l.keys.Open(purposeLink, sealed, &a); {
	case err != nil:
		return a, userErrorf("This link is not valid. Ask for a new one.")
	case time.Now().After(a.Expires):
		return a, userErrorf("This link has expired. Ask for a new one.")
	}
	return a, nil
}

// Begin returns the address of the authorization server to which the browser goes, with a cookie for it.
func (l *Logins) Begin(ctx context.Context, c *http.Client, s mcp.Server, a Asked) (string, *http.Cookie, error) {
	d, err := discover(ctx, c, s.URL)
	if err != nil {
		return "", nil, err
	}
	b := begun{
		Asked: a, State: newID(), Verifier: oauth2.GenerateVerifier(), URL: s.URL, authority: d.authority,
		IssParam: d.meta.AuthorizationResponseIssParameterSupported,
	}
	if b.Client, err = l.clientFor(ctx, c, a.Namespace, s, d); err != nil {
		return "", nil, err
	}
	before, err := l.find(ctx, a.Namespace, s, a.User)
	if err != nil {
		return "", nil, err
	}
	b.Scopes = slices.Clone(s.Login.Scopes)
	if len(b.Scopes) == 0 {
		b.Scopes = d.scopes
	}
	// What was granted before is not lost when a call needs more.
	if before.Issuer == d.Issuer {
		b.Scopes = union(union(b.Scopes, before.Scopes), before.Wanted)
	} else {
		b.Scopes = union(b.Scopes, before.Wanted)
	}
	if slices.Contains(d.meta.ScopesSupported, "offline_access") {
		b.Scopes = union(b.Scopes, []string{"offline_access"})
	}
	b.Expires = time.Now().Add(cookieTTL)
	value, err := l.keys.Seal(purposeCookie, b)
	if err != nil {
		return "", nil, err
	}
	cookie := l.cookie(b.State, value, cookieTTL)
	address := l.oauth(b, d.meta.AuthorizationEndpoint).AuthCodeURL(b.State, oauth2.S256ChallengeOption(b.Verifier), oauth2.SetAuthURLParam("resource", b.Resource))
	return address, cookie, nil
}

func (l *Logins) oauth(b begun, authorize string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: b.Client.ID, ClientSecret: b.Client.Secret, Scopes: b.Scopes, RedirectURL: l.at(PathCallback).String(),
		Endpoint: oauth2.Endpoint{AuthURL: authorize, TokenURL: b.TokenURL, AuthStyle: b.Client.Style},
	}
}

// cookie returns the cookie of a login. A browser may have several logins open.
func (l *Logins) cookie(state, value string, lifetime time.Duration) *http.Cookie {
	sum := sha256.Sum256([]byte(state))
	return &http.Cookie{ //nolint:gosec // browsers send secure cookies over HTTPS only, and a devserver has none
		Name: "threadmill_login_" + hex.EncodeToString(sum[:6]), Value: value, MaxAge: int(lifetime.Seconds()),
		Path: l.at(PathCallback).Path, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: l.public.Scheme == "https",
	}
}

// Resumed is a login with which a browser has come back.
type Resumed struct {
	begun
	// Cookie deletes the cookie of the login.
	Cookie *http.Cookie
}

// Resume returns the login with which a browser has come back from the authorization server.
func (l *Logins) Resume(r *http.Request) (Resumed, error) {
	state := r.URL.Query().Get("state")
	out := Resumed{Cookie: l.cookie(state, "", -time.Second)}
	sent, err := r.Cookie(out.Cookie.Name)
	if err != nil || l.keys.Open(purposeCookie, sent.Value, &out.begun) != nil || subtle.ConstantTimeCompare([]byte(out.State), []byte(state)) != 1 {
		return out, userErrorf("This login was begun in another browser, or has ended. Begin again.")
	}
	if time.Now().After(out.Expires) {
		return out, userErrorf("This login took too long. Begin again.")
	}
	return out, nil
}

// Finish exchanges the code of the authorization server for tokens and stores them.
func (l *Logins) Finish(ctx context.Context, c *http.Client, r Resumed, answer url.Values) error {
	if err := r.check(answer); err != nil {
		return err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c)
	token, err := l.oauth(r.begun, "").Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(r.Verifier), oauth2.SetAuthURLParam("resource", r.Resource))
	if err != nil {
		l.forgetClient(ctx, r.Namespace, r.Issuer, err)
		return userErrorf("The login failed: %v. Begin again.", brief(err))
	}
	done := login{
		ID: newID(), User: r.User, By: r.By, At: time.Now().UTC(), Server: r.URL, authority: r.authority, Client: r.Client, Scopes: r.Scopes, Token: stored(token),
	}
	if granted := scopesOf(token); granted != nil {
		done.Scopes = granted
	}
	done.version = anyVersion
	if err := l.save(ctx, r.Namespace, r.Server, &done); err != nil {
		return err
	}
	l.log.Info("a person has logged in to an MCP server", "mcpServer", r.Server, "namespace", r.Namespace, "user", r.User, "by", r.By)
	return nil
}

// forgetClient makes the next login register another client, if the authorization server has forgotten this one.
func (l *Logins) forgetClient(ctx context.Context, namespace, issuer string, err error) {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && (refused.ErrorCode == "invalid_client" || refused.ErrorCode == "unauthorized_client") {
		_ = l.documents.DeleteDocument(ctx, namespace, kindClient, l.clientName(issuer), anyVersion) // there may be none
	}
}

// check checks the answer of the authorization server.
func (r Resumed) check(answer url.Values) error {
	if code := answer.Get("error"); code != "" {
		if code == "access_denied" {
			return userErrorf("The login was refused at %s. The question stays open: begin again, or decline it.", host(r.Issuer))
		}
		return userErrorf("The authorization server %s answered with the error %.60q. Begin again, or ask the operator.", host(r.Issuer), code)
	}
	iss := answer.Get("iss")
	switch {
	case iss == "" && r.IssParam, iss != "" && iss != r.Issuer:
		return userErrorf("The answer is not one of the authorization server %s. Begin again.", host(r.Issuer))
	case answer.Get("code") == "":
		return userErrorf("The authorization server %s sent no code. Begin again.", host(r.Issuer))
	}
	return nil
}
