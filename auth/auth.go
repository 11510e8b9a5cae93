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

// The roles. None but Admin implies another.
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

	// RoleAdmin allows everything, and alone managing agents and API keys.
	RoleAdmin Role = "admin"
)

// AllRoles returns all roles.
func AllRoles() []Role { return []Role{RoleRead, RolePost, RoleApprove, RoleOperate, RoleAdmin} }

// Roles is a set of roles.
type Roles []Role

// Has reports whether the set allows what role allows.
func (r Roles) Has(role Role) bool { return slices.Contains(r, role) || slices.Contains(r, RoleAdmin) }

// Strings returns the names of the roles.
func (r Roles) Strings() []string {
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = string(role)
	}
	return names
}

// ParseRoles reads the names of roles, each once, and returns them in the order of [AllRoles].
// The error is an [*event.FieldError] of the field roles.
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

// Kind says how a principal was authenticated.
type Kind string

// The kinds of principals of this package. Others may have their own.
const (
	// KindLocal was not authenticated: the listener cannot be reached from other machines,
	// and there are no API keys.
	KindLocal Kind = "local"
	KindKey   Kind = "key"
	KindProxy Kind = "proxy"
)

// Principal is who sends a request.
type Principal struct {
	// Name is the sender of the principal's messages and the "by" of its decisions. Empty: the
	// request itself may say.
	Name string

	// Namespace is the only Threadmill namespace that the principal may use. Empty: any.
	Namespace string

	Roles Roles
	Kind  Kind

	// KeyID is the id of the API key. Empty for other kinds, and for keys that are configured.
	KeyID string
}

// Local is the principal of a listener without authentication. It may do everything.
func Local() Principal { return Principal{Roles: Roles{RoleAdmin}, Kind: KindLocal} }

// Errors of an [Authenticator]. Any other error means that it could not be checked who sends
// the request.
var (
	// ErrUnauthenticated marks a request without valid credentials. The text of the error is
	// shown to the client.
	ErrUnauthenticated = errors.New("not authenticated")
)

// Authenticator says who sends a request. Implementations are safe for concurrent use. They
// are asked again every few seconds while a request lasts, with the same request, and must
// not read its body.
type Authenticator interface {
	Authenticate(r *http.Request) (Principal, error)
}

// Func is an [Authenticator] made of a function.
type Func func(r *http.Request) (Principal, error)

// Authenticate implements [Authenticator].
func (f Func) Authenticate(r *http.Request) (Principal, error) { return f(r) }

// DefaultProxyHeader is the header in which an authenticating proxy names the user.
const DefaultProxyHeader = "X-Forwarded-User"

// Proxy trusts a proxy that authenticates requests and names the user in a header, which it
// removes from what clients send. Users have all roles: the proxy decides who reaches which
// route. Requests with an API key are left to keys, if that is not nil.
func Proxy(header string, keys *Keys) Authenticator { return &proxy{keys, header} }

type proxy struct {
	*Keys
	header string
}

// TrustsHeader is the header that a request needs no secret for.
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

// reserved are names of senders that Threadmill gives to itself, or to somebody without a name.
var reserved = []string{"system", "world", "user", "human", "agent", "tool", "api", "schedule", "threadmill", "llm"}

// MaxName is the length of the longest name, in bytes: that of the longest sender.
const MaxName = 128

// ValidateName reports, as an [*event.FieldError], why a principal cannot have a name.
func ValidateName(field, name string) error {
	switch {
	case len(name) > MaxName:
		return event.FieldErrorf(field, "is %d bytes long, must be at most %d", len(name), MaxName)
	case slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) }):
		return event.FieldErrorf(field, "%q is reserved: choose another name", name)
	}
	return event.ValidateName(field, name)
}

type contextKey struct{}

// NewContext returns a context that carries a principal.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal of a request, or nobody, who has no roles.
func FromContext(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}
