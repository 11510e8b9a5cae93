package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
)

// public is the role of routes without authentication. Their handlers may still ask for the
// principal: see [access.principal].
const public auth.Role = "public"

// anyRole is the role of routes that every principal may use, and that check the roles of what they
// do themselves.
const anyRole auth.Role = "any"

// securityScheme is the name of the API keys' scheme in the OpenAPI document.
const securityScheme = "apiKey"

// route declares the role that a pattern of the mux requires. A pattern without a route rejects
// every request.
type route struct {
	role auth.Role

	// refuse writes an error in the form of the route. Default: a problem document.
	refuse func(w http.ResponseWriter, status int, detail string)
}

// access authenticates and authorizes requests.
type access struct {
	authenticator auth.Authenticator // nil = anybody may do anything
	namespace     string
	interval      time.Duration
	logger        *slog.Logger
	slots         *slots
	identities    identities

	// routes maps the patterns of the mux to their routes.
	routes map[string]route

	// failing means that the authentication of the last request failed, which was logged.
	failing atomic.Bool
}

// handle registers a handler that is not an operation of huma.
func (a *access) handle(mux *http.ServeMux, to route, pattern string, handler http.HandlerFunc) {
	a.routes[pattern] = to
	mux.HandleFunc(pattern, handler)
}

// secure adds the required role and the errors of authentication to an operation.
func secure(op *huma.Operation, role auth.Role) {
	if role == public {
		op.Security = []map[string][]string{}
		return
	}
	// Roles are no scopes of a scheme: tools that check documents know those of OAuth only.
	op.Security = []map[string][]string{{securityScheme: {}}}
	op.Extensions = map[string]any{"x-role": role}
	op.Description = strings.TrimSpace(op.Description + fmt.Sprintf(" Needs the role %s.", role))
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable} {
		if !slices.Contains(op.Errors, status) {
			op.Errors = append(op.Errors, status)
		}
	}
	slices.Sort(op.Errors)
}

// authorize passes requests whose principals have the required role on to the mux, and cancels them
// when their principals lose it.
func (a *access) authorize(w http.ResponseWriter, r *http.Request, pattern string, next http.Handler) {
	to, known := a.routes[pattern]
	if to.refuse == nil {
		to.refuse = writeProblem
	}
	if !known {
		a.logger.Error("a route has no role, and is closed to everybody", "pattern", pattern)
		to.refuse(w, http.StatusForbidden, "this route is closed to everybody")
		return
	}
	if to.role == public {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r)))
		return
	}
	p, err := a.authenticate(r, to.role, true)
	if err != nil {
		a.deny(w, to, err)
		return
	}
	ctx, cancel := context.WithCancelCause(auth.NewContext(r.Context(), p))
	defer cancel(nil)
	defer a.recheck(r, to.role, cancel)()
	a.slots.serve(w, r.WithContext(ctx), pattern, to, next)
}

// requestKey is the context key of the request of a public route.
type requestKey struct{}

// principal authenticates the request of a public route. Its principal may be anonymous. The error
// is a problem document.
func (a *access) principal(ctx context.Context, role auth.Role) (auth.Principal, error) {
	r, ok := ctx.Value(requestKey{}).(*http.Request)
	if !ok {
		return auth.Principal{}, problemOf(fmt.Errorf("%w: there is no request", auth.ErrUnauthenticated))
	}
	p, err := a.authenticate(r, role, true)
	if err != nil {
		err = problemOf(err)
	}
	return p, err
}

// forbiddenError describes the role that a principal lacks.
type forbiddenError struct{ detail string }

func (e *forbiddenError) Error() string { return e.detail }

