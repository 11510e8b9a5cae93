package world_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/world"
)

func TestHandlers(t *testing.T) {
	b := newFixture(t)
	b.start("bot")
	release := make(chan struct{})
	var slow atomic.Int64
	b.Cleanup(b.world.SubscribeToMessages(world.Async(func(ctx context.Context, m world.Message) error {
		select {
		case <-release:
		case <-ctx.Done():
			return nil
		}
		slow.Add(1)
		if m.Content == "two" {
			return errors.New("too late")
		}
		return nil
	})))
	b.Cleanup(b.world.SubscribeToMessages(world.Sync(func(m world.Message) {
		if m.Content == "one" {
			panic("oh no")
		}
	})))
	b.Cleanup(b.world.SubscribeToMessages(world.Async(func(context.Context, world.Message) error { panic("nor this") })))
	messages := watch(b, b.world.SubscribeToMessages)
	var ids []string
	for _, content := range []string{"one", "two"} {
		id, err := b.world.PublishMessage(b.ctx, content, "ann", "t1")
		require.NoError(t, err)
		ids = append(ids, id)
	}
	t.Run("S4-10 S4-11 one that waits or fails harms nobody else", func(t *testing.T) {
		assert.Equal(t, "one", next(b, messages).Content)
		assert.Equal(t, "two", next(b, messages).Content)
		assert.Zero(t, slow.Load())
	})
	t.Run("S4-11 what one panics with is logged", func(t *testing.T) {
		b.await("the handler panicked: oh no")
		b.await("the handler panicked: nor this")
		for _, word := range []string{"worldId=acme", "messageId=" + ids[0], "sender=ann"} {
			assert.Contains(t, b.log.String(), word)
		}
	})
	t.Run("S4-10 S4-11 one that waits is called in order, and its error is logged", func(t *testing.T) {
		assert.NotContains(t, b.log.String(), "too late")
		close(release)
		b.await("too late")
		assert.EqualValues(t, 2, slow.Load())
	})
}

func TestUnsubscribe(t *testing.T) {
	b := newFixture(t)
	b.start("bot")
	messages := watch(b, b.world.SubscribeToMessages)
	var got atomic.Int64
	var end func()
	end = b.world.SubscribeToMessages(world.Sync(func(world.Message) {
		got.Add(1)
		end() // within the handler, too
	}))
	begun, ended := make(chan struct{}), make(chan struct{})
	stop := b.world.SubscribeToMessages(world.Async(func(ctx context.Context, _ world.Message) error {
		close(begun) // a second time would panic
		<-ctx.Done()
		close(ended)
		return nil
	}))
	for range 3 {
		_, err := b.world.PublishMessage(b.ctx, "hi", "ann", "t1")
		require.NoError(t, err)
		next(b, messages)
	}
	t.Run("S4-12 it is called no more", func(t *testing.T) { assert.EqualValues(t, 1, got.Load()) })
	t.Run("S4-12 and one that waits is told", func(t *testing.T) {
		next(b, begun)
		stop()
		next(b, ended)
		stop() // twice is once
		assert.NotContains(t, b.log.String(), "panicked")
	})
}

