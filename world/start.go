package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
)

// Chat is the chat that [World.Start] starts.
type Chat struct {
	// ID of the thread.
	ID string

	// Agents and Title are those of a thread that must be opened. Default: the default agent.
	Agents []string
	Title  string

	// OnMessage and OnToolMessage, if set, are subscribed to the messages of this chat for each of
	// Agents: see [World.SubscribeAgentToMessages] and [World.SubscribeAgentToToolMessages].
	OnMessage     AgentHandler
	OnToolMessage AgentHandler
}

// started is a chat that is followed.
type started struct {
	cancel context.CancelFunc

	// subscriptions end with the chat.
	subscriptions []*subscription[Message]
}

const (
	// firstPause and lastPause bound the pauses between attempts to read a chat.
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Start opens a chat if necessary, subscribes the handlers of its agents, and delivers the chat's
// events to all subscribers from now on. Delivery continues after the end of ctx, until
// [World.Stop], or until the chat is closed and the handlers of its agents have received everything.
// The error for a closed chat is [signals.ErrThreadClosed]. Start fails while Stop is running.
func (w *World) Start(ctx context.Context, chat Chat) error {
	if err := signals.ValidateID("id", chat.ID); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping > 0 {
		return fmt.Errorf("world: chat %q cannot be started while the world is being stopped; start it once Stop has returned", chat.ID)
	}
	if w.chats[chat.ID] != nil {
		return fmt.Errorf("world: chat %q is started already; stop the world first", chat.ID)
	}
	// The reader is opened before the chat, so that it misses nothing.
	reader, err := w.view.Open(ctx, w.key(chat.ID), projection.From{Now: true})
	if err != nil {
		return err
	}
	err = w.cfg.Client.Open(ctx, chat.ID, signals.Start{Agents: chat.Agents, Title: chat.Title}, nil)
	if err != nil && !errors.Is(err, signals.ErrThreadExists) {
		reader.Close()
		return err
	}
	following, cancel := context.WithCancel(context.Background())
	begun := &started{cancel: cancel, subscriptions: w.subscribe(chat)}
	w.chats[chat.ID] = begun
	w.following.Go(func() {
		w.follow(following, chat.ID, reader)
		w.letGo(following, chat.ID, begun)
	})
	return nil
}

// subscribe subscribes the handlers of a chat for its agents.
func (w *World) subscribe(chat Chat) (subscriptions []*subscription[Message]) {
	agents := chat.Agents
	if len(agents) == 0 {
		agents = []string{""} // the default agent, whatever its name
	}
	here := func(m Message) bool { return m.ChatID == chat.ID }
	for _, id := range agents {
		if chat.OnMessage != nil {
			subscriptions = append(subscriptions, w.messages.begin(chat.OnMessage.of(id).only(isSaid).only(here)))
		}
		if chat.OnToolMessage != nil {
			subscriptions = append(subscriptions, w.messages.begin(chat.OnToolMessage.of(id).only(isOfTool(id)).only(here)))
		}
	}
	return subscriptions
}

// Stop ends the delivery of all chats and the subscriptions of their agents. It returns when no
// handler will be called with their events any more, except handlers of [Async] that are running.
// The threads continue. A handler of [Sync] must not call Stop.
func (w *World) Stop() {
	w.mu.Lock()
	w.stopping++
	for id, chat := range w.chats {
		chat.cancel()
		for _, sub := range chat.subscriptions {
			sub.end()
		}
		delete(w.chats, id)
	}
	w.mu.Unlock()
	// This needs no lock: a running handler may call Start.
	w.following.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping--
}

// letGo removes a chat that is no longer followed, unless [World.Stop] has already removed it.
func (w *World) letGo(ctx context.Context, chatID string, chat *started) {
	for _, sub := range chat.subscriptions {
		sub.finish(ctx)
	}
	chat.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chats[chatID] == chat {
		delete(w.chats, chatID)
	}
}

// follow delivers the events of a chat to the subscribers.
func (w *World) follow(ctx context.Context, chatID string, reader *projection.Reader[Event]) {
	defer reader.Close()
	closed := false
	for pause := firstPause; ; {
		item, err := reader.Next(ctx)
		switch {
		case err == nil:
			w.emit(item.Event)
			closed, pause = closed || item.Closed, firstPause
		case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, stream.ErrClosed):
			return
		case errors.Is(err, feed.ErrIdle):
			if closed {
				return // the last events of the closed thread have arrived
			}
		default:
			w.log.Warn("reading a chat failed; it is retried", "thread", chatID, "error", err)
			if !sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, lastPause)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
