package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/threadmill/threadmill/store"
)

func testSearchTextForms(t *testing.T, k store.Knowledge) {
	learn(t, k, ns, source("a.md"), "The runner was connecting two cables", "Un résumé à la carte", "STRASSE und Ärger", "kernel 6.12 on x86")
	for query, want := range map[string]string{
		"runners": "The runner was connecting two cables", "connected": "The runner was connecting two cables",
		"connections": "The runner was connecting two cables", "CABLE": "The runner was connecting two cables",
		"resume": "Un résumé à la carte", "RÉSUMÉS": "Un résumé à la carte", "re\u0301sume\u0301": "Un résumé à la carte",
		"strasse": "STRASSE und Ärger", "arger": "STRASSE und Ärger", "äRGER": "STRASSE und Ärger",
		"X86": "kernel 6.12 on x86", "which kernel?": "kernel 6.12 on x86", "nothing-of connect(ed)": "The runner was connecting two cables",
	} {
		require.Equal(t, []string{want}, finds(t, k, ns, query), "%q", query)
	}
	for _, query := range []string{"cab", "able", "kern", "nothing", "x8", "strassen1"} {
		require.Empty(t, finds(t, k, ns, query), "%q", query)
	}
	require.Len(t, finds(t, k, ns, "cables résumé"), 2, "one of the words is enough")
}

// Texts without spaces between words, in other forms than those of their queries.
func testSearchTextScripts(t *testing.T, k store.Knowledge) {
	texts := []string{
		"退款需要三十天。", "付款方式是银行转账。", "返金には三十日かかります。", "支払いはカード（ＶＩＳＡ）で行います。",
		"การคืนเงินใช้เวลาสามสิบวัน", "การชำระเงินทำด้วยบัตร", "환불에는 삼십 일이 걸립니다", "결제는 카드로 합니다", norm.NFD.String("서울특별시 주소"), "茶",
	}
	learn(t, k, ns, source("a.md"), texts...)
	for query, want := range map[string]string{
		"退款要多久？": texts[0], "银行转账": texts[1], "返金は何日ですか": texts[2], "ｶｰﾄﾞ visa": texts[3], "คืนเงิน": texts[4],
		"บัตร": texts[5], "환불": texts[6], "카드 결제": texts[7], "서울": texts[8], "茶": texts[9],
	} {
		found := finds(t, k, ns, query)
		require.NotEmpty(t, found, "%q", query)
		require.Equal(t, want, found[0], "%q", query)
	}
	require.Empty(t, finds(t, k, ns, "火车"), "no neighbours in common")
}

func testSearchTextFields(t *testing.T, k store.Knowledge) {
	d := beginKnowledge(t, k, ns, source("a.md"), contentOf("one"))
	chunks := passages("one text", "another text", "third")
	chunks[0].Path = []string{"Cooking", "Baking of bread"}
	chunks[1].Context = "About gardens in spring"
	require.NoError(t, k.AddChunks(t.Context(), ns, d.Newest(), chunks))
	finishKnowledge(t, k, ns, d.Newest(), store.KnowledgeFinish{})
	require.Equal(t, []string{"one text"}, finds(t, k, ns, "cook"))
	require.Equal(t, []string{"one text"}, finds(t, k, ns, "breads"))
	require.Equal(t, []string{"another text"}, finds(t, k, ns, "garden"))
	require.Len(t, finds(t, k, ns, "text"), 2)
	for _, other := range []string{"books", "a.md", ns, d.ID, "0", "1"} {
		require.Empty(t, finds(t, k, ns, other), "%q is no text", other)
	}
}

