package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	known "github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

const ns = "default"

func newStore(t *testing.T) teststore.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// put stores a definition, as the API does.
func put(t *testing.T, s store.Agents, a agent.Agent) store.AgentVersion {
	t.Helper()
	raw, err := json.Marshal(a)
	require.NoError(t, err)
	v, err := s.SaveAgent(t.Context(), ns, store.AgentVersion{Name: a.Name, Definition: raw, By: "ann"}, -1)
	require.NoError(t, err)
	return v
}

func remove(t *testing.T, s store.Agents, name string) {
	t.Helper()
	_, err := s.SaveAgent(t.Context(), ns, store.AgentVersion{Name: name, Deleted: true}, -1)
	require.NoError(t, err)
}

func instructions(t *testing.T, r agent.Source, name string) string {
	t.Helper()
	a, err := r.Agent(t.Context(), ns, name)
	require.NoError(t, err)
	return a.Instructions
}

var configured = agent.Fixed{
	{Name: "clerk", Model: "demo/demo", Instructions: "configured"},
	{Name: "Critic", Model: "demo/demo", Instructions: "critical"},
}

func edited(name, text string) agent.Agent {
	return agent.Agent{Name: name, Model: "demo/other", Instructions: text, Tools: []string{"shell_cmd"}}
}

func TestStoredBeforeConfigured(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	require.Equal(t, "configured", instructions(t, r, "clerk"))

	put(t, kept, edited("Clerk", "stored"))
	for _, name := range []string{"clerk", "CLERK", ""} {
		a, err := r.Agent(t.Context(), ns, name)
		require.NoError(t, err)
		require.Equal(t, edited("Clerk", "stored"), a, "%q: all of it is the stored one", name)
	}
	require.Equal(t, "critical", instructions(t, r, "critic"), "the others stay")
	other, err := r.Agent(t.Context(), "elsewhere", "clerk")
	require.NoError(t, err)
	require.Equal(t, "configured", other.Instructions, "in other namespaces nothing has changed")

	remove(t, kept, "clerk")
	require.Equal(t, "configured", instructions(t, r, "clerk"), "it shows again")
	require.Equal(t, "configured", instructions(t, r, ""))
}

func TestFreshAgent(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	another := registry.New(configured, kept, known.Known{}) // another process
	t.Run("S4-47 an edited prompt applies to the next call", func(t *testing.T) {
		for _, text := range []string{"one", "two", "three"} {
			put(t, kept, edited("clerk", text))
			require.Equal(t, text, instructions(t, r, "clerk"))
			require.Equal(t, text, instructions(t, another, "clerk"))
		}
	})
	t.Run("S4-47 an agent that was made a moment ago takes part", func(t *testing.T) {
		_, err := r.Agent(t.Context(), ns, "planner")
		require.ErrorIs(t, err, agent.ErrUnknown)
		put(t, kept, edited("planner", "plan"))
		require.Equal(t, "plan", instructions(t, r, "Planner"))
		remove(t, kept, "planner")
		_, err = r.Agent(t.Context(), ns, "planner")
		require.ErrorIs(t, err, agent.ErrUnknown)
	})
}

// countedAgents counts the agents that are read.
type countedAgents struct {
	teststore.Store
	reads int
}

func (c *countedAgents) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	c.reads++
	return c.Store.Agent(ctx, namespace, name)
}

