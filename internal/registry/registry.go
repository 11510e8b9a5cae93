package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/store"
)

// Source is the origin of an agent.
type Source string

// The sources.
const (
	Configured Source = "configured"
	Stored     Source = "stored"
)

// Entry is an agent with its origin.
type Entry struct {
	agent.Agent
	Source Source

	// Version, By and At are set for stored agents.
	Version int
	By      string
	At      time.Time

	// Problem is the reason that a stored agent cannot be used. Agent then has a name only.
	Problem error
}

// Registry is an [agent.Source] of stored agents, and behind them of configured ones. Names are
// compared ignoring case.
type Registry struct {
	configured agent.Source
	kept       store.Agents
	known      names.Known

	// read are the stored agents that were read at a change of their namespace.
	read *lru.Cache[agentName, readAgent]
}

// agentName is the key of a stored agent.
type agentName struct{ namespace, key string }

// readAgent is a stored agent, nil if there is none, and the newest change of the namespace before it was read.
type readAgent struct {
	*Entry
	change int64
}

// readAgents is the number of stored agents that a Registry keeps.
const readAgents = 512

var (
	_ agent.Source = (*Registry)(nil)
	_ agent.Lister = (*Registry)(nil)
)

// New returns a registry. Configured may be nil; if it is a Registry, New returns it. Known are
// the names that agents may use.
func New(configured agent.Source, kept store.Agents, known names.Known) *Registry {
	if r, ok := configured.(*Registry); ok {
		return r
	}
	read, _ := lru.New[agentName, readAgent](readAgents) // it fails without a size only
	return &Registry{configured: configured, kept: kept, known: names.Known{Tools: known.Tools, Groups: known.Groups, Fallbacks: known.Fallbacks}, read: read}
}

// Agent implements [agent.Source]. The default agent is the configured one, with its stored
// definition if there is one.
func (r *Registry) Agent(ctx context.Context, namespace, name string) (agent.Agent, error) {
	e, err := r.Find(ctx, namespace, name)
	if err != nil {
		return agent.Agent{}, err
	}
	return e.Agent, e.Problem
}

// AgentAt is Agent for a caller that has just got [store.Appended].AgentChange. It does not read an agent again that was read at the
// same change.
func (r *Registry) AgentAt(ctx context.Context, namespace, name string, change int64) (agent.Agent, error) {
	e, err := r.find(ctx, namespace, name, func(name string) (*Entry, error) {
		folded, _ := store.AgentKey(namespace, name)
		key := agentName{namespace, folded}
		if known, ok := r.read.Get(key); ok && known.change == change {
			return known.Entry, nil
		}
		e, err := r.stored(ctx, namespace, name)
		if err == nil {
			r.read.Add(key, readAgent{e, change})
		}
		return e, err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	return e.Agent, e.Problem
}

// Find returns an agent with its origin, or [agent.ErrUnknown].
func (r *Registry) Find(ctx context.Context, namespace, name string) (Entry, error) {
	return r.find(ctx, namespace, name, func(name string) (*Entry, error) { return r.stored(ctx, namespace, name) })
}

func (r *Registry) find(ctx context.Context, namespace, name string, stored func(name string) (*Entry, error)) (Entry, error) {
	if name == "" {
		first, err := r.base(ctx, namespace, "")
		if err != nil {
			return Entry{}, err
		}
		name = first.Name
	}
	switch kept, err := stored(name); {
	case err != nil:
		return Entry{}, err
	case kept != nil:
		return *kept, nil
	}
	configured, err := r.base(ctx, namespace, name)
	switch {
	case errors.Is(err, agent.ErrUnknown):
		return Entry{}, r.unknown(ctx, namespace, name)
	case err != nil:
		return Entry{}, err
	}
	return checked(Entry{Agent: configured, Source: Configured}), nil
}

// stored returns the stored agent with this name, or nil.
func (r *Registry) stored(ctx context.Context, namespace, name string) (*Entry, error) {
	kept, err := r.newest(ctx, namespace, name)
	if err != nil || kept.Version == 0 || kept.Deleted {
		return nil, err
	}
	e := entry(kept)
	return &e, nil
}

// Has reports whether an agent has this name. While the store is unavailable, it knows the configured
// agents only.
func (r *Registry) Has(ctx context.Context, namespace, name string) bool {
	if kept, err := r.stored(ctx, namespace, name); err == nil && kept != nil {
		return true
	}
	_, err := r.base(ctx, namespace, name)
	return err == nil
}

func (r *Registry) base(ctx context.Context, namespace, name string) (agent.Agent, error) {
	if r.configured == nil {
		return agent.Agent{}, fmt.Errorf("%w: %q; none is configured", agent.ErrUnknown, name)
	}
	return r.configured.Agent(ctx, namespace, name)
}

// unknown returns the error for an unknown name. It lists the known names if they can be read.
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

// Agents implements [agent.Lister]: it returns all usable agents.
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

// List returns all agents: first the configured ones in their order, with stored definitions if
// there are any, then those that are only stored, by name. If the configured source is no
// [agent.Lister], only its default agent is listed.
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
		out = append(out, checked(Entry{Agent: a, Source: Configured}))
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

// entry reads a stored agent. A definition that this process does not understand, such as one of a
// newer version, is not used in part: the missing part might be what keeps the agent from doing
// harm.
func entry(v store.AgentVersion) Entry {
	e := Entry{Source: Stored, Version: v.Version, By: v.By, At: v.At}
	a, err := Read(v)
	if err != nil {
		e.Name, e.Problem = v.Name, fmt.Errorf("agent %q, version %d in the store: %w", v.Name, v.Version, err)
		return e
	}
	e.Agent = a
	return checked(e)
}

// checked rejects an agent with a policy for a tool that the agent does not have: it may be meant for
// one that the agent does have. Tools that do not exist are no danger: calls of them fail.
func checked(e Entry) Entry {
	if err := (names.Known{}).Agent(e.Agent).First(); err != nil {
		of := "the configuration"
		if e.Source == Stored {
			of = fmt.Sprintf("version %d in the store", e.Version)
		}
		e.Agent, e.Problem = agent.Agent{Name: e.Name}, fmt.Errorf("agent %q, %s: %w", e.Name, of, err)
	}
	return e
}

// Read returns the agent of a stored version. The error is a *event.FieldError.
func Read(v store.AgentVersion) (agent.Agent, error) {
	var a agent.Agent
	if err := json.Unmarshal(v.Definition, &a); err != nil {
		return agent.Agent{}, err
	}
	a.Name = v.Name
	return a, a.Validate()
}
