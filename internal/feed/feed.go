package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/outage"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// DefaultHeartbeatInterval is the default of [Config.HeartbeatInterval].
const DefaultHeartbeatInterval = 15 * time.Second

// ErrIdle is returned by [Reader.Next] once in every heartbeat interval, so that its
// caller can show that the connection lives. The reader goes on.
var ErrIdle = errors.New("heartbeat")

// Store is what the feed needs of a [store.Store].
type Store interface {
	Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error)
	RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error)
	Thread(ctx context.Context, key store.Key) (store.Thread, error)
}

// Config configures a [Feed].
type Config struct {
	// Store and Stream are required.
	Store  Store
	Stream stream.Stream

	// HeartbeatInterval is the time between two looks for records that the live log
	// did not announce. Default [DefaultHeartbeatInterval].
	HeartbeatInterval time.Duration

	// Grace is how long the announcement of a record that is in the store may take, before
	// the record is sent without it. Default 250 ms.
	Grace time.Duration

	// View, if set, is called once for each reader and each page. What it returns gets
	// every event on its way to viewers, in order, and returns what they see in its
	// place. The store and the live log keep what they have.
	View func(store.Key) View

	// Logger gets the outages of the live stream, at warn level. Default: none.
	Logger *slog.Logger

	outage *outage.Log
}

// View returns what viewers see of an event. It must not change what the event points to.
type View func(ctx context.Context, e event.AgentEvent) event.AgentEvent

// Feed opens readers. It is safe for concurrent use.
type Feed struct{ cfg Config }

// New makes a feed.
func New(cfg Config) (*Feed, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("feed: Config.Store is required")
	case cfg.Stream == nil:
		return nil, errors.New("feed: Config.Stream is required")
	case cfg.HeartbeatInterval < 0:
		return nil, fmt.Errorf("feed: Config.HeartbeatInterval: %v is negative", cfg.HeartbeatInterval)
	case cfg.Grace < 0:
		return nil, fmt.Errorf("feed: Config.Grace: %v is negative", cfg.Grace)
	}
	if cfg.HeartbeatInterval == 0 {
		cfg.HeartbeatInterval = DefaultHeartbeatInterval
	}
	if cfg.Grace == 0 {
		cfg.Grace = 250 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.outage = outage.New(cfg.Logger, "live stream")
	return &Feed{cfg}, nil
}

// From says where a [Reader] begins, and what it delivers.
type From struct {
	// Cursor: what follows it. The zero value is the thread's beginning.
	Cursor Cursor

	// Now: only what is new; Cursor is ignored.
	Now bool

	// Finite: [Reader.Next] returns io.EOF after what was there when the reader was opened.
	Finite bool

	// Whole leaves out the pieces of text: messages come whole only.
	Whole bool

	// Records are types of records that have no agent events, but are delivered nevertheless:
	// each as an item with an event that has no type.
	Records []string
}

// View returns the view of one viewer of a thread. What has no type is no agent event, and
// stays as it is.
func (f *Feed) View(key store.Key) View {
	if f.cfg.View == nil {
		return func(_ context.Context, e event.AgentEvent) event.AgentEvent { return e }
	}
	view := f.cfg.View(key)
	return func(ctx context.Context, e event.AgentEvent) event.AgentEvent {
		if e.Type == "" {
			return e
		}
		return view(ctx, e)
	}
}
