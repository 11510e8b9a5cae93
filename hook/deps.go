package hook

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// Deps is what hooks and processors can work with, beside the event itself.
type Deps struct {
	// Store reads the event's thread.
	Store Store

	// Thread describes it.
	Thread Thread

	// Context tells about the event.
	Context Context
}

// Store reads one thread. It fails when the store does.
type Store interface {
	// Messages returns the thread's newest messages as hooks have left them, at most
	// limit (0 = 200, at most 1000), the oldest first.
	Messages(ctx context.Context, limit int) ([]event.Message, error)

	// Records returns records with a greater Seq, at most limit (0 = 1000, which is the
	// most), the oldest first; only those of the types given, if any.
	Records(ctx context.Context, after int64, limit int, types ...string) ([]event.Record, error)

	// RecordsByID returns those of the records that exist, in order of Seq.
	RecordsByID(ctx context.Context, ids ...string) ([]event.Record, error)
}

// Thread is a thread as the store has it.
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

// DepsOf returns what a [Func] can work with. It is empty outside of one.
func DepsOf(ctx context.Context) Deps {
	deps, _ := ctx.Value(depsKey{}).(Deps)
	return deps
}
