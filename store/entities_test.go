package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

func TestNearestKeepsTheBest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	vector := func() []float32 {
		return []float32{random.Float32() - 0.5, random.Float32() - 0.5, random.Float32() - 0.5}
	}
	query := vector()
	all, ok := store.NewNearest(query, 200)
	require.True(t, ok)
	some, ok := store.NewNearest(query, 7)
	require.True(t, ok)
	for i := range 150 {
		unit, ok := store.UnitVector(vector())
		require.True(t, ok)
		for _, nearest := range []*store.Nearest{all, some} {
			nearest.Add(fmt.Sprint("e", i), store.VectorBytes(unit))
			nearest.Add("short", store.VectorBytes(unit[:2]))
			nearest.Add("broken", store.VectorBytes(unit)[:11])
		}
	}
	require.Len(t, all.IDs(), 150)
	require.Equal(t, all.IDs()[:7], some.IDs())
	_, ok = store.NewNearest([]float32{0}, 1)
	require.False(t, ok)
}

func TestDescribeLeavesWhatIsKnown(t *testing.T) {
	now := time.Now()
	known := make([]store.EntityDescription, store.MaxDescriptions, store.MaxDescriptions+5)
	for i := range known {
		known[i] = store.EntityDescription{Text: fmt.Sprint(i), At: now}
	}
	before := slices.Clone(known)
	all, added := store.Describe(known, "new", now)
	require.True(t, added)
	require.Len(t, all, store.MaxDescriptions)
	require.Equal(t, "new", all[len(all)-1].Text)
	require.Equal(t, before, known)
	for _, text := range []string{"", "3"} {
		_, added = store.Describe(known, text, now)
		require.False(t, added)
	}
}

func TestEntityNames(t *testing.T) {
	require.Equal(t, store.EntityKeys("ann MÜLLER"), store.EntityKeys("\tAnn Müller "))
	require.NotEqual(t, store.EntityKeys("Ann"), store.EntityKeys("Anne"))
	require.Equal(t, "person", store.EntityType(" PERSON\n"))
	name := store.EntityName(strings.Repeat("a", 199) + " b")
	require.Len(t, name, 199, "what is cut ends with no space")
	require.Equal(t, name, store.EntityName(name))
}
