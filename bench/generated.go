package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

const (
	// seed is that of everything that is made up.
	seed = 2026

	// Words are as unequally common as those of a language: the probability of the n-th is about 1/(n+commonWords)^steepness.
	vocabulary  = 60_000
	commonWords = 15
	steepness   = 1.1

	// Of generated documents. A section is about one chunk.
	sectionsOfDocument = 10
	wordsOfSection     = 170
	wordsOfSentence    = 14
)

// language makes up texts.
type language struct{ words []string }

// newLanguage returns the language with the words of the seed.
func newLanguage() language {
	random := rand.New(rand.NewPCG(seed, 1))
	known := make(map[string]bool, vocabulary)
	l := language{make([]string, 0, vocabulary)}
	for len(l.words) < vocabulary {
		// The more common a word is, the shorter it is.
		syllables := 1 + len(l.words)/300 + random.IntN(2)
		if word := newWord(random, min(syllables, 2+random.IntN(2))); !known[word] {
			known[word] = true
			l.words = append(l.words, word)
		}
	}
	return l
}

func newWord(random *rand.Rand, syllables int) string {
	const begin, vowels, end = "bcdfghklmnprstvw", "aeiou", "lmnrst"
	var word strings.Builder
	for range syllables {
		word.WriteByte(begin[random.IntN(len(begin))])
		word.WriteByte(vowels[random.IntN(len(vowels))])
		if random.IntN(2) == 0 {
			word.WriteByte(end[random.IntN(len(end))])
		}
	}
	return word.String()
}

// text returns the n-th of the texts with a number of words.
func (l language) text(n uint64, words int) string {
	random := rand.New(rand.NewPCG(seed, n))
	zipf := rand.NewZipf(random, steepness, commonWords, vocabulary-1)
	var out strings.Builder
	for i := range words {
		if i > 0 && i%wordsOfSentence == 0 {
			out.WriteByte('.')
		}
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(l.words[zipf.Uint64()])
	}
	return out.String()
}

// document returns the n-th document, in Markdown.
func (l language) document(n int) *store.KnowledgeContent {
	var out strings.Builder
	first := uint64(n+1) << 32
	fmt.Fprintf(&out, "# %s\n", l.text(first, 4))
	for i := range uint64(sectionsOfDocument) {
		fmt.Fprintf(&out, "\n## %s\n\n%s.\n", l.text(first+2*i+1, 3), l.text(first+2*i+2, wordsOfSection))
	}
	return &store.KnowledgeContent{Name: fmt.Sprintf("%d.md", n), Bytes: []byte(out.String())}
}

// question returns the n-th question.
func (l language) question(n int) string { return l.text(uint64(n), 3+n%5) }

// Of generated vectors.
const (
	dimension    = 384
	clusterCount = 256
	clusterName  = "bench/clusters"
)

// clusters is an embedder that takes no time: the vector of a text is near the center of a cluster, which its letters
// determine. It says nothing about the meaning of a text.
type clusters struct{ centers [][]float32 }

var _ llm.Embedder = (*clusters)(nil)

func newClusters() *clusters {
	random := rand.New(rand.NewPCG(seed, 2))
	c := &clusters{make([][]float32, clusterCount)}
	for i := range c.centers {
		c.centers[i] = make([]float32, dimension)
		for j := range c.centers[i] {
			c.centers[i][j] = float32(random.NormFloat64())
		}
	}
	return c
}

// Embed implements [llm.Embedder].
func (c *clusters) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	out := llm.Embeddings{Vectors: make([][]float32, len(req.Texts))}
	for i, text := range req.Texts {
		out.Vectors[i] = c.vector(text)
	}
	return out, ctx.Err()
}

func (c *clusters) vector(text string) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	random := rand.New(rand.NewPCG(seed, h.Sum64()))
	v := make([]float32, dimension)
	for j, x := range c.centers[random.IntN(clusterCount)] {
		v[j] = x + float32(random.NormFloat64())/2
	}
	return v
}