func TestStreaming(t *testing.T) {
	b := newFixture(t)
	pieces, events := watch(b, b.world.SubscribeToSSE), watch(b, b.world.Subscribe)
	b.start("bot")
	t.Run("S4-13 pieces come", func(t *testing.T) {
		assert.True(t, b.world.IsStreamingEnabled())
		b.piece("it ")
		assert.Equal(t, world.SSE{AgentName: "bot", Type: event.WorldSSEStart, MessageID: "m9", ChatID: "t1"}, next(b, pieces))
		assert.Equal(t, world.SSE{AgentName: "bot", Type: event.WorldSSEChunk, Content: "it ", MessageID: "m9", ChatID: "t1"}, next(b, pieces))
	})
	t.Run("S4-14 S4-61 disabled: the same, less the chunks", func(t *testing.T) {
		b.world.DisableStreaming()
		assert.False(t, b.world.IsStreamingEnabled())
		b.piece("is ")
		b.put("t1", store.ThreadUpdate{}, record("m9.llm", event.TypeLLMCall, event.LLMCall{Agent: "bot", MessageID: "m9", Attempt: 1}),
			record("m9", event.TypeMessage, event.Message{ID: "m9", SenderID: "bot", AgentID: "bot", SenderType: event.CreatedByAgent, Content: "it is"}))
		assert.Equal(t, event.WorldSSEEnd, next(b, pieces).Type)
	})
	var types []event.WorldEventType
	took := func(n int) {
		for range n {
			types = append(types, next(b, events).Type)
		}
	}
	took(5) // what the world publishes by itself may overtake what the thread stored
	t.Run("S4-14 enabled again", func(t *testing.T) {
		b.world.EnableStreaming()
		assert.True(t, b.world.IsStreamingEnabled())
		b.world.PublishSSE(world.SSE{AgentName: "bot", Type: event.WorldSSEChunk, Content: "x", MessageID: "m10"})
		assert.Equal(t, "x", next(b, pieces).Content)
	})
	took(1)
	t.Run("events of all types come to those who want all", func(t *testing.T) {
		assert.Equal(t, []event.WorldEventType{"crud", "sse", "sse", "sse", "message", "sse"}, types)
	})
}

func TestLiveOnly(t *testing.T) {
	b := newFixture(t)
	b.start("bot")
	events := watch(b, b.world.Subscribe)
	messages := watch(b, b.world.SubscribeToMessages)
	pieces := watch(b, b.world.SubscribeToSSE)
	published := func() world.Event {
		for {
			if e := next(b, events); e.Meta == nil { // the thread's own has one
				return e
			}
		}
	}
	t.Run("S4-05 a piece", func(t *testing.T) {
		e := world.SSE{AgentName: "bot", Type: event.WorldSSEStart, MessageID: "m1", ChatID: "t1"}
		b.world.PublishSSE(e)
		assert.Equal(t, e, next(b, pieces))
		got := published()
		assert.Equal(t, e, got.Data)
		assert.Equal(t, "t1", got.ChatID)
		assert.NotEmpty(t, got.ID)
	})
	t.Run("S4-06 a tool", func(t *testing.T) {
		e := world.ToolEvent{AgentName: "bot", Type: event.WorldToolStart}
		b.world.PublishToolEvent(e)
		got := published()
		assert.Equal(t, event.WorldToolStart, got.Type)
		assert.Equal(t, e, got.Data)
	})
	t.Run("S4-07 what was created, updated or deleted", func(t *testing.T) {
		b.world.PublishCRUDEvent(world.CRUD{Operation: event.WorldDelete, EntityType: "agent", EntityID: "bot"})
		got := published()
		assert.Equal(t, event.WorldCRUDEvent, got.Type)
		assert.Equal(t, event.WorldDelete, got.Data.(world.CRUD).Operation)
		assert.False(t, got.Data.(world.CRUD).Timestamp.IsZero())
	})
	t.Run("S4-08 a request for approval", func(t *testing.T) {
		id, err := b.world.PublishApprovalRequest(event.ApprovalRequest{ToolCallID: "c1", ToolName: "x", Arguments: "{}", Agent: "bot"}, "t1")
		require.NoError(t, err)
		m := next(b, messages)
		assert.Equal(t, id, m.MessageID)
		assert.Equal(t, event.RequestApproval, m.ToolCalls[0].Function.Name)
		assert.Equal(t, map[string]event.ToolCallStatus{"approval_c1": {}}, m.ToolCallStatus)
		assert.Equal(t, m, published().Data)
	})
	t.Run("S4-09 anything else", func(t *testing.T) {
		b.world.PublishEvent("weather", map[string]any{"rain": true})
		got := published()
		assert.EqualValues(t, "weather", got.Type)
		assert.Equal(t, map[string]any{"rain": true}, got.Data)
	})
	t.Run("S4-99 nothing of it is stored, posted or decided", func(t *testing.T) {
		row, err := b.store.Thread(b.ctx, store.Key{Namespace: "acme", ThreadID: "t1"})
		require.NoError(t, err)
		assert.EqualValues(t, 1, row.Head, "only that the thread was opened")
		assert.Empty(t, b.threads.posts)
		assert.Empty(t, b.threads.says)
	})
}