// TestAgentAt: an agent is read once for each change of the agents in its namespace, whatever its name's case.
func TestAgentAt(t *testing.T) {
	db := newStore(t)
	kept := &countedAgents{Store: db}
	r := registry.New(configured, kept, known.Known{})
	at := func(namespace, name string, reads int) (string, error) {
		t.Helper()
		done, err := db.Append(t.Context(), store.Key{Namespace: namespace, ThreadID: "t"}, store.Batch{})
		require.NoError(t, err)
		kept.reads = 0
		a, problem := r.AgentAt(t.Context(), namespace, name, done.AgentChange)
		require.Equal(t, reads, kept.reads)
		return a.Instructions, problem
	}
	equal := func(want, namespace, name string, reads int) {
		t.Helper()
		got, err := at(namespace, name, reads)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	equal("configured", ns, "clerk", 1)
	equal("configured", ns, "CLERK", 0)
	equal("configured", ns, "", 0)
	equal("configured", "elsewhere", "clerk", 1)
	equal("critical", ns, "critic", 1)
	for _, text := range []string{"one", "two"} {
		put(t, kept, edited("clerk", text))
		equal(text, ns, "clerk", 1)
		equal(text, ns, "Clerk", 0)
		equal("critical", ns, "critic", 1)
		equal("configured", "elsewhere", "clerk", 0)
	}
	remove(t, kept, "clerk")
	equal("configured", ns, "clerk", 1)
	equal("configured", ns, "clerk", 0)

	_, err := at(ns, "nobody", 1)
	require.ErrorIs(t, err, agent.ErrUnknown)
	_, err = at(ns, "nobody", 0)
	require.ErrorIs(t, err, agent.ErrUnknown)
	_, err = kept.SaveAgent(t.Context(), ns, store.AgentVersion{Name: "new", Definition: json.RawMessage(`{"model":"demo/demo","unknown":1}`)}, -1)
	require.NoError(t, err)
	for _, reads := range []int{1, 0} {
		_, err = at(ns, "new", reads)
		require.ErrorContains(t, err, `agent "new", version 1 in the store`)
	}
}

// TestAgentAtUnavailable: what could not be read is read again.
func TestAgentAtUnavailable(t *testing.T) {
	kept := newStore(t)
	change := put(t, kept, edited("clerk", "stored")).Seq
	r := registry.New(configured, kept, known.Known{})
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := r.AgentAt(ended, ns, "clerk", change)
	require.ErrorIs(t, err, context.Canceled)
	a, err := r.AgentAt(t.Context(), ns, "clerk", change)
	require.NoError(t, err)
	require.Equal(t, "stored", a.Instructions)
}

func TestUnknown(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	put(t, kept, edited("planner", "plan"))
	_, err := r.Agent(t.Context(), ns, "nobody")
	require.ErrorIs(t, err, agent.ErrUnknown)
	require.EqualError(t, err, `unknown agent: "nobody"; known are [Critic clerk planner]`, "it says which there are, stored ones as well")
	_, err = r.Agent(t.Context(), ns, "no\x00body")
	require.ErrorIs(t, err, agent.ErrUnknown)
}

func TestFind(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	put(t, kept, edited("clerk", "one"))
	v := put(t, kept, edited("clerk", "two"))
	found, err := r.Find(t.Context(), ns, "CLERK")
	require.NoError(t, err)
	require.Equal(t, registry.Entry{Agent: edited("clerk", "two"), Source: registry.Stored, Version: 2, By: "ann", At: v.At}, found)
	found, err = r.Find(t.Context(), ns, "critic")
	require.NoError(t, err)
	require.Equal(t, registry.Entry{Agent: configured[1], Source: registry.Configured}, found)
}

func names(entries []registry.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, string(e.Source)+" "+e.Name)
	}
	return out
}

