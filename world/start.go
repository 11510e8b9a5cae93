package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
)

// Chat is a chat to be started.
type Chat struct {
	// ID of the thread.
	ID string

	// Agents that take part, and Title, if the thread has to be opened. Without agents it
	// has the default agent.
	Agents []string
	Title  string

	// OnMessage and OnToolMessage, if set, are subscribed for each of Agents, independently
	// of each other, as [World.SubscribeAgentToMessages] and
	// [World.SubscribeAgentToToolMessages] do, to the messages of this chat.
	OnMessage     AgentHandler
	OnToolMessage AgentHandler
}

// started is a chat that is followed.
type started struct {
	cancel context.CancelFunc

	// subscriptions end with it.
	subscriptions []*subscription[Message]
}

const (
	// firstPause and lastPause are between two tries to read a chat that cannot be read.
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Start opens a chat, unless it is there, with its agents, sets the subscriptions of the
// agents, and tells all subscribers what happens in the chat from now on. It goes on after
// ctx has ended, until [World.Stop], or until the chat is closed and its agents' handlers
// have had all of it. A chat that was closed is [signals.ErrThreadClosed]. While the world is
// being stopped nothing is started.
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
	// Before the chat is opened, so that nothing is missed.
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

// subscribe sets the subscriptions of the agents of a chat.
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

// Stop ends what [World.Start] has begun, of all chats, and returns once no handler is called
// with their events any more, but for those of [Async] that are at work. The threads go on.
// It must not be called by a handler of [Sync].
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
	// Without the lock: a handler that is at work may call Start.
	w.following.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping--
}

// letGo forgets a chat that is followed no more, unless [World.Stop] has done so already.
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

// follow tells the subscribers what happens in a chat.
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
				return // whatever a closing thread still had to say has come by now
			}
		default:
			w.log.Warn("reading a chat failed; it is tried again", "thread", chatID, "error", err)
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
