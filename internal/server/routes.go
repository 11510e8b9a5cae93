package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/auth"
)

// Route is a handler of the application beside the API.
type Route struct {
	Pattern string
	Handler http.Handler

	// Role that requests need. Default: every principal may call the handler.
	Role auth.Role

	// Public serves everybody without authentication.
	Public bool
}

// reserved begin the paths of the API, those of the page included.
var reserved = []string{"/v1/", "/healthz", "/readyz", "/metrics", "/mcp", "/docs", "/openapi", "/oauth/", "/page/"}

// registerRoutes adds the routes of the application, after those of the API.
func (a *access) registerRoutes(mux *http.ServeMux, routes []Route) error {
	for i, r := range routes {
		if err := a.registerRoute(mux, r); err != nil {
			return fmt.Errorf("Config.Routes[%d]: %w", i, err)
		}
	}
	return nil
}

func (a *access) registerRoute(mux *http.ServeMux, r Route) (err error) {
	path := r.Pattern[strings.Index(r.Pattern, " ")+1:]
	role := r.Role
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("pattern %q must be a path, such as /refunds, after a method, such as POST", r.Pattern)
	case slices.ContainsFunc(reserved, func(p string) bool { return strings.HasPrefix(path, p) || path+"/" == p }):
		return fmt.Errorf("pattern %q is in the paths of the API: choose another one", r.Pattern)
	case r.Handler == nil:
		return fmt.Errorf("pattern %q has no handler", r.Pattern)
	case r.Public && role != "":
		return fmt.Errorf("pattern %q is public and needs the role %s: keep one of them", r.Pattern, role)
	case role != "" && !slices.Contains(auth.AllRoles(), role):
		return fmt.Errorf("pattern %q: unknown role %q", r.Pattern, role)
	case r.Public:
		role = public
	case role == "":
		role = anyRole
	}
	// The mux reports invalid and conflicting patterns by a panic.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pattern %q: %v", r.Pattern, p)
		}
	}()
	a.handle(mux, route{role: role}, r.Pattern, r.Handler.ServeHTTP)
	return nil
}
