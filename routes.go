package threadmill

import (
	"net/http"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/server"
)

// Route is an HTTP handler of the application, which [Runtime.Handler] serves beside the API: with the
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

func serverRoutes(routes []Route) []server.Route {
	list := make([]server.Route, len(routes))
	for i, r := range routes {
		list[i] = server.Route(r)
	}
	return list
}