// authenticate returns the principal of a request, which must have the role in the server's
// namespace. begin means that the request begins: a ticket may expire later.
func (a *access) authenticate(r *http.Request, role auth.Role, begin bool) (auth.Principal, error) {
	if a.authenticator == nil {
		return auth.Local(), nil
	}
	p, err := a.identify(r, begin)
	if errors.Is(err, auth.ErrUnauthenticated) {
		return p, err
	}
	if err != nil {
		if r.Context().Err() == nil && !a.failing.Swap(true) {
			a.logger.Error("requests cannot be authenticated", "request", requestID(r.Context()), "error", err)
		}
		return p, err
	}
	a.failing.Store(false)
	switch {
	case p.Namespace != "" && p.Namespace != a.namespace:
		return p, &forbiddenError{fmt.Sprintf("%s belongs to another namespace than this API", who(p))}
	case role != anyRole && !p.Roles.Has(role):
		return p, &forbiddenError{fmt.Sprintf("this needs the role %s; %s has %s", role, who(p), cmp.Or(strings.Join(p.Roles.Strings(), ", "), "none"))}
	case p.Name == "" || role == auth.RoleRead || role == auth.RoleAdmin || role == anyRole:
		// Readers do not speak, and administrators may resolve the conflict of names.
		return p, nil
	}
	if a.identities.validateKey(r.Context(), p.Name) != nil {
		return p, &forbiddenError{who(p) + " cannot act, since an agent has its name: rename one of them"}
	}
	return p, nil
}

// identify returns the principal of a request, by its ticket if it has one for what it asks.
func (a *access) identify(r *http.Request, begin bool) (auth.Principal, error) {
	if ticket, purpose := a.ticketOf(r); ticket != "" {
		if keys, ok := a.authenticator.(ticketer); ok {
			return keys.Redeem(r.Context(), ticket, purpose, begin)
		}
	}
	return a.authenticator.Authenticate(r)
}

func who(p auth.Principal) string {
	if p.Kind == auth.KindKey {
		return fmt.Sprintf("API key %q", p.Name)
	}
	return fmt.Sprintf("%q", p.Name)
}

// denial returns the status and the text for an error of authenticate.
func denial(err error) (status int, detail string) {
	var forbidden *forbiddenError
	switch {
	case errors.Is(err, auth.ErrUnauthenticated):
		return http.StatusUnauthorized, err.Error()
	case errors.As(err, &forbidden):
		return http.StatusForbidden, forbidden.detail
	}
	return http.StatusServiceUnavailable, "requests cannot be authenticated at the moment: the store of API keys does not answer"
}

// denialHeaders returns the headers of a response to an unauthenticated request.
func denialHeaders(status int) http.Header {
	switch status {
	case http.StatusUnauthorized:
		return http.Header{"Www-Authenticate": {"Bearer"}}
	case http.StatusServiceUnavailable:
		return http.Header{"Retry-After": {"5"}}
	}
	return nil
}

func (a *access) deny(w http.ResponseWriter, to route, err error) {
	status, detail := denial(err)
	maps.Copy(w.Header(), denialHeaders(status))
	to.refuse(w, status, detail)
}

// problemOf returns an error of authenticate as a problem document.
func problemOf(err error) error {
	status, detail := denial(err)
	return huma.ErrorWithHeaders(huma.NewError(status, detail), denialHeaders(status))
}

// recheck authenticates a long request again at intervals, and cancels it when its principal has
// lost the role. Other failures of a check are ignored: the request itself depends on the same
// store.
func (a *access) recheck(r *http.Request, role auth.Role, cancel context.CancelCauseFunc) (stop func()) {
	if a.authenticator == nil {
		return func() {}
	}
	ctx, done := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	var check func()
	check = func() {
		if ctx.Err() != nil {
			return
		}
		_, err := a.authenticate(r, role, false)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, auth.ErrUnauthenticated), is[*forbiddenError](err):
			cancel(&endedError{err})
		default:
			time.AfterFunc(a.interval, check)
		}
	}
	timer := time.AfterFunc(a.interval, check)
	return func() {
		done()
		timer.Stop()
	}
}

// endedError is the cause with which a request is cancelled when its principal has lost the role.
type endedError struct{ err error }

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }
