package feed

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// WorldItem is an event of a world and the cursor behind it.
type WorldItem = MadeItem[event.WorldEvent]

// WorldReader delivers a thread's sequence as the events of a world of agents. It is for one
// goroutine.
type WorldReader = MadeReader[event.WorldEvent]

// OpenWorld opens a reader of a thread's events as a world has them. It does not ask whether
// the thread exists.
func (f *Feed) OpenWorld(ctx context.Context, key store.Key, from EnvFrom) (*WorldReader, error) {
	return openMade(ctx, f, key, from, newWorldMaker(f.cfg.Store, key))
}

// WorldPage returns at most limit events of a world that follow a cursor, from the store
// only, and the cursor of the last one if more follow.
func (f *Feed) WorldPage(ctx context.Context, key store.Key, after EnvCursor, limit int) (items []WorldItem, next *EnvCursor, err error) {
	return pageMade(ctx, f, key, after, limit, newWorldMaker(f.cfg.Store, key))
}
