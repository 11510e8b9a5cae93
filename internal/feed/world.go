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
	f, m := f.world(key)
	return openMade(ctx, f, key, from, m)
}

// WorldPage returns at most limit events of a world that follow a cursor, from the store
// only, and the cursor of the last one if more follow.
func (f *Feed) WorldPage(ctx context.Context, key store.Key, after EnvCursor, limit int) (items []WorldItem, next *EnvCursor, err error) {
	f, m := f.world(key)
	return pageMade(ctx, f, key, after, limit, m)
}

// world makes the maker for one reader or page, and a feed that shows it all by one view: a
// maker looks up calls that have not come as events.
func (f *Feed) world(key store.Key) (*Feed, *worldMaker) {
	one, m := *f, newWorldMaker(f.cfg.Store, key)
	m.view = f.view(key)
	one.cfg.View = func(store.Key) View { return m.view }
	return &one, m
}
