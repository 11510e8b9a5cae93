package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// Permission says which servers may be declared at run time.
type Permission struct {
	// Servers permits servers at public addresses, Commands servers that are programs, and
	// PrivateAddresses servers at private addresses.
	Servers, Commands, PrivateAddresses bool
}

// ErrNotPermitted means that the operator does not permit such a server.
var ErrNotPermitted = errors.New("is not permitted")

// MaxDeclared is the maximum number of servers that a namespace declares.
const MaxDeclared = 100

// Declared is a server that was declared at run time.
type Declared struct {
	Name string
	tool.ServerDeclaration
	Version int
	By      string
	At      time.Time

	// Problem is the reason that the declaration cannot be used.
	Problem error
}

// Registry contains the servers that are declared at run time.
type Registry struct {
	documents store.Documents
	permitted Permission
	reserved  map[string]bool
}

// NewRegistry returns a registry. Reserved are the names of the servers that all namespaces have, which
// no declaration replaces.
func NewRegistry(documents store.Documents, permitted Permission, reserved []string) *Registry {
	r := &Registry{documents: documents, permitted: permitted, reserved: map[string]bool{}}
	for _, name := range reserved {
		r.reserved[name] = true
	}
	return r
}

// Permitted returns what may be declared.
func (r *Registry) Permitted() Permission { return r.permitted }

// Configured reports whether a server is one of all namespaces.
func (r *Registry) Configured(name string) bool { return r.reserved[name] }

// Put declares a server; after is as for [store.Documents].PutDocument. Declaring it again without a change
// makes no new version. Created reports that it was not declared before. The error is
// [ErrNotPermitted], an *event.FieldError, a *store.ConflictError or the store's.
func (r *Registry) Put(ctx context.Context, namespace, name string, d tool.ServerDeclaration, by string, after int) (_ Declared, created bool, err error) {
	if err := r.check(name, d); err != nil {
		return Declared{}, false, err
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return Declared{}, false, err
	}
	current, err := r.documents.Document(ctx, namespace, kindDeclared, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		all, err := r.documents.Documents(ctx, namespace, kindDeclared, "", store.MaxLimit)
		if err != nil {
			return Declared{}, false, err
		}
		if len(all) >= MaxDeclared {
			return Declared{}, false, event.FieldErrorf("name", "is one too many: a namespace declares at most %d servers", MaxDeclared)
		}
	case err != nil:
		return Declared{}, false, err
	case bytes.Equal(current.Content, raw) && (after < 0 || after == current.Version):
		return read(current), false, nil
	}
	saved, err := r.documents.PutDocument(ctx, namespace, store.Document{Kind: kindDeclared, Name: name, Content: raw, By: by}, after)
	if err != nil {
		return Declared{}, false, err
	}
	return read(saved), current.Version == 0, nil
}

func (r *Registry) check(name string, d tool.ServerDeclaration) error {
	problem := tool.ServerNameProblem(name)
	switch {
	case !r.permitted.Servers:
		return fmt.Errorf("declaring servers at run time %w: the operator sets mcpApi.servers", ErrNotPermitted)
	case problem != "":
		return event.FieldErrorf("name", "%s", problem)
	case r.reserved[name]:
		return event.FieldErrorf("name", "is that of a configured server: choose another name")
	case len(d.Command) > 0 && !r.permitted.Commands:
		return fmt.Errorf("declaring a server with a command %w, since whoever may do that runs any program: the operator sets mcpApi.commands", ErrNotPermitted)
	}
	return d.Validate()
}

// Check returns the reason that a declared server cannot be used, or nil.
func (r *Registry) Check(d Declared) error {
	if d.Problem != nil {
		return d.Problem
	}
	return r.check(d.Name, d.ServerDeclaration)
}

// Find returns a declared server, or [store.ErrNotFound].
func (r *Registry) Find(ctx context.Context, namespace, name string) (Declared, error) {
	d, err := r.documents.Document(ctx, namespace, kindDeclared, name)
	if err != nil {
		return Declared{}, err
	}
	return read(d), nil
}

// List returns the declared servers, by name.
func (r *Registry) List(ctx context.Context, namespace string) ([]Declared, error) {
	all, err := r.documents.Documents(ctx, namespace, kindDeclared, "", store.MaxLimit)
	if err != nil {
		return nil, err
	}
	out := make([]Declared, len(all))
	for i, d := range all {
		out[i] = read(d)
	}
	return out, nil
}

// Usable returns the declared servers that are permitted and valid.
func (r *Registry) Usable(ctx context.Context, namespace string) ([]Declared, error) {
	if !r.permitted.Servers {
		return nil, nil
	}
	all, err := r.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var out []Declared
	for _, d := range all {
		if r.Check(d) == nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// Namespaces returns the namespaces that declare servers.
func (r *Registry) Namespaces(ctx context.Context) ([]string, error) {
	if !r.permitted.Servers {
		return nil, nil
	}
	return r.documents.DocumentNamespaces(ctx, kindDeclared)
}

// Delete removes a declared server; after is as for [store.Documents].DeleteDocument.
func (r *Registry) Delete(ctx context.Context, namespace, name string, after int) error {
	return r.documents.DeleteDocument(ctx, namespace, kindDeclared, name, after)
}

func read(doc store.Document) Declared {
	d, err := tool.ReadServerDeclaration(doc.Content)
	return Declared{Name: doc.Name, ServerDeclaration: d, Version: doc.Version, By: doc.By, At: doc.At, Problem: err}
}