func testSearchTextOperators(t *testing.T, k store.Knowledge) {
	learn(t, k, ns, source("a.md"), "apple", "pear", "plum near cherry", "text: not context")
	for query, want := range map[string][]string{
		"apple AND pear":         {"apple", "pear"},
		"apple & pear":           {"apple", "pear"},
		"apple -pear":            {"apple", "pear"},
		"+apple +pear":           {"apple", "pear"},
		"!apple | pear":          {"apple", "pear"},
		"(apple":                 {"apple"},
		"apple)":                 {"apple"},
		`"apple`:                 {"apple"},
		`"apple pear"`:           {"apple", "pear"},
		"'apple''":               {"apple"},
		"app*":                   nil,
		"^apple":                 {"apple"},
		"apple:*":                {"apple"},
		"apple:pear":             {"apple", "pear"},
		"path:apple":             {"apple"},
		"{text path} : apple":    {"apple", "text: not context"},
		"NEAR(apple pear, 5)":    {"apple", "pear", "plum near cherry"},
		"apple <-> pear":         {"apple", "pear"},
		"plum <2> cherry":        {"plum near cherry"},
		"rank MATCH 'apple'":     {"apple"},
		`apple\`:                 {"apple"},
		"apple%' OR '1'='1":      {"apple"},
		"apple\x00pear":          {"apple", "pear"},
		"apple\xffpear":          {"apple", "pear"},
		"\u200bapple\u200b":      {"apple"},
		"apple🍎pear":             {"apple", "pear"},
		"apple/pear_plum-cherry": {"apple", "pear", "plum near cherry"},
	} {
		require.ElementsMatch(t, want, finds(t, k, ns, query), "%q", query)
	}
}

func testSearchTextHostile(t *testing.T, k store.Knowledge) {
	require.Empty(t, finds(t, k, ns, "apple"), "a namespace without documents")
	learn(t, k, ns, source("a.md"), "apple", "pear")
	words := make([]string, 20_000)
	for i := range words {
		words[i] = fmt.Sprintf("w%d", i)
	}
	for _, query := range []string{
		"", " ", "\n\t", "\x00", "\xff\xfe", `"`, `""`, `"" ""`, `'`, "''", "()", "(", "*", "**", "-", "--", "^", ":", "+", "%", "_", "\\", "{}", "[]", "<->", "&|!",
		"🧵🍎", "🏳️‍🌈", "\u0301", "\u200d", "\u202e", "…—–«»", "a.b.c", "AND", "OR", "NOT", "NEAR", "AND OR NOT", "NEAR(", "NEAR/3", "中文", "日本語テキスト", "عربى", "\U0010FFFF", "\uFFFD",
		strings.Repeat("(", 64<<10), strings.Repeat(`"`, 64<<10), strings.Repeat("\x00", 64<<10), strings.Repeat("\xff", 64<<10),
		strings.Repeat("x", 64<<10), strings.Repeat("é", 32<<10), strings.Repeat("🧵", 16<<10), strings.Repeat("a ", 32<<10), strings.Repeat("NOT ", 16<<10),
		strings.Repeat("e\u0301", 20<<10), strings.Join(words, " "), strings.Join(words, "-"), strings.Join(words, "\x00"), strings.Join(words, `" OR "`),
	} {
		hits := searchText(t, k, ns, query, store.KnowledgeScope{})
		require.Empty(t, hits, "%.40q", query)
		searchText(t, k, ns, query, store.KnowledgeScope{Collections: []string{"books"}})
		require.Contains(t, finds(t, k, ns, "apple "+query), "apple", "%.40q", query)
	}
	require.Contains(t, finds(t, k, ns, strings.Repeat("apple ", 20_000)), "apple")
}

func testSearchTextRanking(t *testing.T, k store.Knowledge) {
	filler := "It says little, and goes on for a while about nothing that anybody has asked for."
	texts := []string{
		"zebra " + filler,
		"zebra giraffe " + filler,
		"giraffe " + filler,
		"giraffe " + strings.Repeat(filler+" ", 10),
		"lion " + filler,
		"lion lion lion",
	}
	learn(t, k, ns, source("a.md"), append(texts, numbered(40, "Common filler text")...)...)
	require.Equal(t, texts[1], finds(t, k, ns, "zebra giraffe")[0], "both words are better than one")
	require.Equal(t, []string{texts[5], texts[4]}, finds(t, k, ns, "lion"), "more often in less text is better")
	require.Equal(t, texts[3], finds(t, k, ns, "giraffe")[2], "longer is worse")
	require.ElementsMatch(t, texts[:2], finds(t, k, ns, "zebra filler")[:2], "rare words weigh more")
	for _, hit := range searchText(t, k, ns, "zebra", store.KnowledgeScope{}) {
		require.Positive(t, hit.Score)
	}
}

func testSearchTextLimits(t *testing.T, k store.Knowledge) {
	learn(t, k, ns, source("a.md"), numbered(250, "apple")...)
	for limit, want := range map[int]int{
		-1: store.DefaultKnowledgeHits, 0: store.DefaultKnowledgeHits, 1: 1, 120: 120, 1 << 40: store.MaxKnowledgeHits,
	} {
		hits := searchText(t, k, ns, "apples", store.KnowledgeScope{Limit: limit})
		require.Len(t, hits, want)
		seen := map[int]bool{}
		for _, hit := range hits {
			seen[hit.Index] = true
		}
		require.Len(t, seen, want, "each once")
	}
}

// plane stores chunks with vectors at these angles in degrees, which are their texts.
func plane(t *testing.T, k store.Knowledge, d store.KnowledgeDocument, angles ...int) store.KnowledgeDocument {
	t.Helper()
	texts := make([]string, len(angles))
	vectors := make([]store.KnowledgeVector, len(angles))
	for i, angle := range angles {
		texts[i] = fmt.Sprint(angle)
	}
	d = learn(t, k, ns, d, texts...)
	for i, angle := range angles {
		vectors[i] = vectorOf(d.Newest(), i, at(angle)...)
	}
	addVectors(t, k, ns, embedder, vectors...)
	return d
}

func at(angle int) []float32 {
	sin, cos := math.Sincos(float64(angle) * math.Pi / 180)
	return []float32{float32(cos), float32(sin)}
}

func testVectorCosine(t *testing.T, k store.Knowledge) {
	require.Empty(t, near(t, k, ns, 1, 0), "a namespace without documents")
	given := source("a.md")
	given.Title = "Angles"
	d := plane(t, k, given, 90, 10, 180, 45, 0)
	require.Equal(t, []string{"0", "10", "45", "90", "180"}, near(t, k, ns, at(0)...))
	require.Equal(t, []string{"45", "10", "90", "0", "180"}, near(t, k, ns, at(46)...))
	require.Equal(t, []string{"180", "90", "45", "10", "0"}, near(t, k, ns, at(170)...))
	hits := searchVectors(t, k, ns, embedder, store.KnowledgeScope{}, at(0)...)
	for i, want := range []float64{1, math.Cos(10 * math.Pi / 180), math.Sqrt(0.5), 0, -1} {
		require.InDelta(t, want, hits[i].Score, 1e-5)
		require.LessOrEqual(t, math.Abs(hits[i].Score), 1.0)
	}
	require.Equal(t, chunksOf(t, k, ns, d.Newest())[4], hits[0].KnowledgeChunk)
	require.Equal(t, []string{"books", "a.md", "Angles"}, []string{hits[0].Collection, hits[0].Source, hits[0].Title})
}

func testVectorLengths(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), "tiny", "huge", "plain")
	addVectors(t, k, ns, embedder, vectorOf(d.Newest(), 0, 1e-40, 0), vectorOf(d.Newest(), 1, math.MaxFloat32, math.MaxFloat32),
		vectorOf(d.Newest(), 2, 0, 2))
	for _, length := range []float32{1e-40, 1, math.MaxFloat32} {
		hits := searchVectors(t, k, ns, embedder, store.KnowledgeScope{}, length, 0)
		require.Equal(t, []string{"tiny", "huge", "plain"}, textsOf(hits))
		for i, want := range []float64{1, math.Sqrt(0.5), 0} {
			require.InDelta(t, want, hits[i].Score, 1e-5)
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, vector := range [][]float32{{0, 0}, {nan, 1}, {inf, 1}, {-inf, inf}} {
		require.Empty(t, near(t, k, ns, vector...), "a vector without a direction")
	}
}

func testVectorDimension(t *testing.T, k store.Knowledge) {
	d := plane(t, k, source("a.md"), 0, 90)
	other := learn(t, k, ns, source("b.md"), "b")
	for _, vector := range [][]float32{{1}, {1, 0, 0}, make([]float32, store.MaxKnowledgeDimension)} {
		vector[0] = 1
		require.ErrorIs(t, k.AddVectors(t.Context(), ns, embedder, []store.KnowledgeVector{vectorOf(other.Newest(), 0, vector...)}), store.ErrInvalid)
		require.Empty(t, near(t, k, ns, vector...))
	}
	require.Empty(t, near(t, k, ns))
	require.Equal(t, []string{"b"}, missing(t, k, ns, other.Newest(), embedder))
	require.NoError(t, k.DropVectors(t.Context(), ns, embedder))
	require.NoError(t, k.DropVectors(t.Context(), ns, embedder))
	require.Empty(t, near(t, k, ns, 1, 0))
	require.Empty(t, index(t, k, ns).Embedders)

	large := make([]float32, store.MaxKnowledgeDimension)
	large[7] = 1
	addVectors(t, k, ns, embedder, vectorOf(other.Newest(), 0, large...))
	require.Equal(t, []string{"b"}, near(t, k, ns, large...))
	require.Equal(t, []store.KnowledgeEmbedder{{Name: embedder, Dimension: store.MaxKnowledgeDimension, Chunks: 1}}, index(t, k, ns).Embedders)
	require.Empty(t, near(t, k, ns, 1, 0))
	require.Equal(t, []string{"0", "90"}, missing(t, k, ns, d.Newest(), embedder))

	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, other.ID))
	addVectors(t, k, ns, embedder, vectorOf(d.Newest(), 0, 1, 0, 0))
	require.Equal(t, []string{"0"}, near(t, k, ns, 1, 0, 0), "without a vector, an embedder has no dimension")
}

