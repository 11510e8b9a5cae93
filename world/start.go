package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/threadmill/threadmill/internal/feed"
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

	// ends are the subscriptions that end with it.
	ends []func()
}

const (
	// firstPause and lastPause are between two tries to read a chat that cannot be read.
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Start opens a chat, unless it is there, with its agents, sets the subscriptions of the
// agents, and tells all subscribers what happens in the chat from now on. It goes on after
// ctx has ended, until [World.Stop]. A chat that was closed is [signals.ErrClosed].
func (w *World) Start(ctx context.Context, chat Chat) error {
	if err := signals.CheckID("id", chat.ID); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chats[chat.ID] != nil {
		return fmt.Errorf("world: chat %q is started already; stop the world first", chat.ID)
	}
	// Before the chat is opened, so that nothing is missed.
	reader, err := w.feed.OpenWorld(ctx, w.key(chat.ID), feed.EnvFrom{Now: true})
	if err != nil {
		return err
	}
	err = w.cfg.Client.Open(ctx, chat.ID, signals.Start{Agents: chat.Agents, Title: chat.Title}, nil)
	if err != nil && !errors.Is(err, signals.ErrExists) {
		reader.Close()
		return err
	}
	following, cancel := context.WithCancel(context.Background())
	w.chats[chat.ID] = &started{cancel: cancel, ends: w.subscribe(chat)}
	w.following.Go(func() { w.follow(following, chat.ID, reader) })
	return nil
}

// subscribe sets the subscriptions of the agents of a chat.
func (w *World) subscribe(chat Chat) (ends []func()) {
	agents := chat.Agents
	if len(agents) == 0 {
		agents = []string{""} // the default agent, whatever its name
	}
	here := func(m Message) bool { return m.ChatID == chat.ID }
	for _, id := range agents {
		if chat.OnMessage != nil {
			ends = append(ends, w.messages.add(chat.OnMessage.of(id).only(isSaid).only(here)))
		}
		if chat.OnToolMessage != nil {
			ends = append(ends, w.messages.add(chat.OnToolMessage.of(id).only(isOfTool(id)).only(here)))
		}
	}
	return ends
}

// Stop ends what [World.Start] has begun, of all chats, and returns once no handler is called
// with their events any more, but for those of [Async] that are at work. The threads go on.
// It must not be called by a handler of [Sync].
func (w *World) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, chat := range w.chats {
		chat.cancel()
		for _, end := range chat.ends {
			end()
		}
		delete(w.chats, id)
	}
	w.following.Wait()
}

// follow tells the subscribers what happens in a chat.
func (w *World) follow(ctx context.Context, chatID string, reader *feed.WorldReader) {
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
