package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// RunKnowledge runs the suite of [store.Knowledge], like [Run]. The stores implement it.
func RunKnowledge(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range slices.Concat(knowledge, knowledgeVectors) {
		t.Run(test.name, func(t *testing.T) { test.run(t, opened(t, open)) })
	}
}

// RunVectors runs the tests of [RunKnowledge] that add vectors, for a store that has vectors in some servers only.
func RunVectors(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range knowledgeVectors {
		t.Run(test.name, func(t *testing.T) { test.run(t, opened(t, open)) })
	}
}

// knowledge are the tests of [store.Knowledge].
var knowledge = []suiteTest{
	{"knowledge begins, is resumed, unchanged or forced", ofKnowledge(testKnowledgeBegin)},
	{"knowledge keeps its title and metadata", ofKnowledge(testKnowledgeTitle)},
	{"knowledge whose content comes later", ofKnowledge(testKnowledgeContentLater)},
	{"knowledge of a revision is found until the next one is finished", ofKnowledge(testKnowledgeRevisions)},
	{"knowledge that fails leaves the earlier revision", ofKnowledge(testKnowledgeFails)},
	{"knowledge of superseded revisions changes nothing", ofKnowledge(testKnowledgeSuperseded)},
	{"knowledge steps are idempotent", ofKnowledge(testKnowledgeRepeated)},
	{"knowledge pages", ofKnowledge(testKnowledgePages)},
	{"knowledge chunks by index", ofKnowledge(testKnowledgeChunks)},
	{"knowledge chunks get contexts", ofKnowledge(testKnowledgeContexts)},
	{"knowledge content of any kind", ofKnowledge(testKnowledgeAnyContent)},
	{"knowledge that cannot be stored is refused", ofKnowledge(testKnowledgeRefused)},

	{"text search finds forms of words, whatever their case and accents", ofKnowledge(testSearchTextForms)},
	{"text search finds texts without spaces between words, in any form", ofKnowledge(testSearchTextScripts)},
	{"text search finds headings and context", ofKnowledge(testSearchTextFields)},
	{"text search has no operators", ofKnowledge(testSearchTextOperators)},
	{"text search bears every query", ofKnowledge(testSearchTextHostile)},
	{"text search finds the best first", ofKnowledge(testSearchTextRanking)},
	{"text search limits", ofKnowledge(testSearchTextLimits)},

	{"knowledge begun at once is one revision", ofKnowledge(testKnowledgeBegunAtOnce)},
}

// knowledgeVectors are those tests of it that add vectors where the store has them.
var knowledgeVectors = []suiteTest{
	{"knowledge that is deleted is gone, and its revisions go on", ofKnowledge(testKnowledgeDeleted)},
	{"knowledge of namespaces keeps apart", ofKnowledge(testKnowledgeNamespaces)},
	{"knowledge of collections keeps apart", ofKnowledge(testKnowledgeCollections)},
	{"knowledge of other namespaces and collections does not push hits out", ofKnowledge(testKnowledgeCrowd)},
	{"knowledge with an ended context stores nothing", ofKnowledge(testKnowledgeEndedContext)},
	{"knowledge of names that cannot be stored is not found", ofKnowledge(testKnowledgeOddNames)},
	{"knowledge index counts what is visible", ofKnowledge(testKnowledgeIndex)},
	{"vectors are found by their cosine", ofVectors(testVectorCosine)},
	{"vectors of extreme lengths", ofVectors(testVectorLengths)},
	{"vectors have the dimension of their embedder", ofVectors(testVectorDimension)},
	{"vectors of two embedders are beside each other", ofVectors(testVectorEmbedders)},
	{"vectors of chunks that are not there are ignored", ofVectors(testVectorIgnored)},
	{"vectors that are missing are listed", ofVectors(testVectorMissing)},
	{"vectors of unfinished and earlier revisions are not found", ofVectors(testVectorRevisions)},
	{"vectors limits", ofVectors(testVectorLimits)},
	{"vectors that cannot be stored are refused", ofKnowledge(testVectorRefused)},
	{"knowledge steps at once are done once", ofKnowledge(testKnowledgeStepsAtOnce)},
	{"knowledge readers see one whole revision", ofKnowledge(testKnowledgeReaders)},
}

func ofKnowledge(run func(t *testing.T, k store.Knowledge)) func(*testing.T, whole) {
	return func(t *testing.T, s whole) {
		k, ok := s.(store.Knowledge)
		require.True(t, ok, "%T is no store.Knowledge", s)
		run(t, k)
	}
}

func ofVectors(run func(t *testing.T, k store.Knowledge)) func(*testing.T, whole) {
	return ofKnowledge(func(t *testing.T, k store.Knowledge) {
		if !k.HasVectors() {
			t.Skip("the store has no vectors")
		}
		run(t, k)
	})
}

const embedder = "test/model"

func source(name string) store.KnowledgeDocument {
	return store.KnowledgeDocument{Collection: "books", Source: name, ThreadID: "t1", By: "ann"}
}

// contentOf is what a revision begins with whose content is a text.
func contentOf(text string) store.KnowledgeBegin {
	return store.KnowledgeBegin{
		Digest:  store.KnowledgeDigest([]byte(text)),
		Content: &store.KnowledgeContent{Name: "a.md", MediaType: "text/markdown", Bytes: []byte(text)},
	}
}