func testVectorEmbedders(t *testing.T, k store.Knowledge) {
	d := plane(t, k, source("a.md"), 0, 90)
	addVectors(t, k, ns, "other", vectorOf(d.Newest(), 0, 0, 1), vectorOf(d.Newest(), 1, 1, 0))
	addVectors(t, k, ns, "test/Model", vectorOf(d.Newest(), 1, 1, 0, 0))
	require.Equal(t, []string{"0", "90"}, near(t, k, ns, 1, 0))
	require.Equal(t, []string{"90", "0"}, textsOf(searchVectors(t, k, ns, "other", store.KnowledgeScope{}, 1, 0)))
	require.Equal(t, []string{"90"}, textsOf(searchVectors(t, k, ns, "test/Model", store.KnowledgeScope{}, 1, 0, 0)))
	require.Empty(t, searchVectors(t, k, ns, "none", store.KnowledgeScope{}, 1, 0))
	require.Equal(t, []string{"0"}, missing(t, k, ns, store.KnowledgeRevision{}, "test/Model"))

	require.NoError(t, k.DropVectors(t.Context(), ns, embedder))
	require.Empty(t, near(t, k, ns, 1, 0))
	require.Equal(t, []string{"90", "0"}, textsOf(searchVectors(t, k, ns, "other", store.KnowledgeScope{}, 1, 0)))
	require.Equal(t, []store.KnowledgeEmbedder{{Name: "other", Dimension: 2, Chunks: 2}, {Name: "test/Model", Dimension: 3, Chunks: 1}},
		index(t, k, ns).Embedders)
	require.Equal(t, []string{"0", "90"}, missing(t, k, ns, store.KnowledgeRevision{}, embedder))
}

