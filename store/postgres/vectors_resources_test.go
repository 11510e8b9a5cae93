//go:build resources

package postgres_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
)

// TestVectorsByTheirSigns: a search that chooses vectors by their signs first finds those that are near, though the
// extension's schema is not that of the tables.
func TestVectorsByTheirSigns(t *testing.T) {
	const dimension, n = 256, 2400 // more than are read whole
	server := testenv.PGlite(t)
	exec(t, server, `CREATE SCHEMA "of the ""extension"`)
	exec(t, server, `CREATE EXTENSION vector WITH SCHEMA "of the ""extension"`)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: server, MaxConns: 1})
	require.NoError(t, err)
	defer s.Close()
	require.True(t, s.HasVectors())

	d, err := s.BeginKnowledge(t.Context(), "n", store.KnowledgeDocument{Source: "a"}, store.KnowledgeBegin{})
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(3, 4))
	vectors := make([]store.KnowledgeVector, n)
	for i := range vectors {
		vectors[i] = store.KnowledgeVector{Document: d.ID, Revision: 1, Index: i, Vector: make([]float32, dimension)}
		for j := range dimension {
			vectors[i].Vector[j] = float32(random.NormFloat64())
		}
	}
	for batch := range slices.Chunk(vectors, store.MaxKnowledgeBatch) {
		chunks := make([]store.KnowledgeChunk, len(batch))
		for i := range chunks {
			chunks[i].Index = batch[i].Index
		}
		require.NoError(t, s.AddChunks(t.Context(), "n", d.Newest(), chunks))
		require.NoError(t, s.AddVectors(t.Context(), "n", "e", batch))
	}
	_, err = s.FinishKnowledge(t.Context(), "n", d.Newest(), store.KnowledgeFinish{})
	require.NoError(t, err)
	for _, of := range []int{7, 1500, n - 1} {
		near := slices.Clone(vectors[of].Vector)
		for j := range near {
			near[j] += 0.5 * float32(random.NormFloat64())
		}
		hits, err := s.SearchVectors(t.Context(), "n", "e", near, store.KnowledgeScope{Limit: 5})
		require.NoError(t, err)
		require.Len(t, hits, 5)
		require.Equal(t, of, hits[0].Index)
		require.InDelta(t, 0.9, hits[0].Score, 0.05)
	}
}
