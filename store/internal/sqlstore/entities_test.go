package sqlstore

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
	all, ok := newNearest(query, 200)
	require.True(t, ok)
	some, ok := newNearest(query, 7)
	require.True(t, ok)
	for i := range 150 {
		unit, ok := unitVector(vector())
		require.True(t, ok)
		for _, n := range []*nearest{all, some} {
			n.Add(fmt.Sprint("e", i), VectorBytes(unit))
			n.Add("short", VectorBytes(unit[:2]))
			n.Add("broken", VectorBytes(unit)[:11])
		}
	}
	require.Len(t, all.IDs(), 150)
	require.Equal(t, all.IDs()[:7], some.IDs())
	_, ok = newNearest([]float32{0}, 1)
	require.False(t, ok)
}

func TestDescribeLeavesWhatIsKnown(t *testing.T) {
	now := time.Now()
	known := make([]entityDescription, store.MaxDescriptions, store.MaxDescriptions+5)
	for i := range known {
		known[i] = entityDescription{Text: fmt.Sprint(i), At: now}
	}
	before := slices.Clone(known)
	all, added := describe(known, "new", now)
	require.True(t, added)
	require.Len(t, all, store.MaxDescriptions)
	require.Equal(t, "new", all[len(all)-1].Text)
	require.Equal(t, before, known)
	for _, text := range []string{"", "3"} {
		_, added = describe(known, text, now)
		require.False(t, added)
	}
}

func TestEntityNames(t *testing.T) {
	require.Equal(t, entityKeys("ann MÜLLER"), entityKeys("\tAnn Müller "))
	require.NotEqual(t, entityKeys("Ann"), entityKeys("Anne"))
	require.Equal(t, "person", entityType(" PERSON\n"))
	name := entityName(strings.Repeat("a", 199) + " b")
	require.Len(t, name, 199, "what is cut ends with no space")
	require.Equal(t, name, entityName(name))
}