func testVectorIgnored(t *testing.T, k store.Knowledge) {
	d := plane(t, k, source("a.md"), 0)
	missingRevision := store.KnowledgeRevision{Document: d.ID, Number: 2}
	addVectors(t, k, ns, embedder, vectorOf(d.Newest(), 0, 0, 1), vectorOf(d.Newest(), 1, 1, 0), vectorOf(missingRevision, 0, 1, 0),
		vectorOf(store.KnowledgeRevision{Document: "none", Number: 1}, 0, 1, 0), vectorOf(d.Newest(), -1, 1, 0), vectorOf(d.Newest(), 1<<40, 1, 0))
	require.NoError(t, k.AddVectors(t.Context(), ns, embedder, nil))
	hits := searchVectors(t, k, ns, embedder, store.KnowledgeScope{}, 1, 0)
	require.Len(t, hits, 1)
	require.InDelta(t, 1, hits[0].Score, 1e-5, "what is there stays")
	addVectors(t, k, ns, "ignored", vectorOf(missingRevision, 0, 1, 0))
	require.Len(t, index(t, k, ns).Embedders, 1)
	addVectors(t, k, ns, "ignored", vectorOf(d.Newest(), 0, 1, 0, 0), vectorOf(d.Newest(), 0, 0, 1, 0))
	hits = searchVectors(t, k, ns, "ignored", store.KnowledgeScope{}, 1, 0, 0)
	require.Len(t, hits, 1)
	require.InDelta(t, 1, hits[0].Score, 1e-5, "the first of two stays")
}

