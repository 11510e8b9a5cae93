package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/store"
)

// Source says where an agent comes from.
type Source string

// The sources.
const (
	Configured Source = "configured"
	Stored     Source = "stored"
)

// Entry is an agent, and where it comes from.
type Entry struct {
	agent.Agent
	Source Source

	// Version, By and At are those of a stored agent.
	Version int
	By      string
	At      time.Time

	// Problem says why a stored agent cannot be used. Of the agent there is only its name
	// then.
	Problem error
}

// Registry is an [agent.Source] of the agents that the store keeps, and behind them of
// those that are configured. Names are compared without regard to case.
type Registry struct {
	configured agent.Source
	kept       store.Agents
}

var (
	_ agent.Source = (*Registry)(nil)
	_ agent.Lister = (*Registry)(nil)
)

// New makes a registry. Configured may be nil: then there are none but stored agents. One
// that is a Registry already is returned as it is.
func New(configured agent.Source, kept store.Agents) *Registry {
	if r, ok := configured.(*Registry); ok {
		return r
	}
	return &Registry{configured: configured, kept: kept}
}

// Agent implements [agent.Source]. The default agent is the configured one, as it is
// stored if an agent of its name is.
func (r *Registry) Agent(ctx context.Context, namespace, name string) (agent.Agent, error) {
	e, err := r.Find(ctx, namespace, name)
	if err != nil {
		return agent.Agent{}, err
	}
	return e.Agent, e.Problem
}

// Find returns an agent with its source. One that is not there is [agent.ErrUnknown].
func (r *Registry) Find(ctx context.Context, namespace, name string) (Entry, error) {
	if name == "" {
		first, err := r.base(ctx, namespace, "")
		if err != nil {
			return Entry{}, err
		}
		name = first.Name
	}
	kept, err := r.kept.Agent(ctx, namespace, name)
	switch {
	case err == nil && !kept.Deleted:
		return entry(kept), nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Entry{}, err
	}
	configured, err := r.base(ctx, namespace, name)
	switch {
	case errors.Is(err, agent.ErrUnknown):
		return Entry{}, r.unknown(ctx, namespace, name)
	case err != nil:
		return Entry{}, err
	}
	return Entry{Agent: configured, Source: Configured}, nil
}

func (r *Registry) base(ctx context.Context, namespace, name string) (agent.Agent, error) {
	if r.configured == nil {
		return agent.Agent{}, fmt.Errorf("%w: %q; none is configured", agent.ErrUnknown, name)
	}
	return r.configured.Agent(ctx, namespace, name)
}

// unknown is the error of a name that no agent has. It says which there are, as far as that
// can be found out.
func (r *Registry) unknown(ctx context.Context, namespace, name string) error {
	all, err := r.List(ctx, namespace)
	if err != nil {
		return fmt.Errorf("%w: %q", agent.ErrUnknown, name)
	}
	known := make([]string, len(all))
	for i, e := range all {
		known[i] = e.Name
	}
	slices.Sort(known)
	return fmt.Errorf("%w: %q; known are %v", agent.ErrUnknown, name, known)
}

// Agents implements [agent.Lister]: all agents that can be used.
func (r *Registry) Agents(ctx context.Context, namespace string) ([]agent.Agent, error) {
	all, err := r.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := make([]agent.Agent, 0, len(all))
	for _, e := range all {
		if e.Problem == nil {
			out = append(out, e.Agent)
		}
	}
	return out, nil
}

// List returns all agents: those that are configured, in their order and as they are
// stored if agents of their names are; then those that are only stored, by name. Of
// configured agents whose registry is no [agent.Lister], it is the default agent alone.
func (r *Registry) List(ctx context.Context, namespace string) ([]Entry, error) {
	configured, err := r.listConfigured(ctx, namespace)
	if err != nil {
		return nil, err
	}
	kept, err := r.kept.Agents(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(configured)+len(kept))
	for _, a := range configured {
		out = append(out, Entry{Agent: a, Source: Configured})
	}
	for _, v := range kept {
		at := slices.IndexFunc(configured, func(a agent.Agent) bool { return strings.EqualFold(a.Name, v.Name) })
		if at < 0 {
			out = append(out, entry(v))
		} else {
			out[at] = entry(v)
		}
	}
	return out, nil
}

func (r *Registry) listConfigured(ctx context.Context, namespace string) ([]agent.Agent, error) {
	if all, ok := r.configured.(agent.Lister); ok {
		return all.Agents(ctx, namespace)
	}
	one, err := r.base(ctx, namespace, "")
	switch {
	case err == nil:
		return []agent.Agent{one}, nil
	case errors.Is(err, agent.ErrUnknown):
		return nil, nil
	}
	return nil, err
}

// entry reads a stored agent. A definition that this process does not understand, such as
// one that a newer version has stored, is not used in part: what is left out might be
// what keeps the agent from doing harm.
func entry(v store.AgentVersion) Entry {
	e := Entry{Source: Stored, Version: v.Version, By: v.By, At: v.At}
	a, err := Read(v)
	if err != nil {
		e.Name, e.Problem = v.Name, fmt.Errorf("agent %q, version %d in the store: %w", v.Name, v.Version, err)
		return e
	}
	e.Agent = a
	return e
}

// Read returns the agent of a stored version. The error is a [*event.FieldError].
func Read(v store.AgentVersion) (agent.Agent, error) {
	var a agent.Agent
	if err := json.Unmarshal(v.Definition, &a); err != nil {
		return agent.Agent{}, err
	}
	a.Name = v.Name
	return a, a.Validate()
}
