package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection/worldview"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// Threads are the methods of [threadclient.Client] that a world uses.
type Threads interface {
	Open(ctx context.Context, threadID string, start signals.Start, first *signals.Post) error
	Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error)
	Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error)
	State(ctx context.Context, threadID string) (signals.State, error)
}

var _ Threads = (*threadclient.Client)(nil)

// Config configures a [World]. Client, Store and Stream are required.
type Config struct {
	Client Threads
	Store  store.Store
	Stream stream.Stream

	// Namespace of the threads. It must be the namespace of Client. Default "default".
	Namespace string

	// Agents finds agents other than those of a chat. Default: none.
	Agents agent.Source

	// View, if set, is called once for each chat that is started. It returns a function that
	// receives every event of the chat, in order, and returns the event for subscribers.
	View func(chatID string) func(ctx context.Context, e event.AgentEvent) event.AgentEvent

	// Logger logs the errors of handlers. Default: none.
	Logger *slog.Logger
}

// World publishes to chats and delivers their events to subscribers. It is safe for concurrent use.
type World struct {
	cfg  Config
	view worldview.Projection
	log  *slog.Logger

	events   subscribers[Event]
	messages subscribers[Message]
	pieces   subscribers[SSE]

	// silent means that subscribers receive no chunks.
	silent atomic.Bool

	mu        sync.Mutex
	chats     map[string]*started
	stopping  int // the number of calls of Stop that wait for followers
	following sync.WaitGroup
}

// New returns a world. It starts nothing.
func New(cfg Config) (*World, error) {
	if cfg.Client == nil {
		return nil, errors.New("world: Config.Client is required: one from threadclient.New")
	}
	if cfg.Namespace == "" {
		cfg.Namespace = signals.DefaultNamespace
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &World{cfg: cfg, log: cfg.Logger.With("worldId", cfg.Namespace), chats: map[string]*started{}}
	chats, err := feed.New(feed.Config{Store: cfg.Store, Stream: cfg.Stream, View: cfg.show(), Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("world: %w", err)
	}
	w.view = worldview.New(chats, cfg.Store)
	w.events.failed = func(e Event, problem error) {
		w.log.Error("event handler failed", "event", e.ID, "type", e.Type, "thread", e.ChatID, "error", problem)
	}
	w.messages.failed = func(m Message, problem error) {
		w.log.Error("message handler failed", "messageId", m.MessageID, "sender", m.Sender, "thread", m.ChatID, "error", problem)
	}
	w.pieces.failed = func(e SSE, problem error) {
		w.log.Error("sse handler failed", "messageId", e.MessageID, "agent", e.AgentName, "thread", e.ChatID, "error", problem)
	}
	return w, nil
}

func (cfg Config) show() func(store.Key) feed.View {
	if cfg.View == nil {
		return nil
	}
	return func(key store.Key) feed.View { return cfg.View(key.ThreadID) }
}

func (w *World) key(chatID string) store.Key {
	return store.Key{Namespace: w.cfg.Namespace, ThreadID: chatID}
}