func testVectorMissing(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), numbered(150, "a")...)
	other := learn(t, k, ns, store.KnowledgeDocument{Collection: "other", Source: "b"}, "b")
	processed := beginKnowledge(t, k, ns, source("a.md"), contentOf("next"))
	addChunks(t, k, ns, processed.Newest(), "c 0", "c 1")
	require.Len(t, missing(t, k, ns, store.KnowledgeRevision{}, embedder), store.MaxKnowledgeBatch)
	require.Equal(t, []string{"b"}, missing(t, k, ns, other.Newest(), embedder))
	require.Equal(t, []string{"c 0", "c 1"}, missing(t, k, ns, processed.Newest(), embedder))
	three, err := k.ChunksWithout(t.Context(), ns, store.KnowledgeRevision{}, embedder, 3)
	require.NoError(t, err)
	require.Len(t, three, 3)
	again, err := k.ChunksWithout(t.Context(), ns, store.KnowledgeRevision{}, embedder, 3)
	require.NoError(t, err)
	require.Equal(t, three, again)

	seen := map[string]bool{}
	for range 3 { // 151 chunks, by 100
		chunks, err := k.ChunksWithout(t.Context(), ns, store.KnowledgeRevision{}, embedder, 1000)
		require.NoError(t, err)
		vectors := make([]store.KnowledgeVector, len(chunks))
		for i, c := range chunks {
			require.False(t, seen[c.Text])
			seen[c.Text] = true
			vectors[i] = store.KnowledgeVector{Document: c.Document, Revision: c.Revision, Index: c.Index, Vector: []float32{1, 0}}
		}
		addVectors(t, k, ns, embedder, vectors...)
	}
	require.Len(t, seen, 151)
	require.Empty(t, missing(t, k, ns, store.KnowledgeRevision{}, embedder))
	require.Empty(t, missing(t, k, ns, d.Newest(), embedder))
	require.Len(t, missing(t, k, ns, processed.Newest(), embedder), 2, "what is processed is not of the namespace yet")
	require.Empty(t, missing(t, k, ns, store.KnowledgeRevision{Document: d.ID, Number: 9}, embedder))
	require.Empty(t, missing(t, k, ns, store.KnowledgeRevision{Document: "none"}, embedder))
}

