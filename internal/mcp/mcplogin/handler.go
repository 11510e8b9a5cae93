package mcplogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool/mcp"
)

const (
	// renewBefore is how long before its end a token is renewed.
	renewBefore = 30 * time.Second

	// renewWithin is how long a worker may take to renew a token before another one tries. It is longer than
	// the timeout of the request.
	renewWithin = 45 * time.Second

	// renewPoll is how often a worker looks whether another one has renewed the token.
	renewPoll = 200 * time.Millisecond

	// maxSaves is how often a change of a login is tried.
	maxSaves = 50
)

// handler is the OAuth handler of a connection.
type handler struct {
	*Logins
	namespace string
	server    mcp.Server
	user      string
	client    *http.Client
}

// Handler implements [mcp.Logins].
func (l *Logins) Handler(namespace string, s mcp.Server, user string, client *http.Client) auth.OAuthHandler {
	return &handler{l, namespace, s, user, client}
}

// TokenSource implements [auth.OAuthHandler].
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	return source{h, ctx}, nil
}

// source is the source of the tokens of a request.
type source struct {
	*handler
	ctx context.Context
}

// Token implements [oauth2.TokenSource].
func (s source) Token() (*oauth2.Token, error) {
	found, err := s.fresh(s.ctx, "")
	if err != nil {
		return nil, err
	}
	return &found.Token, nil
}

// Authorize implements [auth.OAuthHandler]. It renews a token that the server rejects, once. A login needs a person.
func (h *handler) Authorize(ctx context.Context, req *http.Request, res *http.Response) error {
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusForbidden {
		return h.forbidden(ctx, res)
	}
	_, err := h.fresh(ctx, strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
	return err
}

// forbidden notes the scopes that a request lacks.
func (h *handler) forbidden(ctx context.Context, res *http.Response) error {
	challenges, err := oauthex.ParseWWWAuthenticate(res.Header["Www-Authenticate"])
	if err != nil || challenged(challenges, "error") != "insufficient_scope" {
		return errors.New("the server forbids the request (403)")
	}
	wanted := strings.Fields(challenged(challenges, "scope"))
	found, err := h.find(ctx, h.namespace, h.server, h.user)
	if err != nil {
		return err
	}
	if found.ID != "" {
		if err := h.change(ctx, found, func(l *login) { l.Wanted = union(l.Wanted, wanted) }); err != nil {
			return err
		}
	}
	return &mcp.LoginError{Reason: fmt.Sprintf("the present one does not permit %s", strings.Join(wanted, ", ")), Partial: true, Refused: found.ID}
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

func conflicts(err error) bool {
	_, ok := errors.AsType[*store.ConflictError](err)
	return ok || errors.Is(err, store.ErrNotFound)
}

// fresh returns the login with a token that is valid for a while, and is not the rejected one. If there is none to be had, it
// returns a [*mcp.LoginError].
func (h *handler) fresh(ctx context.Context, rejected string) (login, error) {
	for renewed := false; ; {
		found, err := h.find(ctx, h.namespace, h.server, h.user)
		switch t := found.Token; {
		case err != nil:
			return login{}, fmt.Errorf("the login cannot be read: %w", err)
		case !found.valid():
			return login{}, &mcp.LoginError{Reason: found.Lost, Refused: found.ID}
		case t.AccessToken != rejected && (t.Expiry.IsZero() || time.Until(t.Expiry) > renewBefore):
			return found, nil
		case t.AccessToken != rejected && time.Until(t.Expiry) > 0 && (renewed || t.RefreshToken == ""):
			return found, nil // it lives for less
		case renewed:
			return login{}, errors.New("the authorization server renews the login with a token that is not valid")
		case t.RefreshToken == "":
			err = h.lose(ctx, found, "it has ended")
		case time.Now().Before(found.Renewing):
			err = pause(ctx)
		default:
			found.Renewing = time.Now().Add(renewWithin)
			if err = h.save(ctx, h.namespace, h.server.Name, &found); err == nil {
				err = h.renew(ctx, found)
				renewed = err == nil
			}
		}
		if err != nil && !conflicts(err) {
			return login{}, err
		}
	}
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(renewPoll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lose notes that a login is no longer valid.
func (h *handler) lose(ctx context.Context, l login, reason string) error {
	h.log.Info("a login to an MCP server was lost", "mcpServer", h.server.Name, "namespace", h.namespace, "user", h.user, "reason", reason)
	return h.change(ctx, l, func(l *login) { l.Lost, l.Token, l.Renewing = reason, oauth2.Token{}, time.Time{} })
}

// change changes the stored login, unless another one has replaced it. It does not give up soon: a refresh token that
// was used is worth nothing, so the new one must be stored, whatever others have changed meanwhile.
func (h *handler) change(ctx context.Context, l login, change func(*login)) error {
	for attempt := 1; ; attempt++ {
		change(&l)
		err := h.save(ctx, h.namespace, h.server.Name, &l)
		if err == nil || attempt == maxSaves {
			return err
		}
		if !conflicts(err) {
			if err := pause(ctx); err != nil {
				return err
			}
		}
		switch found, err := h.find(ctx, h.namespace, h.server, h.user); {
		case err != nil: // the next attempt tells
		case found.ID != l.ID:
			return nil
		default:
			l = found
		}
	}
}

// renew renews the token of a login that this worker has marked as being renewed. It ends even if the request that
// needs it is cancelled: the refresh token may have been used.
func (h *handler) renew(ctx context.Context, l login) error {
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, h.client)
	// This type makes requests of the form that a refresh with a resource needs; the one for refresh tokens has no resource.
	request := clientcredentials.Config{
		ClientID: l.Client.ID, ClientSecret: l.Client.Secret, TokenURL: l.TokenURL, AuthStyle: l.Client.Style,
		EndpointParams: map[string][]string{"grant_type": {"refresh_token"}, "refresh_token": {l.Token.RefreshToken}, "resource": {l.Resource}},
	}
	token, err := request.Token(ctx)
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope"}, refused.ErrorCode):
		h.forgetClient(ctx, h.namespace, l.Issuer, err)
		return h.lose(ctx, l, "the authorization server does not renew it ("+refused.ErrorCode+")")
	case err != nil:
		return errors.Join(fmt.Errorf("the login could not be renewed: %w", brief(err)), h.change(ctx, l, func(l *login) { l.Renewing = time.Time{} }))
	}
	if token.RefreshToken == "" {
		token.RefreshToken = l.Token.RefreshToken
	}
	granted := scopesOf(token)
	return h.change(ctx, l, func(l *login) {
		l.Token, l.Renewing = stored(token), time.Time{}
		if granted != nil {
			l.Scopes = granted
		}
	})
}

// brief returns an error of a token request without the response, which may contain secrets.
func brief(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return err
	}
	if refused.ErrorCode != "" {
		return fmt.Errorf("the authorization server answered %s (%s)", refused.Response.Status, refused.ErrorCode)
	}
	return fmt.Errorf("the authorization server answered %s", refused.Response.Status)
}

// stored returns the parts of a token that are stored.
func stored(t *oauth2.Token) oauth2.Token {
	return oauth2.Token{AccessToken: t.AccessToken, TokenType: t.TokenType, RefreshToken: t.RefreshToken, Expiry: t.Expiry}
}

// scopesOf returns the scopes of a token, or nil if the server does not tell.
func scopesOf(t *oauth2.Token) []string {
	text, _ := t.Extra("scope").(string)
	if text == "" {
		return nil
	}
	return strings.Fields(text)
}
