package presence_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/server/presence"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/stream/nats"
)

// clock is a clock that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var key = stream.Key{Namespace: "default", ThreadID: "t1"}

// process is a process with its own room.
type process struct {
	t *testing.T
	*presence.Room
}

// sees notes a viewer, and returns the names of the others.
func (p process) sees(id string) []string {
	p.t.Helper()
	others, err := p.See(p.t.Context(), key, presence.Viewer{ID: id, Name: id}, "")
	require.NoError(p.t, err)
	names := []string{}
	for _, v := range others {
		names = append(names, v.Name)
	}
	return names
}

func newProcess(t *testing.T, s stream.Stream, c *clock) process {
	return process{t, presence.New(s, c.Now, slog.New(slog.DiscardHandler))}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	drivers := map[string]func(*testing.T) (one, other stream.Stream){
		"memory": func(*testing.T) (one, other stream.Stream) {
			s := memory.New(memory.Config{})
			return s, s
		},
		"nats": func(t *testing.T) (one, other stream.Stream) {
			prefix := testenv.Name("presence")
			connect := func() stream.Stream {
				s, err := nats.Open(t.Context(), nats.Config{URL: testenv.NATS(t), Prefix: prefix})
				require.NoError(t, err)
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			return connect(), connect()
		},
	}
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s1, s2 := open(t)
			c := &clock{now: time.Unix(1_700_000_000, 0)}
			one, other := newProcess(t, s1, c), newProcess(t, s2, c)
			hears := func(p process, id string, want ...string) {
				t.Helper()
				require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.Equal(ct, append([]string{}, want...), p.sees(id)) }, testenv.Patience, time.Millisecond)
			}
			require.Empty(t, one.sees("ann"))
			c.add(time.Second)
			require.NoError(t, newProcess(t, s1, c).Leave(t.Context(), key, "nobody"))
			hears(one, "bob", "ann")
			c.add(time.Second)
			hears(other, "cleo", "ann", "bob") // it has heard of them only since it listens
			hears(one, "ann", "bob", "cleo")

			require.NoError(t, other.Leave(t.Context(), key, "cleo"))
			hears(one, "ann", "bob")

			// Those who come are told of bob, who was not seen meanwhile.
			for i := 0; slices.Contains(one.sees("ann"), "bob"); i++ {
				require.Less(t, i, 20)
				c.add(presence.TTL / 3)
				other.sees(fmt.Sprintf("guest%d", i))
			}
		})
	}
}

// TestPresenceOfOneThread: viewers of another thread or namespace are not there.
func TestPresenceOfOneThread(t *testing.T) {
	t.Parallel()
	p := newProcess(t, memory.New(memory.Config{}), &clock{})
	require.Empty(t, p.sees("ann"))
	for _, k := range []stream.Key{{Namespace: "default", ThreadID: "t2"}, {Namespace: "other", ThreadID: "t1"}} {
		others, err := p.See(t.Context(), k, presence.Viewer{ID: "bob", Name: "bob"}, "")
		require.NoError(t, err)
		require.Empty(t, others)
	}
}

// TestPresenceIsNoNotice: what steps of the thread listen to does not tell of viewers.
// slowListen is a stream to which the first viewer of a thread waits to listen.
type slowListen struct {
	stream.Stream
	asked, goOn chan struct{}
}

func (s slowListen) Listen(ctx context.Context, key stream.Key, notice func(stream.Notice)) (func(), error) {
	close(s.asked)
	<-s.goOn
	return s.Stream.Listen(ctx, key, notice)
}

// TestPresenceLeftAtOnce: a viewer that leaves while its process begins to listen is told to nobody, not even without a name.
func TestPresenceLeftAtOnce(t *testing.T) {
	c, inner := &clock{now: time.Now()}, memory.New(memory.Config{})
	slow := slowListen{inner, make(chan struct{}), make(chan struct{})}
	p, other := newProcess(t, slow, c), newProcess(t, inner, c)
	other.sees("bob")
	done := make(chan []string)
	go func() { done <- p.sees("ann") }()
	<-slow.asked
	require.NoError(t, p.Leave(t.Context(), key, "ann"))
	close(slow.goOn)
	<-done
	require.Empty(t, other.sees("bob"))
}

