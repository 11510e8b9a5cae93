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

// maxKnown is the number of stored agents whose names the error for an unknown one lists.
const maxKnown = 20

// unknown returns the error for an unknown name. It lists known names if they can be read.
func (r *Registry) unknown(ctx context.Context, namespace, name string) error {
	configured, err := r.listConfigured(ctx, namespace)
	kept, failed := r.kept.Agents(ctx, namespace, "", maxKnown)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("%w: %q", agent.ErrUnknown, name)
	}
	known, more := []string{}, ""
	for _, a := range configured {
		known = append(known, a.Name)
	}
	for _, v := range kept {
		if indexOf(configured, v.Name) < 0 {
			known = append(known, v.Name)
		}
	}
	if len(kept) == maxKnown {
		more = " and perhaps others"
	}
	slices.Sort(known)
	return fmt.Errorf("%w: %q; known are %v%s", agent.ErrUnknown, name, known, more)
}

func indexOf(list []agent.Agent, name string) int {
	return slices.IndexFunc(list, func(a agent.Agent) bool { return strings.EqualFold(a.Name, name) })
}

// Agents implements [agent.Lister]: it returns all usable agents.
func (r *Registry) Agents(ctx context.Context, namespace string) (out []agent.Agent, err error) {
	out = []agent.Agent{}
	for after := (Place{}); ; {
		page, next, err := r.List(ctx, namespace, after, store.MaxAgents)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if e.Problem == nil {
				out = append(out, e.Agent)
			}
		}
		if after = next; next == (Place{}) {
			return out, nil
		}
	}
}

// readAtOnce is the number of stored definitions that a list holds in memory besides the agents of its page: each may be large.
const readAtOnce = 16

// Place is the last agent of a page of a list. The zero value stands before the first agent and behind the last one.
type Place struct {
	Name string

	// Stored means that the agent is not among the configured ones.
	Stored bool
}

// List returns a page of the agents: first the configured ones in their order, with stored definitions if
// there are any, then those that are only stored, by name. If the configured source is no
// [agent.Lister], only its default agent is listed. The maximum limit is [store.MaxAgents].
func (r *Registry) List(ctx context.Context, namespace string, after Place, limit int) (page []Entry, next Place, err error) {
	limit = store.AgentLimit(limit)
	configured, err := r.listConfigured(ctx, namespace)
	if err != nil {
		return nil, Place{}, err
	}
	if !after.Stored {
		rest := configured
		if after.Name != "" {
			rest = configured[indexOf(configured, after.Name)+1:]
		}
		for _, a := range rest[:min(len(rest), limit)] {
			e := checked(Entry{Agent: a, Source: Configured})
			kept, err := r.stored(ctx, namespace, a.Name)
			if err != nil {
				return nil, Place{}, err
			}
			if kept != nil {
				e = *kept
			}
			page, next = append(page, e), Place{Name: a.Name}
		}
		after = Place{Stored: true}
	}
	for len(page) < limit {
		some := min(limit, readAtOnce)
		kept, err := r.kept.Agents(ctx, namespace, after.Name, some)
		if err != nil {
			return nil, Place{}, err
		}
		for _, v := range kept {
			after.Name = v.Name
			if indexOf(configured, v.Name) >= 0 {
				continue
			}
			if page, next = append(page, entry(v)), after; len(page) == limit {
				break
			}
		}
		if len(kept) < some && len(page) < limit {
			return page, Place{}, nil
		}
	}
	return page, next, nil
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
