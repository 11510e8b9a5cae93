package feed

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// EnvFrom says where a [MadeReader] begins.
type EnvFrom struct {
	// Cursor: what follows it. The zero value is the thread's beginning.
	Cursor EnvCursor

	// Now and Finite are those of [From].
	Now    bool
	Finite bool
}

// EnvItem is an environment event and the cursor behind it.
type EnvItem = MadeItem[event.EnvEvent]

// EnvReader delivers a thread's sequence as environment events: those that were published
// to it, and those that are made of everything else. It is for one goroutine.
type EnvReader = MadeReader[event.EnvEvent]

// OpenEnv opens a reader of a thread's environment events. It does not ask whether the
// thread exists.
func (f *Feed) OpenEnv(ctx context.Context, key store.Key, from EnvFrom) (*EnvReader, error) {
	return openMade(ctx, f, key, from, newEnvMaker(f.cfg.Store, key))
}

// EnvPage returns at most limit environment events that follow a cursor, from the store
// only, and the cursor of the last one if more follow.
func (f *Feed) EnvPage(ctx context.Context, key store.Key, after EnvCursor, limit int) (items []EnvItem, next *EnvCursor, err error) {
	return pageMade(ctx, f, key, after, limit, newEnvMaker(f.cfg.Store, key))
}
