package server

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// public stands for the role of a route that anybody may use. Its handler can ask for the
// principal with [access.principal].
const public auth.Role = "public"

// securityScheme is the name of API keys in the API's description.
const securityScheme = "apiKey"

// route says who may use a pattern of the mux. A pattern without one is closed to everybody.
type route struct {
	role auth.Role

	// refuse writes an error in the form of the route. Default: a problem document.
	refuse func(w http.ResponseWriter, status int, detail string)
}

// access decides who may use which route.
type access struct {
	authenticator auth.Authenticator // nil = anybody may do anything
	namespace     string
	interval      time.Duration
	logger        *slog.Logger

	// routes say who may use the patterns of the mux.
	routes map[string]route

	// failing: the last request could not be authenticated, which is in the log.
	failing atomic.Bool
}

// handle adds a handler that is none of huma's.
func (a *access) handle(mux *http.ServeMux, to route, pattern string, handler http.HandlerFunc) {
	a.routes[pattern] = to
	mux.HandleFunc(pattern, handler)
}

// secure adds to an operation what it needs of a principal, and the errors of those who lack it.
func secure(op *huma.Operation, role auth.Role) {
	if role == public {
		op.Security = []map[string][]string{}
		return
	}
	op.Security = []map[string][]string{{securityScheme: {string(role)}}}
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable} {
		if !slices.Contains(op.Errors, status) {
			op.Errors = append(op.Errors, status)
		}
	}
	slices.Sort(op.Errors)
}

// authorize lets requests to a pattern through whose principal may use it, for as long as the
// principal may.
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
	p, err := a.authenticate(r, to.role)
	if err != nil {
		a.deny(w, to, err)
		return
	}
	ctx, cancel := context.WithCancelCause(auth.NewContext(r.Context(), p))
	defer cancel(nil)
	defer a.recheck(r, to.role, cancel)()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// requestKey is the key of the request in the context of a public route.
type requestKey struct{}

// principal is who sends the request of a public route, who may be nobody. It fails if the
// request has no role, with a problem document.
func (a *access) principal(ctx context.Context, role auth.Role) (auth.Principal, error) {
	r, ok := ctx.Value(requestKey{}).(*http.Request)
	if !ok {
		return auth.Principal{}, problemOf(fmt.Errorf("%w: there is no request", auth.ErrUnauthenticated))
	}
	p, err := a.authenticate(r, role)
	if err != nil {
		err = problemOf(err)
	}
	return p, err
}

// forbiddenError says why a principal may not do what it wants to.
type forbiddenError struct{ detail string }

func (e *forbiddenError) Error() string { return e.detail }

// authenticate returns the principal of a request if it has the role, here.
func (a *access) authenticate(r *http.Request, role auth.Role) (auth.Principal, error) {
	if a.authenticator == nil {
		return auth.Local(), nil
	}
	p, err := a.authenticator.Authenticate(r)
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
	case !p.Roles.Has(role):
		return p, &forbiddenError{fmt.Sprintf("this needs the role %s; %s has %s", role, who(p), cmp.Or(strings.Join(p.Roles.Strings(), ", "), "none"))}
	}
	return p, nil
}

func who(p auth.Principal) string {
	if p.Kind == auth.KindKey {
		return fmt.Sprintf("API key %q", p.Name)
	}
	return fmt.Sprintf("%q", p.Name)
}

// denial is the status and the words of an error of authenticate.
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

// denialHeaders are the headers of such an answer.
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

// problemOf is such an answer as a problem document.
func problemOf(err error) error {
	status, detail := denial(err)
	return huma.ErrorWithHeaders(huma.NewError(status, detail), denialHeaders(status))
}

// recheck authenticates a request again for as long as it lasts, and cancels it when its
// principal may not use the route any more. A check that fails otherwise changes nothing: what
// a stream or a thread says comes from the same store.
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
		_, err := a.authenticate(r, role)
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

// endedError is the cause of the end of a request whose principal has lost its access.
type endedError struct{ err error }

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// actor is the name under which a request acts. A principal acts under its own: a request that
// gives another is rejected. Without one the request says who acts, or else it is byDefault.
func actor(ctx context.Context, location, given, byDefault string) (string, error) {
	name := auth.FromContext(ctx).Name
	switch {
	case name == "" && given == "":
		return byDefault, nil
	case name == "":
		return given, refuseField(location, event.ValidateName("", given))
	case given != "" && given != name:
		return "", refuse(http.StatusForbidden, location, fmt.Sprintf("must be %q, the authenticated principal; omit it", name))
	}
	return name, nil
}

// publishedBy is the key of an environment event's metadata that names the principal who has
// published it.
const publishedBy = "published_by"

// attributed is an environment event that names its publisher.
func attributed(ctx context.Context, at string, e event.EnvEvent) (event.EnvEvent, error) {
	name := auth.FromContext(ctx).Name
	if name == "" {
		return e, nil
	}
	given := ""
	if raw, ok := e.Metadata.Extra[publishedBy]; ok && json.Unmarshal(raw, &given) != nil {
		return e, refuse(http.StatusUnprocessableEntity, at+"metadata."+publishedBy, "must be text")
	}
	if _, err := actor(ctx, at+"metadata."+publishedBy, given, ""); err != nil {
		return e, err
	}
	raw, err := json.Marshal(name)
	if err != nil {
		return e, err
	}
	e.Metadata.Extra = maps.Clone(e.Metadata.Extra)
	if e.Metadata.Extra == nil {
		e.Metadata.Extra = map[string]json.RawMessage{}
	}
	e.Metadata.Extra[publishedBy] = raw
	if e.Type == event.TypeUserQuery {
		e.Payload, err = actorIn(ctx, at+"payload", "userId", e.Payload)
	}
	return e, err
}

// attributeSchedule makes the principal the sender of what a schedule posts.
func attributeSchedule(ctx context.Context, s *signals.Schedule) (err error) {
	if s.Message != nil {
		if s.Message.SenderID, err = actor(ctx, "body.message.sender", s.Message.SenderID, ""); err != nil {
			return err
		}
	}
	if s.Event != nil {
		*s.Event, err = attributed(ctx, "body.event.", *s.Event)
	}
	return err
}

// needs fails unless the principal has a role that only a part of the route needs.
func needs(ctx context.Context, role auth.Role, location string) error {
	if p := auth.FromContext(ctx); p.Kind != "" && !p.Roles.Has(role) {
		return refuse(http.StatusForbidden, location, fmt.Sprintf("needs the role %s; %s has %s", role, who(p), strings.Join(p.Roles.Strings(), ", ")))
	}
	return nil
}

// actorIn sets a field of an object that names who acts. What is no object stays as it is.
func actorIn(ctx context.Context, location, field string, object json.RawMessage) (json.RawMessage, error) {
	if auth.FromContext(ctx).Name == "" {
		return object, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || fields == nil {
		return object, nil
	}
	given := ""
	for key, raw := range fields {
		switch {
		case key == field && string(raw) != "null" && json.Unmarshal(raw, &given) != nil:
			return nil, refuse(http.StatusUnprocessableEntity, location+"."+field, "must be text")
		case key != field && strings.EqualFold(key, field):
			return nil, refuse(http.StatusUnprocessableEntity, location, fmt.Sprintf("unknown field %.64q: it is written %s", key, field))
		}
	}
	name, err := actor(ctx, location+"."+field, given, "")
	if err != nil {
		return nil, err
	}
	if fields[field], err = json.Marshal(name); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