func TestList(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	list := func(r *registry.Registry) []string {
		t.Helper()
		all, next, err := r.List(t.Context(), ns, registry.Place{}, 0)
		require.NoError(t, err)
		require.Zero(t, next)
		for limit := 1; limit <= len(all); limit++ {
			var paged []registry.Entry
			for after := (registry.Place{}); ; after = next {
				page, more, err := r.List(t.Context(), ns, after, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				paged, next = append(paged, page...), more
				if next == (registry.Place{}) {
					break
				}
			}
			require.Equal(t, all, paged, "in pages of %d", limit)
		}
		return names(all)
	}
	require.Equal(t, []string{"configured clerk", "configured Critic"}, list(r))
	for _, name := range []string{"zoe", "critic", "adam", "gone"} {
		put(t, kept, edited(name, "x"))
	}
	remove(t, kept, "gone")
	require.Equal(t, []string{"configured clerk", "stored critic", "stored adam", "stored zoe"}, list(r))
	agents, err := r.Agents(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, []agent.Agent{configured[0], edited("critic", "x"), edited("adam", "x"), edited("zoe", "x")}, agents)
	require.Equal(t, []string{"stored adam", "stored critic", "stored zoe"}, list(registry.New(nil, kept, known.Known{})))
	require.Equal(t, []string{"stored adam", "stored critic", "stored zoe"}, list(registry.New(agent.Fixed{}, kept, known.Known{})))
	require.Equal(t, []string{"configured clerk", "stored adam", "stored critic", "stored zoe"}, list(registry.New(silent{configured}, kept, known.Known{})),
		"a registry that cannot list has its default agent")
}

// silent is a source without a list.
type silent struct{ of agent.Source }

func (s silent) Agent(ctx context.Context, namespace, name string) (agent.Agent, error) {
	return s.of.Agent(ctx, namespace, name)
}

func TestDefinitionThatCannotBeRead(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	for problem, definition := range map[string]string{
		"approvalGuards: is not known": `{"name": "clerk", "model": "demo/demo", "approvalGuards": ["no rm"]}`,
		"limits.maxSteps: is 5000":     `{"name": "clerk", "model": "demo/demo", "limits": {"maxSteps": 5000}}`,
		"model: is required":           `{"name": "clerk"}`,
		"must be an object":            `[]`,
	} {
		t.Run(problem, func(t *testing.T) {
			_, err := kept.SaveAgent(t.Context(), ns, store.AgentVersion{Name: "clerk", Definition: json.RawMessage(definition)}, -1)
			require.NoError(t, err)
			a, err := r.Agent(t.Context(), ns, "clerk")
			require.ErrorContains(t, err, `agent "clerk", version `)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.NotErrorIs(t, err, agent.ErrUnknown)
			require.Empty(t, a.Model, "nothing of it is used, nor the one that is configured")
			all, _, err := r.List(t.Context(), ns, registry.Place{}, 0)
			require.NoError(t, err, "the others can be listed")
			require.Equal(t, []string{"stored clerk", "configured Critic"}, names(all))
			require.ErrorAs(t, all[0].Problem, &field)
			agents, err := r.Agents(t.Context(), ns)
			require.NoError(t, err)
			require.Equal(t, []agent.Agent{configured[1]}, agents)
		})
	}
}

// broken is a store and a source that does not respond.
type broken struct{ agents }

type agents = store.Agents

var errDown = errors.New("down")

func (broken) Agent(context.Context, string, string) (store.AgentVersion, error) {
	return store.AgentVersion{}, errDown
}

func (broken) Agents(context.Context, string, string, int) ([]store.AgentVersion, error) {
	return nil, errDown
}

type downRegistry struct{}

func (downRegistry) Agent(context.Context, string, string) (agent.Agent, error) {
	return agent.Agent{}, errDown
}

func TestDown(t *testing.T) {
	for name, r := range map[string]*registry.Registry{
		"the store":         registry.New(configured, broken{}, known.Known{}),
		"the configuration": registry.New(downRegistry{}, newStore(t), known.Known{}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, asked := range []string{"", "clerk", "nobody"} {
				_, err := r.Agent(t.Context(), ns, asked)
				require.ErrorIs(t, err, errDown)
				require.NotErrorIs(t, err, agent.ErrUnknown, "it may well be there")
			}
			_, _, err := r.List(t.Context(), ns, registry.Place{}, 0)
			require.ErrorIs(t, err, errDown)
			_, err = r.Agents(t.Context(), ns)
			require.ErrorIs(t, err, errDown)
		})
	}
	_, err := registry.New(nil, newStore(t), known.Known{}).Agent(t.Context(), ns, "")
	require.ErrorIs(t, err, agent.ErrUnknown)
}

func TestNewOfARegistry(t *testing.T) {
	r := registry.New(configured, newStore(t), known.Known{})
	require.Same(t, r, registry.New(r, newStore(t), known.Known{}))
}
