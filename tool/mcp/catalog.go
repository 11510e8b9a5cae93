package mcp

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/tool"
)

// Catalog keeps the last state of each server for all processes, also while the server is down.
// Servers for all namespaces have the namespace "". Implementations are safe for concurrent use.
type Catalog interface {
	// Load returns the states of a namespace.
	Load(ctx context.Context, namespace string) ([]State, error)

	// Save replaces a state, by its namespace and name.
	Save(ctx context.Context, state State) error

	// Delete removes the state of a server that is no longer declared. It is not an error if there is none.
	Delete(ctx context.Context, namespace, name string) error

	// RequestRestart asks the process that runs a server to connect to it again.
	RequestRestart(ctx context.Context, namespace, name string) error

	// Restart identifies the last request to restart a server. It is empty if there was none.
	Restart(ctx context.Context, namespace, name string) (id string, err error)
}

// NewCatalog returns a catalog in memory, for one process.
func NewCatalog() Catalog {
	return &memory{states: map[key]State{}, restarts: map[key]int{}}
}

// key identifies a server. The namespace is empty for servers of all namespaces.
type key struct{ namespace, name string }

// account identifies a connection. The user is empty unless each person logs in to the server.
type account struct {
	key
	user string
}

func keyOf(s State) key { return key{s.Namespace, s.Name} }

type memory struct {
	mu       sync.Mutex
	states   map[key]State
	restarts map[key]int
}

func (m *memory) Load(_ context.Context, namespace string) ([]State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []State
	for _, k := range slices.SortedFunc(maps.Keys(m.states), func(a, b key) int { return strings.Compare(a.name, b.name) }) {
		if k.namespace == namespace {
			out = append(out, m.states[k])
		}
	}
	return out, nil
}

func (m *memory) Save(_ context.Context, state State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	state.Tools = slices.Clone(state.Tools)
	m.states[keyOf(state)] = state
	return nil
}

func (m *memory) Delete(_ context.Context, namespace, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.states, key{namespace, name})
	delete(m.restarts, key{namespace, name})
	return nil
}

func (m *memory) RequestRestart(_ context.Context, namespace, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restarts[key{namespace, name}]++
	return nil
}

func (m *memory) Restart(_ context.Context, namespace, name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.restarts[key{namespace, name}]; n > 0 {
		return strconv.Itoa(n), nil
	}
	return "", nil
}

var _ tool.Source = (*Manager)(nil)
