package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Role is a permission of a [Principal]. docs/authentication.md lists what each role allows.
type Role string

// The roles. Only [RoleAdmin] includes the others.
const (
	// RoleRead allows reading threads, agents and schedules, and watching events.
	RoleRead Role = "read"

	// RolePost allows opening threads, posting messages and events, and answering tool calls and
	// tasks.
	RolePost Role = "post"

	// RoleApprove allows deciding on tool calls and revoking grants.
	RoleApprove Role = "approve"

	// RoleOperate allows changing, interrupting and closing threads, and managing queues and
	// schedules.
	RoleOperate Role = "operate"

	// RoleSendAs allows posting messages whose sender type is agent, tool or system, which models
	// trust differently from messages of people.
	RoleSendAs Role = "send-as"

	// RoleAdmin allows everything, including the management of agents and API keys, which no other
	// role allows.
	RoleAdmin Role = "admin"
)

// AllRoles returns all roles.
func AllRoles() []Role {
	return []Role{RoleRead, RolePost, RoleApprove, RoleOperate, RoleSendAs, RoleAdmin}
}

// Roles is a set of roles.
type Roles []Role

// Has reports whether the set includes role or [RoleAdmin].
func (r Roles) Has(role Role) bool { return slices.Contains(r, role) || slices.Contains(r, RoleAdmin) }

// Strings returns the names of the roles.
func (r Roles) Strings() []string {
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = string(role)
	}
	return names
}

// ParseRoles parses the names of roles, which must be unique, and returns them in the order of
// [AllRoles]. The error is an [*event.FieldError] of the field roles.
func ParseRoles(names []string) (Roles, error) {
	if len(names) == 0 {
		return nil, event.FieldErrorf("roles", "%s", "is required: at least one of "+roleList())
	}
	var roles Roles
	for _, role := range AllRoles() {
		if slices.Contains(names, string(role)) {
			roles = append(roles, role)
		}
	}
	for i, name := range names {
		switch {
		case !slices.Contains(AllRoles(), Role(name)):
			return nil, event.FieldErrorf("roles", "%.32q is not one of %s", name, roleList())
		case slices.Contains(names[:i], name):
			return nil, event.FieldErrorf("roles", "%q is duplicated: remove one", name)
		}
	}
	return roles, nil
}

func roleList() string { return strings.Join(Roles(AllRoles()).Strings(), ", ") }

// Kind is the way in which a principal was authenticated.
type Kind string

// The kinds of principals of this package. Other authenticators may define their own.
const (
	// KindLocal was not authenticated: other machines cannot reach the listener, and there are no
	// API keys.
	KindLocal Kind = "local"
	KindKey   Kind = "key"
	KindProxy Kind = "proxy"
)

// Principal is the authenticated sender of a request.
type Principal struct {
	// Name is the sender of the principal's messages and the "by" of its decisions. Empty = the
	// request may name any sender.
	Name string

	// Namespace is the only Threadmill namespace that the principal may use. Empty = all.
	Namespace string

	Roles Roles
	Kind  Kind

	// KeyID is the id of the API key. Empty for other kinds and for configured keys.
	KeyID string
}

// Local returns the principal of a listener without authentication. It may do everything.
func Local() Principal { return Principal{Roles: Roles{RoleAdmin}, Kind: KindLocal} }

// Errors of an [Authenticator]. Any other error means that the request could not be authenticated
// for another reason, such as an unavailable store.
var (
	// ErrUnauthenticated means that a request has no valid credentials. The client sees the text of
	// the error.
	ErrUnauthenticated = errors.New("not authenticated")
)

// Authenticator authenticates requests. Implementations are safe for concurrent use. While a
// request lasts, Authenticate is called again every few seconds with the same request. It must not
// read the body.
type Authenticator interface {
	Authenticate(r *http.Request) (Principal, error)
}

// Func is a function that implements [Authenticator].
type Func func(r *http.Request) (Principal, error)

// Authenticate implements [Authenticator].
func (f Func) Authenticate(r *http.Request) (Principal, error) { return f(r) }

// DefaultProxyHeader is the header in which an authenticating proxy sends the name of the user.
const DefaultProxyHeader = "X-Forwarded-User"

// Proxy returns an authenticator that trusts a header with the name of the user. A proxy must
// authenticate requests, and set the header or remove it from them. Users have all roles, so the
// proxy must restrict routes. If keys is not nil, it authenticates requests with an API key.
func Proxy(header string, keys *Keys) Authenticator { return &proxy{keys, header} }

type proxy struct {
	*Keys
	header string
}

// TrustsHeader returns the header that is trusted without a secret.
func (p *proxy) TrustsHeader() string { return p.header }

// Authenticate implements [Authenticator].
func (p *proxy) Authenticate(r *http.Request) (Principal, error) {
	if _, ok := bearer(r); ok && p.Keys != nil {
		return p.Keys.Authenticate(r)
	}
	names := r.Header.Values(p.header)
	if len(names) != 1 {
		return Principal{}, fmt.Errorf("%w: the proxy must name the user in one header %s", ErrUnauthenticated, p.header)
	}
	if err := ValidateName("the header "+p.header, names[0]); err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	return Principal{Name: names[0], Roles: Roles{RoleAdmin}, Kind: KindProxy}, nil
}

// ValidateName reports, as an [*event.FieldError], why a name of a principal is invalid.
func ValidateName(field, name string) error {
	if event.Anonymous(name) {
		return event.FieldErrorf(field, "%q is reserved: choose another name", name)
	}
	return event.ValidateName(field, name)
}

type contextKey struct{}

// NewContext returns a context with a principal.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal in a request's context. Without one, it returns the zero
// Principal, which has no roles.
func FromContext(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}
