package world_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/world"
)

func TestStoreFails(t *testing.T) {
	var failures atomic.Int64 // so many reads fail
	b := newFixture(t, func(c *world.Config) {
		c.Store = teststore.Before(c.Store, func(context.Context) error {
			if failures.Add(-1) >= 0 {
				return errors.New("the store is down")
			}
			return nil
		}, "records", "records_by_id")
	})
	messages, pieces := watch(b, b.world.SubscribeToMessages), watch(b, b.world.SubscribeToSSE)
	b.start("bot")
	b.asks()
	assert.Equal(t, "c1.request", next(b, messages).MessageID)
	t.Run("S4-101 chunks reach their subscribers while the store is down", func(t *testing.T) {
		failures.Store(1 << 20)
		b.piece("it ")
		assert.Equal(t, event.WorldSSEStart, next(b, pieces).Type)
		assert.Equal(t, "it ", next(b, pieces).Content)
		failures.Store(0)
	})
	t.Run("S4-101 a failure is logged, and holds up nothing for long", func(t *testing.T) {
		failures.Store(2)
		_, err := b.world.PublishToolResult(b.ctx, "bot", world.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny}, "t1")
		require.NoError(t, err)
		b.piece("is done")
		assert.Equal(t, "c1.decision", next(b, messages).MessageID)
		assert.Equal(t, "is done", next(b, pieces).Content)
		b.await("reading a chat failed; it is retried")
		assert.Contains(t, b.log.String(), "error=\"reading")
		assert.Contains(t, b.log.String(), "thread=t1")
	})
}

func TestView(t *testing.T) {
	b := newFixture(t, func(c *world.Config) {
		c.View = func(chatID string) func(context.Context, event.AgentEvent) event.AgentEvent {
			assert.Equal(t, "t1", chatID)
			return func(_ context.Context, e event.AgentEvent) event.AgentEvent {
				e.Content = strings.ToUpper(e.Content)
				return e
			}
		}
	})
	pieces := watch(b, b.world.SubscribeToSSE)
	b.start("bot")
	b.piece("quiet")
	next(b, pieces)
	assert.Equal(t, "QUIET", next(b, pieces).Content, "S0-10 what subscribers are told is what viewers are shown")
}
