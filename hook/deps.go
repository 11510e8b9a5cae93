package hook

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// Deps are the dependencies of hooks and processors.
type Deps struct {
	// Store reads the event's thread.
	Store Store

	// Thread is the event's thread.
	Thread Thread

	// Context describes the event.
	Context Context
}

// Store reads one thread. Its errors are those of the underlying store.
type Store interface {
	// Messages returns the thread's newest messages with the changes of hooks, at most limit
	// (default 200, at most 1000), oldest first.
	Messages(ctx context.Context, limit int) ([]event.Message, error)

	// Records returns records with Seq > after, at most limit (default and maximum 1000), oldest
	// first. If types are given, it returns only records of these types.
	Records(ctx context.Context, after int64, limit int, types ...string) ([]event.Record, error)

	// RecordsByID returns the records with these ids that exist, in order of Seq.
	RecordsByID(ctx context.Context, ids ...string) ([]event.Record, error)
}

// Thread is a thread in the store.
type Thread struct {
	Namespace string
	ID        string
	Title     string
	Agents    []string
	Metadata  json.RawMessage
}

type depsKey struct{}

// WithDeps returns a context that carries deps to a [Func].
func WithDeps(ctx context.Context, deps Deps) context.Context {
	return context.WithValue(ctx, depsKey{}, deps)
}

// DepsOf returns the dependencies in the context of a [Func]. They are empty in any other context.
func DepsOf(ctx context.Context) Deps {
	deps, _ := ctx.Value(depsKey{}).(Deps)
	return deps
}
