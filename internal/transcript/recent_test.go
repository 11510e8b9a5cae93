package transcript_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// growing is a thread that grows at random.
type growing struct {
	t *testing.T
	*rand.Rand
	teststore.Store
	recent *transcript.Recent
	ids    []string
	done   store.Appended
}

func (g *growing) any() string { return g.ids[g.IntN(len(g.ids))] }

func (g *growing) append(records ...event.Record) {
	g.t.Helper()
	var err error
	g.done, err = g.Append(g.t.Context(), key, store.Batch{Records: records})
	require.NoError(g.t, err)
	if g.IntN(8) > 0 { // others append too
		g.recent.Appended(key, g.done)
	}
}

// grow adds a message or a decision on one, or replaces a message.
func (g *growing) grow() {
	g.t.Helper()
	m := text(fmt.Sprintf("m%d", len(g.ids)), strings.Repeat("text", 1+g.IntN(100)))
	on := event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomePassed}
	switch g.IntN(20) {
	case 0:
		g.append(undecided(m, event.TypeMessage))
	case 1:
		g.append(decision(g.any(), on))
	case 2:
		on.Outcome = event.OutcomeDropped
		g.append(decision(g.any(), on))
	case 3:
		g.append(withdrawal(g.any()))
		return
	case 4:
		r := messageRecord(text(g.any(), "replaced"))
		require.NoError(g.t, g.ReplaceRecords(g.t.Context(), key, r))
		g.append()
		return
	case 5: // a retry
		g.append(messageRecord(text(g.any(), "again")))
		return
	case 6:
		g.append(messageRecord(text(g.any(), "again")), messageRecord(m), messageRecord(text(m.ID+"b", "two")))
	case 7:
		m.SenderType, m.ToolCallID, m.Content = event.CreatedByTool, "c1", strings.Repeat("result é", 1+g.IntN(1000))
		g.append(messageRecord(m).In(g.any()))
	default:
		g.append(messageRecord(m).In(g.any()))
	}
	g.ids = append(g.ids, m.ID)
}

// TestRecent: what is kept of a thread changes nothing, whatever happens to the thread.
func TestRecent(t *testing.T) {
	for seed := range uint64(20) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{})
		require.NoError(t, err)
		g := &growing{t: t, Rand: rand.New(rand.NewPCG(seed, 0)), Store: db, recent: transcript.NewRecent(), ids: []string{"m"}}
		g.append(messageRecord(text("m", "first")))
		for range 150 {
			for range g.IntN(3) {
				g.grow()
			}
			w := transcript.Window{Head: g.done.Head, Limit: []int{3, 10, 40}[g.IntN(3)], Bytes: []int{0, 2000, 6000}[seed%3], Result: []int{0, 1024}[seed%2]}
			switch g.IntN(5) {
			case 0:
				w.EventID = g.any()
			case 1:
				w.Also = g.any()
			case 2:
				w.Head = g.Int64N(w.Head + 1)
			}
			want, err := transcript.Read(t.Context(), db, key, w)
			require.NoError(t, err)
			got, err := g.recent.Read(t.Context(), db, key, g.done.Replaced, w, 0)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d, %+v", seed, w)

			all, err := db.Records(t.Context(), key, store.Query{})
			require.NoError(t, err)
			some := all[g.IntN(len(all)):]
			some = []event.Record{some[0], some[g.IntN(len(some))]}
			known, err := g.recent.RecordsByID(t.Context(), db, key, g.done, some[0].ID, some[1].ID, some[0].ID, "none")
			require.NoError(t, err)
			require.Equal(t, slices.CompactFunc(some, func(a, b event.Record) bool { return a.ID == b.ID }), known, "seed %d", seed)
		}
		require.NoError(t, db.Close())
	}
}

// TestRecentReadsWhatIsNew: each record of a thread is read once.
func TestRecentReadsWhatIsNew(t *testing.T) {
	r := newReader(t)
	recent := transcript.NewRecent()
	for n := range 200 {
		_, err := r.Append(t.Context(), key, store.Batch{Records: []event.Record{messageRecord(text(fmt.Sprint("m", n), "text"))}})
		require.NoError(t, err)
		r.read = 0
		got, err := recent.Read(t.Context(), r, key, 0, transcript.Window{Head: int64(n + 1), Limit: 100}, 0)
		require.NoError(t, err)
		require.Len(t, got, min(n+1, 100))
		require.LessOrEqual(t, r.read, 1)
	}
}

// TestRecentKnowsItsAppends: what the process has appended itself is not read.
func TestRecentKnowsItsAppends(t *testing.T) {
	r := newReader(t)
	recent := transcript.NewRecent()
	add := func(told bool, ids ...string) store.Appended {
		t.Helper()
		var batch store.Batch
		for _, id := range ids {
			batch.Records = append(batch.Records, messageRecord(text(id, "text")))
		}
		done, err := r.Append(t.Context(), key, batch)
		require.NoError(t, err)
		if told {
			recent.Appended(key, done)
		}
		return done
	}
	read := func(done store.Appended, want int, ids ...string) (queries int) {
		t.Helper()
		r.queries = 0
		messages, err := recent.Read(t.Context(), r, key, done.Replaced, transcript.Window{Head: done.Head, Limit: 100}, 0)
		require.NoError(t, err)
		require.Len(t, messages, want)
		records, err := recent.RecordsByID(t.Context(), r, key, done, ids[0], ids...)
		require.NoError(t, err)
		require.Len(t, records, len(ids))
		return r.queries
	}
	require.Equal(t, 1, read(add(true, "a"), 1, "a"), "the transcript")
	require.Zero(t, read(add(true, "b", "c"), 3, "a", "c"))
	require.Zero(t, read(add(true), 3, "a"))
	require.Zero(t, read(add(true, "c", "d"), 4, "b", "d"), "a retry")
	require.Equal(t, 2, read(add(false, "x"), 5, "d", "x"), "of others")
	require.Zero(t, read(add(true, "e"), 6, "e"), "the transcript was read meanwhile")
	require.Equal(t, 1, read(add(true, "f"), 7, "x", "f"))
	require.NoError(t, r.ReplaceRecords(t.Context(), key, messageRecord(text("f", "other"))))
	require.Equal(t, 2, read(add(false), 7, "e", "f"), "what was replaced")
	require.Equal(t, 1, read(add(true), 7, "f"))
	require.Zero(t, read(add(true, "g"), 8, "g"))
	for _, id := range []string{"h", "i", "j"} {
		done, err := r.Append(t.Context(), key, store.Batch{Records: []event.Record{messageRecord(text(id, strings.Repeat("x", 40<<10)))}})
		require.NoError(t, err)
		recent.Appended(key, done)
	}
	require.Equal(t, 1, read(add(true), 11, "h"), "too much to be kept")
	require.Zero(t, read(add(true), 11, "j"))
}