func TestPresenceIsNoNotice(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	stop, err := s.Listen(t.Context(), key, func(n stream.Notice) { t.Errorf("a step is told %v", n) })
	require.NoError(t, err)
	defer stop()
	require.Empty(t, newProcess(t, s, &clock{}).sees("ann"))
}

// TestPresenceFull bounds the viewers of a thread.
func TestPresenceFull(t *testing.T) {
	t.Parallel()
	p := newProcess(t, memory.New(memory.Config{}), &clock{})
	for i := range 100 {
		require.Len(t, p.sees(fmt.Sprint(i)), i)
	}
	_, err := p.See(t.Context(), key, presence.Viewer{ID: "one more"}, "")
	require.ErrorIs(t, err, presence.ErrFull)
	require.Len(t, p.sees("7"), 99, "those who are here stay")
	require.NoError(t, p.Leave(t.Context(), key, "8"))
	require.Len(t, p.sees("one more"), 99)
}

// TestPresenceShare: a principal leaves room for the viewers of others, in a thread and in the process.
func TestPresenceShare(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Now()}
	p := newProcess(t, memory.New(memory.Config{}), c)
	see := func(thread, id, of string) error {
		_, err := p.See(t.Context(), stream.Key{Namespace: "default", ThreadID: thread}, presence.Viewer{ID: of + id, Name: of}, of)
		return err
	}
	for i := range 10 {
		require.NoError(t, see("t1", fmt.Sprint(i), "key:eve"))
	}
	require.ErrorIs(t, see("t1", "another", "key:eve"), presence.ErrShare)
	require.NoError(t, see("t1", "7", "key:eve"), "those who are here stay")
	require.NoError(t, see("t1", "1", "key:ann"))
	require.NoError(t, p.Leave(t.Context(), stream.Key{Namespace: "default", ThreadID: "t1"}, "key:eve8"))
	require.NoError(t, see("t1", "another", "key:eve"))

	for i := range 990 {
		require.NoError(t, see(fmt.Sprint("more", i), "1", "key:eve"))
	}
	require.ErrorIs(t, see("last", "1", "key:eve"), presence.ErrShare)
	require.NoError(t, see("last", "1", "key:ann"))
	c.add(presence.TTL + time.Second)
	require.NoError(t, see("last", "1", "key:eve"), "those who are gone do not count")
}

// slow is a stream that holds back the notice that a viewer is here.
type slow struct {
	stream.Stream
	held, release chan struct{}
	told          chan bool // whether each notice said that the viewer has left
}

func (s *slow) Notify(ctx context.Context, k stream.Key, n stream.Notice) error {
	if !n.Viewer.Left {
		close(s.held)
		<-s.release
	}
	s.told <- n.Viewer.Left
	return s.Stream.Notify(ctx, k, n)
}

// TestPresenceLeavesLast: if a viewer leaves while the others are being told that it is here, they hear of its leaving last.
func TestPresenceLeavesLast(t *testing.T) {
	t.Parallel()
	s := &slow{memory.New(memory.Config{}), make(chan struct{}), make(chan struct{}), make(chan bool, 2)}
	p := newProcess(t, s, &clock{})
	done := make(chan error, 2)
	go func() {
		_, err := p.See(t.Context(), key, presence.Viewer{ID: "ann"}, "")
		done <- err
	}()
	<-s.held
	go func() { done <- p.Leave(t.Context(), key, "ann") }()
	select {
	case <-s.told:
		close(s.release)
		t.Fatal("the others heard of the leaving first")
	case <-time.After(50 * time.Millisecond):
	}
	close(s.release)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.False(t, <-s.told)
	require.True(t, <-s.told)
}
