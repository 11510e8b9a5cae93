package agui_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/agui"
	"github.com/threadmill/threadmill/internal/chat/chattest"
)

// history is the events of a turn: those that are stored, and those that are live only.
type history []event.AgentEvent

func live(e event.AgentEvent) bool {
	return e.Type == event.EventStream || e.Type == event.EventThought || e.Type == event.EventReset
}

// stored is the chat as a client loads it.
func (h history) stored() *chat.Chat {
	return chattest.Read(slices.DeleteFunc(slices.Clone(h), live)...)
}

// read is the chat as a stream reads it that begins now: what is stored, and then what is being said.
func (h history) read() *chat.Chat {
	c := h.stored()
	for _, e := range h {
		if live(e) {
			chattest.Apply(c, e)
		}
	}
	return c
}

// TestStreamsEqualSnapshots: however often its runs are cut, repeated and joined, a client has in the end what one has that connects.
func TestStreamsEqualSnapshots(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		a := chattest.NewAuthor(random)
		a.Resets = true
		cfg := agui.Config{ThreadID: "t", RunID: "r", Version: []string{"", "1.0"}[seed%2]}
		events := history{chattest.Asked("e")}
		c := events.read()
		reader := &client{}
		fail := func(err error) { require.NoError(t, err, "seed %d", seed) }
		connect := func() (e *agui.Encoder) {
			reader.begin()
			messages, told := agui.Snapshot(events.stored())
			snapshots, held := agui.Replace(reader.held(), messages)
			reader.customs = nil
			fail(reader.read(told))
			fail(reader.read(snapshots))
			again := cfg
			again.Held, again.Connects, again.Told = held, true, told
			c = events.read()
			return agui.New(again)
		}
		encoder := connect()
		for range 5 + random.IntN(60) {
			for _, e := range a.Next() {
				events = append(events, e)
				chattest.Apply(c, e)
			}
			switch random.IntN(8) {
			case 0: // cut somewhere, and run again
				rest := encoder.Sync(c.Answer("e"))
				fail(reader.read(rest[:random.IntN(len(rest)+1)]))
				reader.begin()
				again := cfg
				again.Held = reader.held()
				encoder, c = agui.New(again), events.read()
			case 1:
				encoder = connect()
			case 2, 3, 4:
				fail(reader.read(encoder.Sync(c.Answer("e"))))
			}
		}
		// Of a turn that is over, a client that has all messages is taken to have all events.
		fail(reader.read(encoder.Sync(c.Answer("e"))))
		for _, e := range a.End() {
			events = append(events, e)
			chattest.Apply(c, e)
		}
		fail(reader.read(encoder.Sync(c.Answer("e"))))
		fail(reader.read(encoder.End(c.Answer("e"))))
		messages, customs := agui.Snapshot(events.stored())
		want := &client{}
		fail(want.read(customs))
		require.Subset(t, reader.customs, want.customs, "seed %d", seed)
		require.Equal(t, lines(messages), reader.has(), "seed %d", seed)
	}
}
