package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// growing is a thread that grows at random.
type growing struct {
	t *testing.T
	*rand.Rand
	store.Store
	ids  []string
	done store.Appended
}

func (g *growing) any() string { return g.ids[g.IntN(len(g.ids))] }

func (g *growing) append(records ...event.Record) {
	g.t.Helper()
	var err error
	g.done, err = g.Append(g.t.Context(), key, store.Batch{Records: records})
	require.NoError(g.t, err)
}

// grow adds a message or a decision on one, or replaces a message.
func (g *growing) grow() {
	g.t.Helper()
	m := text(fmt.Sprintf("m%d", len(g.ids)), "text")
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
		g := &growing{t: t, Rand: rand.New(rand.NewPCG(seed, 0)), Store: db, ids: []string{"m"}}
		g.append(messageRecord(text("m", "first")))
		recent := store.NewRecent()
		for range 150 {
			for range g.IntN(3) {
				g.grow()
			}
			w := store.Window{Head: g.done.Head, Limit: []int{3, 10, 40}[g.IntN(3)]}
			switch g.IntN(5) {
			case 0:
				w.EventID = g.any()
			case 1:
				w.Also = g.any()
			case 2:
				w.Head = g.Int64N(w.Head + 1)
			}
			want, err := store.Transcript(t.Context(), db, key, w)
			require.NoError(t, err)
			got, err := recent.Transcript(t.Context(), db, key, g.done.Replaced, w)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d, %+v", seed, w)
		}
		require.NoError(t, db.Close())
	}
}

// TestRecentReadsWhatIsNew: each record of a thread is read once.
func TestRecentReadsWhatIsNew(t *testing.T) {
	r := newReader(t)
	recent := store.NewRecent()
	for n := range 200 {
		_, err := r.Append(t.Context(), key, store.Batch{Records: []event.Record{messageRecord(text(fmt.Sprint("m", n), "text"))}})
		require.NoError(t, err)
		r.read = 0
		got, err := recent.Transcript(t.Context(), r, key, 0, store.Window{Head: int64(n + 1), Limit: 100})
		require.NoError(t, err)
		require.Len(t, got, min(n+1, 100))
		require.LessOrEqual(t, r.read, 1)
	}
}
