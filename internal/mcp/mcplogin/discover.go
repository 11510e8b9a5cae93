package mcplogin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool/mcp"
)

// authority is what is known about the authorization server of an MCP server.
type authority struct {
	Issuer    string `json:"issuer"`
	Resource  string `json:"resource"`
	TokenURL  string `json:"tokenUrl"`
	RevokeURL string `json:"revokeUrl,omitempty"`
}

// client is a client that is registered with an authorization server.
type client struct {
	ID     string           `json:"id"`
	Secret string           `json:"secret,omitempty"`
	Style  oauth2.AuthStyle `json:"style,omitempty"`

	// Expires is the end of the secret, in seconds since 1970; 0 = none.
	Expires int64 `json:"expires,omitempty"`
}

// discovered is what the servers say about logins.
type discovered struct {
	authority
	meta   *oauthex.AuthServerMeta
	scopes []string
}

const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	probeBody         = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
)

// discover finds the authorization server of a server, as the protocol's versions from 2025-03-26 on describe it.
func discover(ctx context.Context, c *http.Client, server string) (discovered, error) {
	challenges, err := probe(ctx, c, server)
	if err != nil {
		return discovered{}, fmt.Errorf("the MCP server does not answer: %w", err)
	}
	resource, err := findResource(ctx, c, challenges, server)
	if err != nil {
		return discovered{}, err
	}
	issuer := resource.AuthorizationServers[0]
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, c)
	if err != nil {
		return discovered{}, fmt.Errorf("the description of the authorization server cannot be used: %w", err)
	}
	if meta == nil { // version 2025-03-26 has default addresses
		base := strings.TrimSuffix(issuer, "/")
		meta = &oauthex.AuthServerMeta{
			Issuer: issuer, AuthorizationEndpoint: base + "/authorize", TokenEndpoint: base + "/token", RegistrationEndpoint: base + "/register",
		}
	}
	scopes := challenged(challenges, "scope")
	if scopes == "" {
		scopes = strings.Join(resource.ScopesSupported, " ")
	}
	return discovered{authority{meta.Issuer, resource.Resource, meta.TokenEndpoint, meta.RevocationEndpoint}, meta, strings.Fields(scopes)}, nil
}

// probe returns what a server answers to a request without a login.
func probe(ctx context.Context, c *http.Client, server string) ([]oauthex.Challenge, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server, strings.NewReader(probeBody))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	challenges, err := oauthex.ParseWWWAuthenticate(res.Header["Www-Authenticate"])
	if err != nil {
		return nil, nil // the well-known addresses are left
	}
	return challenges, nil
}

// challenged returns a parameter of the bearer challenges.
func challenged(challenges []oauthex.Challenge, parameter string) string {
	for _, c := range challenges {
		if v := c.Params[parameter]; c.Scheme == "bearer" && v != "" {
			return v
		}
	}
	return ""
}

// findResource returns the description of the server as a protected resource. A server without one is its
// own authorization server.
func findResource(ctx context.Context, c *http.Client, challenges []oauthex.Challenge, server string) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	root := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	places := [][2]string{{root + wellKnownResource + strings.TrimSuffix(u.Path, "/"), server}, {root + wellKnownResource, root}}
	if at := challenged(challenges, "resource_metadata"); at != "" {
		places = [][2]string{{at, server}}
	}
	var problem error
	for _, place := range places {
		found, err := oauthex.GetProtectedResourceMetadata(ctx, place[0], place[1], c)
		switch {
		case err != nil:
			problem = err
		case found != nil && len(found.AuthorizationServers) == 0:
			return nil, errors.New("the description of the MCP server names no authorization server")
		case found != nil:
			return found, nil
		}
	}
	if challenged(challenges, "resource_metadata") != "" {
		return nil, fmt.Errorf("the description of the MCP server cannot be used: %w", problem)
	}
	return &oauthex.ProtectedResourceMetadata{AuthorizationServers: []string{root}, Resource: server}, nil
}

