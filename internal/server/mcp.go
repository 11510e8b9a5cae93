package server

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/mcp/mcpserver"
)

const (
	// replayBytes is the maximum size of what is kept for clients of sessions that reconnect.
	replayBytes = 16 << 20

	// closeWithin is the time in which calls end when the server closes.
	closeWithin = 2 * time.Second
)

// mcpPattern is the pattern of the requests of MCP clients.
const mcpPattern = http.MethodPost + " /mcp"

// statelessFrom is the first version of the protocol without sessions.
const statelessFrom = "2026-07-28"

// mcpHandlers serve the tools and resources of package mcpserver to MCP clients.
type mcpHandlers struct {
	*core
	viewers *viewers

	sessions         *mcpSessions
	stateful, single http.Handler
}

// registerMCP registers /mcp. handler serves the requests that the tools make.
func registerMCP(c *core, mux *http.ServeMux, handler http.Handler, v *viewers, cfg Config) error {
	local, err := api.New(api.Config{Base: "http://threadmill", Do: inProcess{handler}.do})
	if err != nil {
		return err
	}
	// What the SDK logs concerns clients.
	logger := slog.New(quiet{cfg.Logger.Handler()})
	serve := func() *mcp.Server {
		s := mcpserver.New(mcpserver.Config{
			API: local, WaitLimit: cfg.WaitLimit, Closing: cfg.Closing, Version: cfg.Version, Logger: logger, Roles: originRoles,
		})
		s.AddReceivingMiddleware(withOrigin)
		return s
	}
	stateful, stateless := sync.OnceValue(serve), sync.OnceValue(serve) // few handlers have clients of MCP
	h := &mcpHandlers{core: c, viewers: v, sessions: &mcpSessions{
		open:  func() iter.Seq[*mcp.ServerSession] { return stateful().Sessions() },
		known: map[string]*mcpSession{}, opening: map[string]int{},
	}}
	events := mcp.NewMemoryEventStore(nil)
	events.SetMaxBytes(replayBytes)
	common := mcp.StreamableHTTPOptions{
		Logger: logger, MaxRequestBodyBytes: c.maxBody,
		DisableLocalhostProtection: true, // see guard.Hosts
	}
	withSessions, without := common, common
	withSessions.EventStore, withSessions.SessionTimeout = events, sessionIdle
	without.Stateless, without.PropagateRequestCancellation = true, true
	h.stateful = bound(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return stateful() }, &withSessions))
	h.single = bound(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return stateless() }, &without))
	for _, pattern := range []string{mcpPattern, http.MethodGet + " /mcp", http.MethodDelete + " /mcp"} {
		c.access.handle(mux, route{role: anyRole}, pattern, h.serve)
	}
	return nil
}

func (h *mcpHandlers) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodGet {
		leave, err := h.viewers.enter(ctx)
		if err != nil {
			writeError(w, err)
			return
		}
		defer leave()
		defer context.AfterFunc(h.viewers.closing, cancel)()
	} else {
		// Calls end by themselves, with a result.
		defer context.AfterFunc(h.viewers.closing, func() { time.AfterFunc(closeWithin, cancel) })()
	}
	r = r.WithContext(ctx)
	if r.Header.Get("Mcp-Protocol-Version") >= statelessFrom {
		h.single.ServeHTTP(w, r)
		return
	}
	of, id := shareOf(ctx), r.Header.Get(sessionID)
	if r.Method != http.MethodPost || id != "" {
		defer h.sessions.use(id, of)()
		h.stateful.ServeHTTP(w, r)
		return
	}
	opened, err := h.sessions.enter(of)
	if err != nil {
		writeError(w, err)
		return
	}
	defer func() { opened(w.Header().Get(sessionID)) }()
	h.stateful.ServeHTTP(w, r)
}

// sessionID is the header with the id of a session.
const sessionID = "Mcp-Session-Id"

// originOf is the name under which the information about a token has the request.
const originOf = "request"

// bound binds sessions to the principal that opened them, and passes the request on to the tools. The
// SDK knows principals by a token, which not all of them have.
func bound(next http.Handler) http.Handler {
	next = sdkauth.RequireBearerToken(func(_ context.Context, _ string, r *http.Request) (*sdkauth.TokenInfo, error) {
		p := auth.FromContext(r.Context())
		origin := r.Context().Value(originKey{})
		return &sdkauth.TokenInfo{UserID: userID(p), Extra: map[string]any{originOf: origin}}, nil
	}, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := r.Clone(context.WithValue(r.Context(), originKey{}, r))
		known.Header.Set("Authorization", "Bearer authenticated")
		next.ServeHTTP(w, known)
	})
}
