package postgres_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/storetest"
)

// corpus makes up texts whose words are as unequally common as those of a language without its stop words.
type corpus struct{ random *rand.Rand }

func (c corpus) word() string {
	const vocabulary, flat = 60_000, 15
	return fmt.Sprintf("w%d", int(flat*math.Exp(c.random.Float64()*math.Log((vocabulary+flat)/flat))-flat)+1)
}

func (c corpus) text(words int) string {
	text := make([]string, words)
	for i := range text {
		text[i] = c.word()
	}
	return strings.Join(text, " ")
}

func (c corpus) chunks(n int) []store.KnowledgeChunk {
	chunks := make([]store.KnowledgeChunk, n)
	for i := range chunks {
		chunks[i] = store.KnowledgeChunk{Index: i, Text: c.text(150)}
	}
	return chunks
}

// TestKnowledgeWithVectors runs what has to do with vectors in a server that has pgvector; TestKnowledge runs the rest.
func TestKnowledgeWithVectors(t *testing.T) {
	server := testenv.PGlite(t)
	storetest.RunVectors(t, func(t *testing.T) store.Store {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: server, MaxConns: 1})
		require.NoError(t, err)
		require.True(t, s.HasVectors())
		t.Cleanup(func() {
			require.NoError(t, s.Close())
			exec(t, server, "DROP SCHEMA public CASCADE")
			exec(t, server, "CREATE SCHEMA public")
		})
		return s
	})
}

func learn(t testing.TB, s *postgres.Store, namespace, source string, chunks []store.KnowledgeChunk) {
	t.Helper()
	d, err := s.BeginKnowledge(t.Context(), namespace, store.KnowledgeDocument{Source: source}, store.KnowledgeBegin{Force: true})
	require.NoError(t, err)
	for batch := range slices.Chunk(chunks, store.MaxKnowledgeBatch) {
		require.NoError(t, s.AddChunks(t.Context(), namespace, d.Newest(), batch))
	}
	_, err = s.FinishKnowledge(t.Context(), namespace, d.Newest(), store.KnowledgeFinish{})
	require.NoError(t, err)
}

// TestTextSearchIsBM25: scores are those of BM25 over what is visible in the namespace, after documents were replaced and deleted.
func TestTextSearchIsBM25(t *testing.T) {
	s, c := open(t, schema(t), 0), corpus{rand.New(rand.NewPCG(5, 6))}
	visible := map[string][]store.KnowledgeChunk{}
	for i := range 60 {
		name, chunks := fmt.Sprint("d", c.random.IntN(30)), c.chunks(c.random.IntN(5))
		learn(t, s, "n", name, chunks)
		learn(t, s, "other", name, c.chunks(5))
		visible[name] = chunks
		if i%7 == 0 {
			require.NoError(t, s.DeleteKnowledge(t.Context(), "n", store.KnowledgeID(store.DefaultCollection, name)))
			delete(visible, name)
		}
	}
	all := []store.KnowledgeChunk{}
	for _, chunks := range visible {
		all = append(all, chunks...)
	}
	for range 20 {
		query := c.text(15)
		want := bm25(all, query)
		hits, err := s.SearchText(t.Context(), "n", query, store.KnowledgeScope{Limit: store.MaxKnowledgeHits})
		require.NoError(t, err)
		require.Len(t, hits, len(want))
		for _, hit := range hits {
			require.InDelta(t, want[hit.Text], hit.Score, 1e-9)
		}
	}
}

// bm25 returns the scores of texts, as textbooks compute them.
func bm25(chunks []store.KnowledgeChunk, query string) map[string]float64 {
	words, length, texts := map[string]int{}, 0.0, make([][]string, len(chunks))
	for i, c := range chunks {
		texts[i] = strings.Fields(c.Text)
		length += float64(len(texts[i])) / float64(len(chunks))
		for _, word := range slices.Compact(slices.Sorted(slices.Values(texts[i]))) {
			words[word]++
		}
	}
	scores := map[string]float64{}
	for i, text := range texts {
		for _, word := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(query)))) {
			n := 0.0
			for _, other := range text {
				if other == word {
					n++
				}
			}
			if n > 0 {
				of, with := float64(len(chunks)), float64(words[word])
				scores[chunks[i].Text] += math.Log(1+(of-with+0.5)/(with+0.5)) * n * 2.2 / (n + 1.2*(0.25+0.75*float64(len(text))/length))
			}
		}
	}
	return scores
}

// BenchmarkKnowledge searches 100,000 chunks of 5,000 documents for 10 to 20 of the words of one of them.
func BenchmarkKnowledge(b *testing.B) {
	const documents, chunks = 5_000, 20
	s, c := open(b, schema(b), 0), corpus{rand.New(rand.NewPCG(1, 2))}
	queries := []string{}
	began := time.Now()
	for i := range documents {
		made := c.chunks(chunks)
		learn(b, s, "n", fmt.Sprint(i), made)
		if i%10 == 0 {
			words := strings.Fields(made[0].Text)
			queries = append(queries, strings.Join(words[:10+c.random.IntN(11)], " "))
		}
	}
	ingested := time.Since(began)
	var took []time.Duration
	found := 0
	for i := 0; b.Loop(); i++ {
		query := i % len(queries)
		began := time.Now()
		hits, err := s.SearchText(b.Context(), "n", queries[query], store.KnowledgeScope{})
		took = append(took, time.Since(began))
		require.NoError(b, err)
		if len(hits) > 0 && hits[0].Source == fmt.Sprint(query*10) {
			found++
		}
	}
	slices.Sort(took)
	b.ReportMetric(documents*chunks/ingested.Seconds(), "chunks/s")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "p95-ms")
	b.ReportMetric(float64(found)/float64(len(took)), "found")
}
