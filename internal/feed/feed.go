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
	ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error)
}

// Config configures a [Feed].
type Config struct {
	// Store and Stream are required.
	Store  Store
	Stream stream.Stream

	// HeartbeatInterval is the time between two looks for records that the live log
	// did not speak of. Default [DefaultHeartbeatInterval].
	HeartbeatInterval time.Duration

	// Grace is how long the word of a record that is in the store may take, before the
	// record is sent without it. Default 250 ms.
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

// From says where a [Reader] begins.
type From struct {
	// Cursor: what follows it. The zero value is the thread's beginning.
	Cursor Cursor

	// Now: only what is new; Cursor is ignored.
	Now bool

	// Finite: [Reader.Next] returns io.EOF after what was there when the reader was opened.
	Finite bool

	// Whole leaves out the pieces of text: messages come whole only.
	Whole bool

	// env is for [Feed.OpenEnv] and [Feed.OpenWorld].
	env bool
}

// Item is an event and the cursor behind it.
type Item struct {
	Cursor Cursor
	Event  event.AgentEvent

	// TraceID is that of the turn which the event belongs to, if it belongs to one.
	TraceID string

	// record is what the event was made of, unless it is a piece.
	record *event.Record

	// begins marks the piece with which a message begins for the viewer, and begun is the
	// highest attempt at a stored message of which the viewer has had pieces.
	begins bool
	begun  int
}

// Open opens a reader of a thread's sequence. It does not ask whether the thread exists.
func (f *Feed) Open(ctx context.Context, key store.Key, from From) (*Reader, error) {
	r := &Reader{
		cfg: &f.cfg, key: key, seen: newSeen(),
		last: from.Cursor.done(), part: from.Cursor.Part, offset: from.Cursor.Offset,
		finite: from.Finite, whole: from.Whole, begun: from.Cursor, view: f.view(key),
		env: from.env, anew: from.Cursor.IsZero() && !from.Now,
	}
	var err error
	if from.Now {
		err = r.beginNow(ctx)
	} else {
		err = r.begin(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the feed of %s: %w", key, err)
	}
	return r, nil
}

// view makes the view of one reader.
func (f *Feed) view(key store.Key) View {
	if f.cfg.View == nil {
		return func(_ context.Context, e event.AgentEvent) event.AgentEvent { return e }
	}
	return f.cfg.View(key)
}

// shownBy is what a view makes of an event. What is no agent event is not for it.
func shownBy(ctx context.Context, view View, e event.AgentEvent) event.AgentEvent {
	if e.Type == "" {
		return e
	}
	return view(ctx, e)
}

// Page returns at most limit events that follow a cursor, from the store only, and
// the cursor of the last one if more follow.
func (f *Feed) Page(ctx context.Context, key store.Key, after Cursor, limit int) (items []Item, next *Cursor, err error) {
	items, next, err = f.page(ctx, key, after, limit)
	if err == nil {
		err = date(ctx, f.cfg.Store, key, items)
	}
	if err != nil {
		return nil, nil, err
	}
	view := f.view(key)
	for i := range items {
		items[i].Event = shownBy(ctx, view, items[i].Event)
	}
	return items, next, nil
}

func (f *Feed) page(ctx context.Context, key store.Key, after Cursor, limit int) (items []Item, next *Cursor, err error) {
	if items, after, err = f.pageStart(ctx, key, after); err != nil {
		return nil, nil, err
	}
	last, part, bytes := after.done(), after.Part, 0
	for {
		q := store.Query{After: last, Limit: pageSize, MaxBytes: readBytes}
		records, err := f.cfg.Store.Records(ctx, key, q)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the records of %s: %w", key, err)
		}
		for _, rec := range records {
			items = appendItems(items, rec, Events(rec), part, 0)
			last, part = rec.Seq, 0
			bytes += len(rec.Payload)
		}
		switch {
		case len(items) > limit:
			return items[:limit], &items[limit-1].Cursor, nil
		case q.Complete(records):
			return items, nil, nil
		case bytes >= pageBytes && len(items) > 0:
			return items, &items[len(items)-1].Cursor, nil
		}
	}
}

// pageStart is where a page begins: at the thread's beginning, behind a gap, if the thread
// does not have the record that the cursor names.
func (f *Feed) pageStart(ctx context.Context, key store.Key, after Cursor) ([]Item, Cursor, error) {
	if after.Seq == 0 {
		return nil, after, nil
	}
	t, err := f.cfg.Store.Thread(ctx, key)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, after, fmt.Errorf("reading the head of %s: %w", key, err)
	case after.Seq > t.Head:
		return []Item{{Event: beyondHead()}}, Cursor{}, nil
	}
	return nil, after, nil
}

const (
	// pageSize is how many records a read of the store fetches, and readBytes about how many
	// bytes: each viewer has the records of one read in memory until it has read them.
	pageSize  = 200
	readBytes = 256 << 10

	// pageBytes is about how many bytes a page has at most.
	pageBytes = 4 << 20
)

// appendItems appends the events of a record, but the first skip ones.
func appendItems(items []Item, rec event.Record, events []event.AgentEvent, skip int, offset int64) []Item {
	for i, e := range events {
		if i < skip {
			continue
		}
		at := Cursor{Seq: rec.Seq, Offset: offset}
		if i < len(events)-1 {
			at.Part = i + 1
		}
		items = append(items, Item{Cursor: at, Event: e, TraceID: rec.TraceID, record: &rec})
	}
	return items
}