// clientFor returns the client for an authorization server: the configured one, the client metadata document, the one
// that was registered before, or one that it registers.
func (l *Logins) clientFor(ctx context.Context, c *http.Client, namespace string, s mcp.Server, d discovered) (client, error) {
	supported := d.meta.TokenEndpointAuthMethodsSupported
	if s.Login.ClientID != "" {
		style := oauth2.AuthStyleInParams
		if s.Login.ClientSecret != "" && !slices.Contains(supported, "client_secret_post") && slices.Contains(supported, "client_secret_basic") {
			style = oauth2.AuthStyleInHeader
		}
		return client{ID: s.Login.ClientID, Secret: string(s.Login.ClientSecret), Style: style}, nil
	}
	if d.meta.ClientIDMetadataDocumentSupported && l.public.Scheme == "https" {
		return client{ID: l.at(PathClient).String(), Style: oauth2.AuthStyleInParams}, nil
	}
	name := l.clientName(d.Issuer)
	doc, err := l.documents.Document(ctx, namespace, kindClient, name)
	var known client
	switch {
	case err == nil && l.open(namespace, doc, &known) == nil && (known.Expires == 0 || time.Now().Unix() < known.Expires):
		return known, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return client{}, err
	case d.meta.RegistrationEndpoint == "":
		return client{}, errors.New("the authorization server does not register clients by itself: register one there, and set login.clientId")
	}
	registered, err := oauthex.RegisterClient(ctx, d.meta.RegistrationEndpoint, l.metadata(supported), c)
	if err != nil {
		return client{}, fmt.Errorf("the authorization server did not register a client: %w", err)
	}
	known = client{ID: registered.ClientID, Secret: registered.ClientSecret, Style: style(registered)}
	if at := registered.ClientSecretExpiresAt; at.Unix() > 0 {
		known.Expires = at.Unix()
	}
	_, err = l.put(ctx, namespace, kindClient, name, "", known, anyVersion)
	return known, err
}

// clientName returns the name of the document of a client. A client is registered for one address of the API.
func (l *Logins) clientName(issuer string) string {
	sum := sha256.Sum256([]byte(issuer + "\n" + l.at(PathCallback).String()))
	return hex.EncodeToString(sum[:16])
}

func style(r *oauthex.ClientRegistrationResponse) oauth2.AuthStyle {
	switch {
	case r.ClientSecret == "", r.TokenEndpointAuthMethod == "client_secret_post", r.TokenEndpointAuthMethod == "none":
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// Metadata is the description of the client, for authorization servers that fetch it.
func (l *Logins) Metadata() any {
	type document struct {
		ClientID string `json:"client_id"`
		oauthex.ClientRegistrationMetadata
	}
	return document{l.at(PathClient).String(), *l.metadata([]string{"none"})}
}

func (l *Logins) metadata(supported []string) *oauthex.ClientRegistrationMetadata {
	m := &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{l.at(PathCallback).String()}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "Threadmill", ClientURI: l.at("/").String(), ApplicationType: "web",
	}
	for _, method := range []string{"client_secret_basic", "client_secret_post", "none"} {
		if slices.Contains(supported, method) {
			m.TokenEndpointAuthMethod = method
			break
		}
	}
	if ip := l.public.Hostname(); ip == "localhost" || strings.HasPrefix(ip, "127.") || ip == "::1" {
		m.ApplicationType = "native" // redirects to this machine are for native clients only
	}
	return m
}

// revoke revokes the tokens, if the authorization server can.
func (l login) revoke(ctx context.Context, c *http.Client) error {
	token := l.Token.RefreshToken
	if token == "" {
		token = l.Token.AccessToken
	}
	if l.RevokeURL == "" || token == "" {
		return nil
	}
	form := url.Values{"token": {token}}
	if l.Client.Style != oauth2.AuthStyleInHeader {
		form.Set("client_id", l.Client.ID)
		if l.Client.Secret != "" {
			form.Set("client_secret", l.Client.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.RevokeURL, bytes.NewBufferString(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if l.Client.Style == oauth2.AuthStyleInHeader {
		req.SetBasicAuth(url.QueryEscape(l.Client.ID), url.QueryEscape(l.Client.Secret))
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the authorization server answered %s", res.Status)
	}
	return nil
}