func TestStart(t *testing.T) {
	b := newFixture(t)
	type heard struct{ agent, role, content string }
	said, done := make(chan heard, 100), make(chan heard, 100)
	note := func(to chan heard) world.AgentHandler {
		return func(_ context.Context, agentID string, m world.Message) error {
			to <- heard{agentID, m.Role, m.Content}
			return nil
		}
	}
	chat := world.Chat{ID: "t1", Agents: []string{"bot", "eve"}, Title: "a talk", OnMessage: note(said), OnToolMessage: note(done)}
	require.NoError(t, b.world.Start(b.ctx, chat))
	t.Run("S4-105 it opens the thread with its agents", func(t *testing.T) {
		assert.Equal(t, []signals.Start{{Agents: []string{"bot", "eve"}, Title: "a talk"}}, b.threads.opens)
	})
	t.Run("S4-24 S4-25 each agent hears of what is said", func(t *testing.T) {
		_, err := b.world.PublishMessage(b.ctx, "hello", "ann", "t1")
		require.NoError(t, err)
		assert.ElementsMatch(t, []heard{{"bot", "user", "hello"}, {"eve", "user", "hello"}}, []heard{next(b, said), next(b, said)})
	})
	t.Run("S4-24 and the one concerned of tools", func(t *testing.T) {
		result := event.Message{ID: "c1.result", SenderID: "x", SenderType: event.CreatedByTool, ToolCallID: "c1", AgentID: "Bot", Content: "7"}
		b.put("t1", store.ThreadUpdate{}, record("c1.result", event.TypeMessage, result))
		assert.Equal(t, heard{"bot", "tool", "7"}, next(b, done))
		_, err := b.world.PublishMessage(b.ctx, "next", "ann", "t1")
		require.NoError(t, err)
		assert.Equal(t, "next", next(b, said).content, "the main subscription skips tools")
		assert.Equal(t, "next", next(b, said).content)
		assert.Empty(t, done, "and this one is not eve's")
	})
	t.Run("twice is an error", func(t *testing.T) {
		require.ErrorContains(t, b.world.Start(b.ctx, chat), `chat "t1" is started already`)
	})
	t.Run("S4-25 nobody hears of anything once it is stopped", func(t *testing.T) { synctest.Test(t, unheardOnceStopped) })
	t.Run("a chat that cannot be opened", func(t *testing.T) {
		b.threads.openErr = signals.ErrThreadClosed
		require.ErrorIs(t, b.world.Start(b.ctx, world.Chat{ID: "t2"}), signals.ErrThreadClosed)
		require.ErrorContains(t, b.world.Start(b.ctx, world.Chat{ID: "a b"}), `id: "a b" must be`)
	})
	t.Run("S4-104 the world's own subscription does nothing", func(t *testing.T) { synctest.Test(t, worldSubscribed) })
}

// unheardOnceStopped starts a chat anew without the handlers that it had.
func unheardOnceStopped(t *testing.T) {
	b := newFixture(t)
	said := make(chan string, 10)
	note := func(_ context.Context, _ string, m world.Message) error {
		said <- m.Content
		return nil
	}
	require.NoError(t, b.world.Start(b.ctx, world.Chat{ID: "t1", Agents: []string{"bot"}, OnMessage: note, OnToolMessage: note}))
	all := watch(b, b.world.SubscribeToMessages)
	b.world.Stop()
	_, err := b.world.PublishMessage(b.ctx, "unheard", "ann", "t1")
	require.NoError(t, err)
	b.threads.openErr = signals.ErrThreadExists
	require.NoError(t, b.world.Start(b.ctx, world.Chat{ID: "t1"}), "it can be started again")
	_, err = b.world.PublishMessage(b.ctx, "heard", "ann", "t1")
	require.NoError(t, err)
	assert.Equal(t, "heard", next(b, all).Content)
	synctest.Wait() // handlers are called beside the one that has just heard it
	assert.Empty(t, said)
}

