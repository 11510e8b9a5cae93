package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/observe/outage"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// DefaultHeartbeatInterval is the default of [Config.HeartbeatInterval].
const DefaultHeartbeatInterval = 15 * time.Second

// ErrIdle is returned by [Reader.Next] once in every heartbeat interval, so that its caller can
// send a heartbeat. The reader remains usable.
var ErrIdle = errors.New("heartbeat")

// Store is the part of a [store.Store] that the feed reads.
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

	// HeartbeatInterval is the interval of checks for records that the live log did not announce.
	// Default [DefaultHeartbeatInterval].
	HeartbeatInterval time.Duration

	// Grace is the time in which the log may announce a stored record, before the record is sent
	// without announcement. Default 250 ms.
	Grace time.Duration

	// View, if set, is called once for each reader and each page. The returned function gets every
	// event on its way to viewers, in order, and returns the event that they see. The store and the
	// live log do not change.
	View func(store.Key) View

	// Logger logs outages of the live stream at warn level. Default: none.
	Logger *slog.Logger

	outage    *outage.Log
	delivered *lru.Cache[store.Key, delivered]
}

// View returns the event that viewers see. It must not change values that the event points to.
type View func(ctx context.Context, e event.AgentEvent) event.AgentEvent

// Feed opens readers. It is safe for concurrent use.
type Feed struct{ cfg Config }

// New returns a feed.
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
	cfg.HeartbeatInterval = cmp.Or(cfg.HeartbeatInterval, DefaultHeartbeatInterval)
	cfg.Grace = cmp.Or(cfg.Grace, 250*time.Millisecond)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.outage = outage.New(cfg.Logger, "live stream")
	cfg.delivered, _ = lru.New[store.Key, delivered](keptDelivered) // it fails without a size only
	return &Feed{cfg}, nil
}

// From is the start of a [Reader], and a selection of its items.
type From struct {
	// Cursor is the position to continue from. The zero value is the thread's beginning.
	Cursor Cursor

	// Now starts with new events only and ignores Cursor.
	Now bool

	// Head is the thread's newest record, if the caller has just read it. 0 = the reader reads it.
	Head int64

	// Fresh means that the viewer is not concerned with messages that had begun at Cursor. What came of them is not looked up.
	Fresh bool

	// Finite makes [Reader.Next] return io.EOF after the events that existed when the reader was
	// opened.
	Finite bool

	// Whole omits pieces of text: messages arrive whole.
	Whole bool

	// Starts delivers the empty piece that announces an attempt at a message.
	Starts bool

	// Records are types of records without agent events that are delivered too, each as an item
	// whose event has no type. [EveryType] stands for all.
	Records []string
}

// At returns the cursor after a record and all that is in the live log. If the log does not answer within [Config.Grace], it is that
// of the record: what the caller is about to do must not wait for it.
func (f *Feed) At(ctx context.Context, key store.Key, seq int64) Cursor {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Grace)
	defer cancel()
	at := Cursor{Seq: seq}
	if sub, err := f.cfg.Stream.Subscribe(ctx, key, stream.From{Now: true}); err == nil {
		at.Offset = sub.Start().Last
		sub.Close()
	}
	return at
}

// EveryType stands for all types of records.
const EveryType = "*"

// View returns the view of one viewer of a thread. It leaves values without a type, which are no
// agent events, unchanged.
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
