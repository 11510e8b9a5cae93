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
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/conversation"
	"github.com/threadmill/threadmill/tests/internal/world"
	"github.com/threadmill/threadmill/tool"
)

// conversations are played at the same time. The worker is killed when each of them has
// come to another gap, so that this often fewer workers have to die.
const conversations = 20

// TestConversationKilled plays the conversation while its worker is killed between any two
// things that are stored: when the next one is about to be, and when it is and nobody has
// heard of it. What becomes of the conversation is the same.
func TestConversationKilled(t *testing.T) {
	if testing.Short() || !world.StickyOff() {
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

func killedBetweenAll(t *testing.T, o world.Options) {
	s, gate := newScene(t), newTurnstile(t)
	transcript, err := filepath.Abs(threeAgents)
	require.NoError(t, err)
	k := newKilling(t, s.options(o), func(v *victim) {
		v.Hasty, v.Transcript, v.Reports = true, transcript, gate.URL
	})
	s.World = k.World
	k.start(k.victim)
	ctx, cancel := context.WithTimeout(t.Context(), 7*world.Patience)
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
		k.worker.Kill()
		kills++
		gate.pass()
		k.start(k.victim)
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
			// Once more by the same call, if nobody knows whether the first time was all.
			s.requirePublished(t, threadOf(i), gate.published(threadOf(i)), 2)
		}
	})
}

func threadOf(i int) string { return fmt.Sprintf("conversation-%d", i) }

// plays makes the worker play the conversation, and say when it is about to store something
// and when it has.
func (v victim) plays(c *threadmill.Config) error {
	t, err := conversation.Read(v.Transcript)
	if err != nil {
		return err
	}
	t.Configure(c, func(ctx context.Context, call tool.Call) error {
		return v.tell(ctx, call.ThreadID, publishedKey+call.ID)
	})
	c.Store = telling{c.Store, v}
	return nil
}

// publishedKey begins the key of a report that something was published.
const publishedKey = "published "

// telling is a store that tells of all that it stores.
type telling struct {
	store.Store
	victim victim
}

func (s telling) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	what := contents(b)
	if what == "" {
		return s.Store.Append(ctx, key, b)
	}
	// A step that was given up goes on to wait, or it would try again beside itself.
	deaf := context.WithoutCancel(ctx)
	if err := s.victim.tell(deaf, key.ThreadID, "before "+what); err != nil {
		return store.Appended{}, err
	}
	done, err := s.Store.Append(deaf, key, b)
	if err != nil {
		return done, err
	}
	return done, s.victim.tell(deaf, key.ThreadID, "after "+what)
}

// contents names what a batch stores.
func contents(b store.Batch) (what string) {
	for _, r := range b.Records {
		what += r.ID + " "
	}
	if b.ToolStart != nil {
		what += "start of " + b.ToolStart.ToolCallID
	}
	if b.ToolFinish != nil {
		what += "end of " + b.ToolFinish.ToolCallID
	}
	return what
}