// worldSubscribed subscribes the world, and ends that, while others listen.
func worldSubscribed(t *testing.T) {
	b := newFixture(t)
	messages, pieces := watch(b, b.world.SubscribeToMessages), watch(b, b.world.SubscribeToSSE)
	b.start("bot")
	unsubscribe := b.world.SubscribeWorldToMessages()
	for _, content := range []string{"while it lasts", "and after it"} {
		_, err := b.world.PublishMessage(b.ctx, content, "ann", "t1")
		require.NoError(t, err)
		assert.Equal(t, content, next(b, messages).Content, "others hear it")
		synctest.Wait()
		assert.Empty(t, messages, "once")
		unsubscribe()
	}
	assert.Empty(t, pieces)
	assert.Len(t, b.threads.posts, 2, "nothing is posted but what was said")
}

func TestStartWhileStopping(t *testing.T) {
	b := newFixture(t)
	begun, stopping, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	require.NoError(t, b.world.Start(b.ctx, world.Chat{ID: "t1", Agents: []string{"bot"}, OnMessage: func(ctx context.Context, _ string, _ world.Message) error {
		close(begun)
		<-ctx.Done() // the world is being stopped
		close(stopping)
		return nil
	}}))
	answers := make(chan error, 1)
	b.Cleanup(b.world.SubscribeToMessages(world.Sync(func(world.Message) {
		<-stopping
		answers <- b.world.Start(b.ctx, world.Chat{ID: "t2"})
	})))
	_, err := b.world.PublishMessage(b.ctx, "hi", "ann", "t1")
	require.NoError(t, err)
	next(b, begun)
	go func() {
		b.world.Stop()
		close(stopped)
	}()
	require.ErrorContains(t, next(b, answers), `chat "t2" cannot be started while the world is being stopped`)
	next(b, stopped)
	require.NoError(t, b.world.Start(b.ctx, world.Chat{ID: "t2"}), "it can be once it has stopped")
}

func TestClosedChat(t *testing.T) {
	var b *fixture
	var begun, release chan struct{}
	var heard chan string
	var chat world.Chat
	// closed has a chat of two messages that has been closed, while the handler is at the first.
	closed := func(t *testing.T) {
		b = newFixture(t)
		begun, release, heard = make(chan struct{}, 10), make(chan struct{}), make(chan string, 10)
		chat = world.Chat{ID: "t1", Agents: []string{"bot"}, OnMessage: func(ctx context.Context, _ string, m world.Message) error {
			begun <- struct{}{}
			select {
			case <-release:
				heard <- m.Content
			case <-ctx.Done():
			}
			return nil
		}}
		require.NoError(t, b.world.Start(b.ctx, chat))
		for _, content := range []string{"one", "two"} {
			_, err := b.world.PublishMessage(b.ctx, content, "ann", "t1")
			require.NoError(t, err)
		}
		next(b, begun)
		b.put("t1", store.ThreadUpdate{}, record("closed", event.TypeStatus, event.StatusChange{Status: event.StatusClosed}))
		b.threads.openErr = signals.ErrThreadClosed
		time.Sleep(2 * feed.DefaultHeartbeatInterval) // the test's own clock: the end is seen once in a heartbeat
	}
	t.Run("it is let go when its handlers have had all of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			closed(t)
			close(release)
			assert.Equal(t, "one", next(b, heard))
			assert.Equal(t, "two", next(b, heard))
			synctest.Wait()
			require.ErrorIs(t, b.world.Start(b.ctx, chat), signals.ErrThreadClosed, "it is not taken for one that is started")
			_, err := b.world.PublishApprovalRequest(event.ApprovalRequest{ToolCallID: "c1", ToolName: "x", Arguments: "{}", Agent: "bot"}, "t1")
			require.NoError(t, err)
			synctest.Wait()
			assert.Empty(t, heard, "its subscriptions have ended")
		})
	})
	t.Run("Stop does not wait for that", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			closed(t)
			b.world.Stop()
			close(release)
			synctest.Wait()
			assert.Empty(t, begun, "what waited is dropped")
		})
	})
}

func TestNew(t *testing.T) {
	b := newFixture(t)
	for want, cfg := range map[string]world.Config{
		"world: Config.Client is required":       {Store: b.store, Stream: b.stream},
		"world: feed: Config.Store is required":  {Client: b.threads, Stream: b.stream},
		"world: feed: Config.Stream is required": {Client: b.threads, Store: b.store},
	} {
		_, err := world.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
