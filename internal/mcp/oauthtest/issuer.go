package oauthtest

import (
	"net/http"
	"slices"
	"strings"
)

const (
	oauthMetadataPath  = "/.well-known/oauth-authorization-server"
	openIDMetadataPath = "/.well-known/openid-configuration"
	authorizePath      = "/authorize"
	decidePath         = "/authorize/decide"
	tokenPath          = "/token"
	registerPath       = "/register"
	revokePath         = "/revoke"
)

// Client authentication methods of the token endpoint.
const (
	MethodNone  = "none"
	MethodPost  = "client_secret_post"
	MethodBasic = "client_secret_basic"
)

func (s *Server) issuerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+authorizePath, s.authorize)
	mux.HandleFunc("POST "+decidePath, s.decide)
	mux.HandleFunc("POST "+tokenPath, s.token)
	mux.HandleFunc("POST "+registerPath, s.register)
	mux.HandleFunc("POST "+revokePath, s.revoke)
	mux.Handle("GET /favicon.ico", http.NotFoundHandler()) // real browsers ask for it
	mux.HandleFunc("GET /", s.serveMetadata)
	return mux
}

// serveMetadata publishes the metadata of the authorization server at the addresses that belong to the issuer.
func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	config := s.settings()
	places := []string{oauthMetadataPath + config.IssuerPath}
	if config.OpenID {
		places = []string{config.IssuerPath + openIDMetadataPath} // OpenID Connect Discovery appends
	}
	if !slices.Contains(places, r.URL.Path) {
		if !strings.Contains(r.URL.Path, "/.well-known/") {
			s.mu.Lock()
			s.violate("GET %s: no such address", r.URL.Path)
			s.mu.Unlock()
		}
		http.NotFound(w, r)
		return
	}
	s.unauthenticated(r)
	writeJSON(w, http.StatusOK, s.metadata(config))
}

func (s *Server) metadata(config Config) map[string]any {
	m := map[string]any{
		"issuer":                                s.Issuer(),
		"authorization_endpoint":                s.issuer.URL + authorizePath,
		"token_endpoint":                        s.issuer.URL + tokenPath,
		"revocation_endpoint":                   s.issuer.URL + revokePath,
		"scopes_supported":                      []string{ScopeRead, ScopeWrite, ScopeOffline},
		"response_types_supported":              []string{"code"},
		"grant_types_supported":                 []string{grantCode, grantRefresh},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": config.authMethods(),
	}
	if !config.NoRegistration {
		m["registration_endpoint"] = s.issuer.URL + registerPath
	}
	if config.Documents != nil {
		m["client_id_metadata_document_supported"] = true
	}
	if !config.NoIss {
		m["authorization_response_iss_parameter_supported"] = true
	}
	if config.OpenID {
		m["jwks_uri"] = s.issuer.URL + "/jwks"
		m["subject_types_supported"] = []string{"public"}
		m["id_token_signing_alg_values_supported"] = []string{"RS256"}
	}
	return m
}

func (c Config) authMethods() []string {
	if c.AuthMethods != nil {
		return c.AuthMethods
	}
	return []string{MethodNone, MethodPost, MethodBasic}
}
