package oauthtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	mcpPath       = "/mcp"
	resourcePath  = "/.well-known/oauth-protected-resource"
	challengePath = "/metadata/resource" // not at a well-known address
	sessionHeader = "Mcp-Session-Id"
	maxBody       = 1 << 20
)

// Tools of the MCP server.
const (
	ToolWhoami  = "whoami"
	ToolAddNote = "add_note"
)

// Note is the input of add_note.
type Note struct {
	Text string `json:"text" jsonschema:"the text of the note"`
}

func (s *Server) resourceHandler() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: ToolWhoami, Description: "Returns the name of the account.", Annotations: readOnly},
		func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return text("You are " + req.Extra.TokenInfo.UserID + "."), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: ToolAddNote, Description: "Stores a note."},
		func(_ context.Context, req *mcp.CallToolRequest, in Note) (*mcp.CallToolResult, any, error) {
			user := req.Extra.TokenInfo.UserID
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notes[user] = append(s.notes[user], in.Text)
			return text("Stored for " + user + "."), nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	mux.Handle(mcpPath, s.protect(handler))
	mux.HandleFunc("GET "+challengePath, s.serveResource(InChallenge))
	mux.HandleFunc("GET "+resourcePath+mcpPath, s.serveResource(AtPath))
	mux.HandleFunc("GET "+resourcePath, s.serveResource(AtRoot))
	return mux
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// serveResource publishes the metadata of the resource, if it is at this place.
func (s *Server) serveResource(at Place) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		config := s.settings()
		if config.ResourceMetadata != at {
			http.NotFound(w, r)
			return
		}
		s.unauthenticated(r)
		m := map[string]any{
			"resource": s.Resource(), "authorization_servers": []string{s.Issuer()}, "resource_name": "Protected notes",
			"scopes_supported": []string{ScopeRead, ScopeWrite}, "bearer_methods_supported": []string{"header"},
		}
		writeJSON(w, http.StatusOK, m)
	}
}

// unauthenticated records tokens that are sent where nobody has asked for them.
func (s *Server) unauthenticated(r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.violate("%s: a token was sent to a public address", r.URL.Path)
	}
}

// protect requires a valid token with the scopes of the request.
func (s *Server) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		family, scopes := s.authenticate(r)
		if family == nil {
			code := ""
			if r.Header.Get("Authorization") != "" {
				code = "invalid_token"
			}
			s.challenge(w, http.StatusUnauthorized, code, ScopeRead)
			return
		}
		for _, scope := range neededScopes(body) {
			if !slices.Contains(scopes, scope) {
				s.challenge(w, http.StatusForbidden, "insufficient_scope", scope)
				return
			}
		}
		info := &auth.TokenInfo{UserID: family.user, Scopes: scopes, Expiration: time.Now().Add(time.Hour)} // checked above
		verified := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
		auth.RequireBearerToken(verified, nil)(next).ServeHTTP(w, r)
	})
}

// authenticate returns the grant and the scopes of a request's token, or nil if it has no valid token.
func (s *Server) authenticate(r *http.Request) (*family, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Has("access_token") {
		s.violate("a token was sent in the address")
	}
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return nil, nil
	}
	a := s.access[token]
	switch {
	case a == nil:
		s.violate("an unknown access token was used")
		return nil, nil
	case a.family.resource != s.resourceID():
		s.violate("a token of another resource was used: %s", a.family.resource)
		return nil, nil
	case a.family.revoked || !a.expires.After(time.Now()):
		return nil, nil
	}
	s.checkSession(r.Header.Get(sessionHeader), a.family.user)
	return a.family, a.scopes
}

// checkSession records MCP sessions that are shared by users. The caller holds the lock.
func (s *Server) checkSession(id, user string) {
	if id == "" {
		return
	}
	if first, known := s.sessions[id]; known && first != user {
		s.violate("the session of %s was used by %s", first, user)
		return
	}
	s.sessions[id] = user
}

// challenge rejects a request, and says where to log in, and for which scope.
func (s *Server) challenge(w http.ResponseWriter, status int, code, scope string) {
	var parts []string
	if code != "" {
		parts = append(parts, fmt.Sprintf("error=%q", code))
	}
	if s.settings().ResourceMetadata == InChallenge {
		parts = append(parts, fmt.Sprintf("resource_metadata=%q", s.resource.URL+challengePath))
	}
	parts = append(parts, fmt.Sprintf("scope=%q", scope))
	w.Header().Set("WWW-Authenticate", "Bearer "+strings.Join(parts, ", "))
	http.Error(w, http.StatusText(status), status)
}

// neededScopes returns the scopes that a request needs: at step-up, only the new one is named, so clients must add it
// to those they have.
func neededScopes(body []byte) []string {
	var call struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &call) == nil && call.Method == "tools/call" && call.Params.Name == ToolAddNote {
		return []string{ScopeRead, ScopeWrite}
	}
	return []string{ScopeRead}
}