func beginKnowledge(t *testing.T, k store.Knowledge, namespace string, d store.KnowledgeDocument, b store.KnowledgeBegin) store.KnowledgeDocument {
	t.Helper()
	begun, err := k.BeginKnowledge(t.Context(), namespace, d, b)
	require.NoError(t, err)
	return begun
}

// passages are chunks with these texts.
func passages(texts ...string) []store.KnowledgeChunk {
	chunks := make([]store.KnowledgeChunk, len(texts))
	for i, text := range texts {
		chunks[i] = store.KnowledgeChunk{Index: i, Text: text}
	}
	return chunks
}

func addChunks(t *testing.T, k store.Knowledge, namespace string, r store.KnowledgeRevision, texts ...string) {
	t.Helper()
	all := passages(texts...)
	for len(all) > 0 {
		n := min(len(all), store.MaxKnowledgeBatch)
		require.NoError(t, k.AddChunks(t.Context(), namespace, r, all[:n]))
		all = all[n:]
	}
}

func finishKnowledge(t *testing.T, k store.Knowledge, namespace string, r store.KnowledgeRevision, f store.KnowledgeFinish) store.KnowledgeDocument {
	t.Helper()
	d, err := k.FinishKnowledge(t.Context(), namespace, r, f)
	require.NoError(t, err)
	return d
}

// learn stores a document with a chunk for each text.
func learn(t *testing.T, k store.Knowledge, namespace string, d store.KnowledgeDocument, texts ...string) store.KnowledgeDocument {
	t.Helper()
	content := contentOf(strings.Join(texts, "\n"))
	content.Force = true
	begun := beginKnowledge(t, k, namespace, d, content)
	addChunks(t, k, namespace, begun.Newest(), texts...)
	return finishKnowledge(t, k, namespace, begun.Newest(), store.KnowledgeFinish{Format: "markdown", Bytes: len(content.Content.Bytes)})
}

func vectorOf(r store.KnowledgeRevision, index int, vector ...float32) store.KnowledgeVector {
	return store.KnowledgeVector{Document: r.Document, Revision: r.Number, Index: index, Vector: vector}
}

func addVectors(t *testing.T, k store.Knowledge, namespace, embedder string, vectors ...store.KnowledgeVector) {
	t.Helper()
	require.NoError(t, k.AddVectors(t.Context(), namespace, embedder, vectors))
}

func document1(t *testing.T, k store.Knowledge, namespace, id string) store.KnowledgeDocument {
	t.Helper()
	d, err := k.KnowledgeDocument(t.Context(), namespace, id)
	require.NoError(t, err)
	return d
}

func chunksOf(t *testing.T, k store.Knowledge, namespace string, r store.KnowledgeRevision) []store.KnowledgeChunk {
	t.Helper()
	chunks, err := k.Chunks(t.Context(), namespace, r, 0, 0)
	require.NoError(t, err)
	return chunks
}

func searchText(t *testing.T, k store.Knowledge, namespace, query string, in store.KnowledgeScope) []store.KnowledgeHit {
	t.Helper()
	hits, err := k.SearchText(t.Context(), namespace, query, in)
	require.NoError(t, err)
	for i := range hits {
		require.False(t, i > 0 && hits[i].Score > hits[i-1].Score, "the best come first")
	}
	return hits
}

func searchVectors(t *testing.T, k store.Knowledge, namespace, embedder string, in store.KnowledgeScope, vector ...float32) []store.KnowledgeHit {
	t.Helper()
	hits, err := k.SearchVectors(t.Context(), namespace, embedder, vector, in)
	require.NoError(t, err)
	for i := range hits {
		require.False(t, i > 0 && hits[i].Score > hits[i-1].Score, "the best come first")
	}
	return hits
}

func textsOf(hits []store.KnowledgeHit) []string {
	texts := make([]string, len(hits))
	for i, hit := range hits {
		texts[i] = hit.Text
	}
	return texts
}

// finds returns the texts of what a text search finds in all collections.
func finds(t *testing.T, k store.Knowledge, namespace, query string) []string {
	t.Helper()
	return textsOf(searchText(t, k, namespace, query, store.KnowledgeScope{}))
}

// near returns the texts of what is near a vector in all collections.
func near(t *testing.T, k store.Knowledge, namespace string, vector ...float32) []string {
	t.Helper()
	return textsOf(searchVectors(t, k, namespace, embedder, store.KnowledgeScope{}, vector...))
}

func missing(t *testing.T, k store.Knowledge, namespace string, r store.KnowledgeRevision, embedder string) []string {
	t.Helper()
	chunks, err := k.ChunksWithout(t.Context(), namespace, r, embedder, 0)
	require.NoError(t, err)
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = c.Text
	}
	return texts
}

func index(t *testing.T, k store.Knowledge, namespace string) store.KnowledgeIndex {
	t.Helper()
	got, err := k.KnowledgeIndex(t.Context(), namespace)
	require.NoError(t, err)
	return got
}

// numbered returns n texts that end with their numbers.
func numbered(n int, text string) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%s %d", text, i)
	}
	return texts
}
