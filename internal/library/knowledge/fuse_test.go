package knowledge

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFuse(t *testing.T) {
	t.Parallel()
	hits := Fuse([]string{"a", "b", "c"}, []string{"b", "d", "b"}, nil)
	var ids []string
	for _, h := range hits {
		ids = append(ids, h.ID)
	}
	require.Equal(t, []string{"b", "a", "d", "c"}, ids)
	require.Equal(t, []int{2, 1, 0}, hits[0].Ranks)
	require.InDelta(t, 1.0/62+1.0/61, hits[0].Score, 1e-12)
	require.Empty(t, Fuse())
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for similarity, want := range map[float64]Verdict{1: Same, 0.99: Same, 0.9899: Unsure, 0.95: Unsure, 0.9499: Different, 0: Different, -1: Different} {
		require.Equal(t, want, Judge(similarity), similarity)
	}
}
