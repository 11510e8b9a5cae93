// Package httpapi serves the HTTP API of a runtime, with its page: threads, messages, event streams, approvals, webhooks and all
// that docs/http-api.md describes.
//
//	api, err := httpapi.New(runtime, httpapi.Config{})
//	if err != nil {
//		return err
//	}
//	server := &http.Server{Addr: "127.0.0.1:8080", Handler: api, ReadHeaderTimeout: 10 * time.Second}
//	server.RegisterOnShutdown(api.CloseStreams)
//
// It needs no worker in the same process. Programs of package app serve it by themselves.
package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/webhook"
)

// Config configures an [API]. The zero value serves everybody who reaches it.
type Config struct {
	// Authenticator authenticates requests and returns the roles of their senders.
	// Default: no authentication; everybody who can reach the API may do everything.
	Authenticator auth.Authenticator

	// Routes returns handlers of the application, which are served beside the API. New calls it once. Default: none.
	Routes func(*threadmill.Runtime) []Route

	// Webhooks are the endpoints at /v1/webhooks/. WebhookSource provides further ones that may change at run time.
	Webhooks      []webhook.Endpoint
	WebhookSource webhook.Source

	// AllowedHosts are the host names by which clients may call the API, such as
	// "threadmill.example" or "*.example" for its subdomains. Always allowed are localhost,
	// loopback addresses and, for connections that do not arrive at a loopback address, any IP
	// address. A request with another Host gets 421, which prevents DNS rebinding by web pages.
	// Default: no further names.
	AllowedHosts []string

	// AllowedOrigins are the origins, such as "https://app.example", whose web pages may call
	// the API from a browser (CORS). Default: only the pages that it serves itself.
	AllowedOrigins []string

	// TemporalUI is the address of Temporal's Web UI, such as "http://127.0.0.1:8233", to which the
	// page links. Default: no links.
	TemporalUI string
}

// Route is an HTTP handler of the application, which is served beside the API: with the
// same checks of hosts and origins, the same limits on slow clients, and the same authentication.
type Route struct {
	// Pattern is a pattern of [http.ServeMux], with the method and without a host, such as "POST /refunds". It
	// must not match paths of the API.
	Pattern string

	// Handler gets the requests. [auth.FromContext] returns their principal.
	Handler http.Handler

	// Role is the role that requests need. Default: every authenticated principal may call the handler.
	Role auth.Role

	// Public serves everybody without authentication.
	Public bool
}

// API is an [http.Handler].
type API struct {
	handler      http.Handler
	closeStreams context.CancelFunc
}

// New validates the configuration and returns the API of a runtime. It starts nothing.
func New(runtime *threadmill.Runtime, cfg Config) (*API, error) {
	served := backend.Of(runtime)
	if err := webhook.ValidateAll(cfg.Webhooks); err != nil {
		return nil, fmt.Errorf("httpapi: Config.Webhooks: %w", err)
	}
	for i, w := range cfg.Webhooks {
		if err := served.Known.Webhook(w.Event.Agents).First(); err != nil {
			return nil, fmt.Errorf("httpapi: Config.Webhooks[%d] (%s): %w", i, w.Name, err)
		}
	}
	var routes func() []server.Route
	if cfg.Routes != nil {
		routes = func() (list []server.Route) {
			for _, r := range cfg.Routes(runtime) {
				list = append(list, server.Route(r))
			}
			return list
		}
	}
	closing, closeStreams := context.WithCancel(context.Background())
	handler, err := server.New(server.Config{
		Backend: served, Threads: runtime.Client(), Authenticator: cfg.Authenticator, Routes: routes, Webhooks: cfg.Webhooks, WebhookSource: cfg.WebhookSource,
		AllowedHosts: cfg.AllowedHosts, AllowedOrigins: cfg.AllowedOrigins, TemporalUI: cfg.TemporalUI, Closing: closing,
	})
	if err != nil {
		closeStreams()
		return nil, err
	}
	return &API{handler, closeStreams}, nil
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// CloseStreams ends the event streams, which otherwise last until their clients
// disconnect. Pass it to [http.Server.RegisterOnShutdown].
func (a *API) CloseStreams() { a.closeStreams() }
