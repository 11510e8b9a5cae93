package scheduleversions_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/scheduleversions"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func posting(text string) *signals.Schedule {
	return &signals.Schedule{ID: "daily", ThreadID: "t1", Cron: []string{"@daily"}, Message: &event.NewMessage{Content: text}}
}

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// texts says of each version its number and what it posts, the newest last.
func texts(v scheduleversions.Versions) (out []string) {
	for _, one := range v {
		text := "deleted"
		if one.Definition != nil {
			text = one.Definition.Message.Content
		}
		out = append(out, fmt.Sprint(one.Version, " ", text))
	}
	return out
}

func TestWith(t *testing.T) {
	var v scheduleversions.Versions
	require.Zero(t, v.Newest())
	require.Empty(t, v.With(nil, "ann", noon), "there never was one")
	v = v.With(posting("a"), "ann", noon)
	paused := posting("a")
	paused.Paused, paused.Note, paused.Remaining = true, "holidays", 3
	require.Equal(t, v, v.With(paused, "bob", noon), "its state is no version")
	v = v.With(posting("b"), "bob", noon).With(nil, "bob", noon)
	require.Equal(t, v, v.With(nil, "eve", noon), "it is deleted already")
	v = v.With(posting("b"), "ann", noon)
	require.Equal(t, []string{"1 a", "2 b", "3 deleted", "4 b"}, texts(v))
	require.Equal(t, "ann", v.Newest().By)
	for i := range scheduleversions.Max {
		v = v.With(posting(fmt.Sprint(i)), "ann", noon)
	}
	require.Len(t, v, scheduleversions.Max)
	require.Equal(t, 5, v[0].Version, "the oldest are dropped, and the numbers go on")
}

func TestNote(t *testing.T) {
	db := open(t)
	none, err := scheduleversions.Read(t.Context(), db, "ns", "daily")
	require.NoError(t, err)
	require.Empty(t, none)
	// Several programs note what they do at the same time.
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			_, err := scheduleversions.Note(t.Context(), db, "ns", "daily", posting(fmt.Sprint(i)), "ann", noon)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	v, err := scheduleversions.Read(t.Context(), db, "ns", "daily")
	require.NoError(t, err)
	require.Len(t, v, 5)
	require.Equal(t, 5, v.Newest().Version)

	long := strings.Repeat("x", 300<<10)
	for i := range 10 {
		_, err := scheduleversions.Note(t.Context(), db, "ns", "long", posting(fmt.Sprint(i, long)), "ann", noon)
		require.NoError(t, err)
	}
	v, err = scheduleversions.Read(t.Context(), db, "ns", "long")
	require.NoError(t, err)
	require.Len(t, v, 3, "as many as a megabyte has")
	require.Equal(t, 10, v.Newest().Version)
}

func TestEdit(t *testing.T) {
	db := open(t)
	const schedules = 45 // more than are read at once
	for i := range schedules {
		for _, text := range []string{"a", "b", "a"} {
			_, err := scheduleversions.Note(t.Context(), db, "ns", fmt.Sprint("s", i), posting(text), "ann", noon)
			require.NoError(t, err)
		}
	}
	_, err := scheduleversions.Note(t.Context(), db, "other", "s1", posting("b"), "ann", noon)
	require.NoError(t, err)
	_, err = scheduleversions.Note(t.Context(), db, "ns", "s1", nil, "ann", noon)
	require.NoError(t, err)
	drop := func(text string) {
		require.NoError(t, scheduleversions.Edit(t.Context(), db, "ns", func(v *scheduleversions.Version) bool {
			v.By = "somebody"
			return v.Definition == nil || v.Definition.Message.Content != text
		}))
	}
	drop("b")
	for i := range schedules {
		v, err := scheduleversions.Read(t.Context(), db, "ns", fmt.Sprint("s", i))
		require.NoError(t, err)
		want := []string{"1 a", "3 a"}
		if i == 1 {
			want = append(want, "4 deleted")
		}
		require.Equal(t, want, texts(v))
		require.Equal(t, "somebody", v.Newest().By)
	}
	drop("a")
	left, err := db.Documents(t.Context(), "ns", scheduleversions.Kind, "", 10)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left of a schedule without a definition, not even who deleted it")
	v, err := scheduleversions.Read(t.Context(), db, "other", "s1")
	require.NoError(t, err)
	require.Equal(t, []string{"1 b"}, texts(v), "of another namespace")
}