func testVectorRevisions(t *testing.T, k store.Knowledge) {
	one := plane(t, k, source("a.md"), 0, 90)
	two := beginKnowledge(t, k, ns, source("a.md"), contentOf("two"))
	addChunks(t, k, ns, two.Newest(), "two")
	addVectors(t, k, ns, embedder, vectorOf(two.Newest(), 0, 1, 0))
	require.Equal(t, []string{"0", "90"}, near(t, k, ns, 1, 0))
	require.Equal(t, []string{"0"}, textsOf(searchVectors(t, k, ns, embedder, store.KnowledgeScope{Limit: 1}, 1, 0)), "it pushes none out")
	finishKnowledge(t, k, ns, two.Newest(), store.KnowledgeFinish{})
	require.Equal(t, []string{"two"}, near(t, k, ns, 1, 0))
	addVectors(t, k, ns, embedder, vectorOf(one.Newest(), 0, 1, 0))
	require.Equal(t, []string{"two"}, near(t, k, ns, 1, 0))

	three := beginKnowledge(t, k, ns, source("a.md"), contentOf("three"))
	addChunks(t, k, ns, three.Newest(), "three")
	addVectors(t, k, ns, embedder, vectorOf(three.Newest(), 0, 1, 0))
	finishKnowledge(t, k, ns, three.Newest(), store.KnowledgeFinish{Error: "it failed"})
	require.Equal(t, []string{"two"}, near(t, k, ns, 1, 0))
	require.Equal(t, []store.KnowledgeEmbedder{{Name: embedder, Dimension: 2, Chunks: 1}}, index(t, k, ns).Embedders)
}

func testVectorLimits(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), numbered(250, "a")...)
	for i := range 250 {
		addVectors(t, k, ns, embedder, vectorOf(d.Newest(), i, 1, float32(i)))
	}
	for limit, want := range map[int]int{
		-1: store.DefaultKnowledgeHits, 0: store.DefaultKnowledgeHits, 1: 1, 120: 120, 1 << 40: store.MaxKnowledgeHits,
	} {
		hits := searchVectors(t, k, ns, embedder, store.KnowledgeScope{Limit: limit}, 1, 0)
		require.Len(t, hits, want)
		for i, hit := range hits {
			require.Equal(t, i, hit.Index)
		}
	}
}

func testVectorRefused(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), "a", "b")
	r := d.Newest()
	tooMany := make([]store.KnowledgeVector, store.MaxKnowledgeBatch+1)
	for i := range tooMany {
		tooMany[i] = vectorOf(r, i, 1)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, vectors := range map[string][]store.KnowledgeVector{
		"no dimension":   {vectorOf(r, 0)},
		"too large":      {vectorOf(r, 0, make([]float32, store.MaxKnowledgeDimension+1)...)},
		"two dimensions": {vectorOf(r, 0, 1), vectorOf(r, 1, 1, 0)},
		"not a number":   {vectorOf(r, 0, 1, 0), vectorOf(r, 1, nan, 0)},
		"not finite":     {vectorOf(r, 0, 1, inf)},
		"no direction":   {vectorOf(r, 0, 0, 0)},
		"too many":       tooMany,
	} {
		require.ErrorIs(t, k.AddVectors(t.Context(), ns, embedder, vectors), store.ErrInvalid, name)
	}
	for _, name := range []string{"", "\x00", "\xff"} {
		require.ErrorIs(t, k.AddVectors(t.Context(), ns, name, []store.KnowledgeVector{vectorOf(r, 0, 1)}), store.ErrInvalid)
	}
	require.Empty(t, index(t, k, ns).Embedders, "all or nothing")
	if !k.HasVectors() {
		require.ErrorIs(t, k.AddVectors(t.Context(), ns, embedder, []store.KnowledgeVector{vectorOf(r, 0, 1)}), store.ErrInvalid)
		require.Empty(t, near(t, k, ns, 1))
		require.NoError(t, k.DropVectors(t.Context(), ns, embedder))
		require.Equal(t, []string{"a", "b"}, missing(t, k, ns, r, embedder))
	}
}
