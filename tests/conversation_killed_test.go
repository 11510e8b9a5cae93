package tests

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/tests/internal/conversation"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// conversations run at the same time. Each kill hits all of them, each at another gap, so that
// fewer workers have to die.
const conversations = 20

// TestConversationKilled kills the worker between any two writes of a conversation: before the next
// one, and after it but before anything has seen it. The result of the conversation is the same.
func TestConversationKilled(t *testing.T) {
	if testing.Short() || !harness.StickyOff() {
		t.Skip("takes minutes; it runs where every task is replayed: THREADMILL_STICKY=off go test -timeout 20m ./tests/...")
	}
	t.Parallel()
	for name, o := range keptIn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedBetweenAll(t, o)
		})
	}
}

func killedBetweenAll(t *testing.T, o harness.Options) {
	s, gate := newScene(t), newTurnstile(t)
	transcript, err := filepath.Abs(threeAgents)
	require.NoError(t, err)
	k := killing.New(t, s.options(o), "plays")
	k.Worker.Hasty, k.Worker.Reports, k.Worker.Data = true, gate.URL, map[string]string{"transcript": transcript}
	s.Harness = k.Harness
	k.Start()
	ctx, cancel := context.WithTimeout(t.Context(), 7*testenv.Patience)
	var playing sync.WaitGroup
	defer playing.Wait()
	defer cancel()
	for i := range conversations {
		gate.admit(threadOf(i), i, conversations)
		playing.Go(func() {
			defer gate.leave(threadOf(i))
			assert.NoError(t, s.Play(ctx, s.Threads, threadOf(i)))
		})
	}
	kills := 0
	for gate.awaitAll(t) > 0 {
		k.Kill()
		kills++
		gate.pass()
		k.Start()
	}
	gate.open()
	t.Logf("%d conversations of %d gaps each, cut in %d gaps by %d kills", conversations, gate.gaps(), gate.stopped(), kills)
	require.GreaterOrEqual(t, gate.stopped(), gate.gaps(), "each gap, for one of them")
	t.Run("S2-51 S4-46 what is stored and shown is the same", func(t *testing.T) {
		for i := range conversations {
			s.requireGolden(t, threadOf(i))
		}
	})
	t.Run("S2-51 S4-78 what is published is what people have agreed to", func(t *testing.T) {
		for i := range conversations {
			// Twice by the same call, if the result of the first attempt is unknown.
			s.requirePublished(t, threadOf(i), gate.published(threadOf(i)), 2)
		}
	})
}

func threadOf(i int) string { return fmt.Sprintf("conversation-%d", i) }

// plays is a kind of worker: it plays the conversation, and reports before and after each write.
func plays(w killing.Worker, c *threadmill.Config) error {
	t, err := conversation.Read(w.Data["transcript"])
	if err != nil {
		return err
	}
	t.Configure(c, func(ctx context.Context, call tool.Call) error {
		return w.Tell(ctx, call.ThreadID, publishedKey+call.ID)
	})
	c.Store = killing.Telling{Store: teststore.Of(c.Store), Worker: w}
	return nil
}

// publishedKey is the prefix of the key of a report of a publication.
const publishedKey = "published "
