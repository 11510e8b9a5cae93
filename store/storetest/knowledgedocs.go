package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

func testKnowledgeBegin(t *testing.T, k store.Knowledge) {
	before := time.Now().Add(-time.Minute)
	given := source("a.md")
	given.Title, given.Metadata = "A title", json.RawMessage(`{ "b": 1e2 }`)
	one := beginKnowledge(t, k, ns, given, contentOf("one"))
	require.WithinRange(t, one.CreatedAt, before, time.Now().Add(time.Minute))
	require.Equal(t, time.UTC, one.CreatedAt.Location())
	want := given
	want.ID, want.Status, want.Revision = store.KnowledgeID("books", "a.md"), store.KnowledgeProcessing, 1
	want.Digest, want.CreatedAt, want.UpdatedAt = store.KnowledgeDigest([]byte("one")), one.CreatedAt, one.CreatedAt
	want.TitleThreadID, want.MetadataThreadID = given.ThreadID, given.ThreadID
	require.Equal(t, want, one)
	require.Equal(t, one, document1(t, k, ns, one.ID))
	require.Equal(t, one, beginKnowledge(t, k, ns, given, contentOf("one")), "resumed")
	forced := contentOf("one")
	forced.Force = true
	require.Equal(t, one, beginKnowledge(t, k, ns, given, forced), "a step that is repeated begins nothing")
	content, err := k.KnowledgeContent(t.Context(), ns, one.Newest())
	require.NoError(t, err)
	require.Equal(t, *contentOf("one").Content, content)

	addChunks(t, k, ns, one.Newest(), "first", "second")
	indexed := finishKnowledge(t, k, ns, one.Newest(), store.KnowledgeFinish{Title: "Another", Format: "markdown", Bytes: 3})
	want.Status, want.Indexed, want.IndexedDigest, want.IndexedThreadID = store.KnowledgeIndexed, 1, want.Digest, given.ThreadID
	want.Format, want.Bytes, want.Chunks, want.UpdatedAt = "markdown", 3, 2, indexed.UpdatedAt
	require.Equal(t, want, indexed)
	require.False(t, indexed.UpdatedAt.Before(indexed.CreatedAt))
	require.Equal(t, indexed, document1(t, k, ns, one.ID))
	require.Equal(t, indexed, beginKnowledge(t, k, ns, source("a.md"), contentOf("one")), "unchanged")

	forcedDocument := beginKnowledge(t, k, ns, given, forced)
	require.Equal(t, 2, forcedDocument.Revision)
	require.Equal(t, 1, forcedDocument.Indexed)
	require.Equal(t, store.KnowledgeProcessing, forcedDocument.Status)
	other := beginKnowledge(t, k, ns, given, contentOf("two"))
	require.Equal(t, 3, other.Revision, "another content begins anew, while the one before is processed")
	require.Equal(t, store.KnowledgeDigest([]byte("two")), other.Digest)
	require.Equal(t, want.Digest, other.IndexedDigest)
	back := beginKnowledge(t, k, ns, given, contentOf("one"))
	require.Equal(t, 4, back.Revision, "what is indexed is not the newest")
	require.Equal(t, 2, back.Chunks)

	byDefault := beginKnowledge(t, k, ns, store.KnowledgeDocument{Source: "a.md"}, contentOf("one"))
	require.Equal(t, store.DefaultCollection, byDefault.Collection)
	require.Equal(t, 1, byDefault.Revision)
	require.NotEqual(t, one.ID, byDefault.ID)
}

func testKnowledgeTitle(t *testing.T, k store.Knowledge) {
	given := source("a.md")
	given.Title, given.Metadata = "Ti\x00t\xffle", json.RawMessage("\"\xff\"")
	d := beginKnowledge(t, k, ns, given, contentOf("one"))
	require.Equal(t, "Ti\uFFFDt\uFFFDle", d.Title)
	require.Equal(t, "\"\uFFFD\"", string(d.Metadata))
	next := source("a.md")
	next.ThreadID, next.By = "", "bob"
	d = beginKnowledge(t, k, ns, next, contentOf("two"))
	require.Equal(t, "Ti\uFFFDt\uFFFDle", d.Title)
	require.Equal(t, "\"\uFFFD\"", string(d.Metadata))
	require.Empty(t, d.ThreadID)
	require.Equal(t, "bob", d.By)
	next.Title, next.Metadata = "New", json.RawMessage(`2`)
	d = beginKnowledge(t, k, ns, next, contentOf("three"))
	require.Equal(t, "New", d.Title)
	require.Equal(t, `2`, string(d.Metadata))

	untitled := beginKnowledge(t, k, ns, source("b.md"), contentOf("one"))
	require.Empty(t, untitled.Title)
	require.Empty(t, untitled.Metadata)
	d = finishKnowledge(t, k, ns, untitled.Newest(), store.KnowledgeFinish{Title: strings.Repeat("é", 1000), Format: "ht\x00ml"})
	require.Equal(t, strings.Repeat("é", 250), d.Title, "a long title is cut")
	require.Equal(t, "ht\uFFFDml", d.Format)
}

func testKnowledgeContentLater(t *testing.T, k store.Knowledge) {
	begun := beginKnowledge(t, k, ns, source("https://example.org"), store.KnowledgeBegin{})
	r := begun.Newest()
	require.Empty(t, begun.Digest)
	require.Equal(t, begun, beginKnowledge(t, k, ns, source("https://example.org"), store.KnowledgeBegin{}), "resumed")
	_, err := k.KnowledgeContent(t.Context(), ns, r)
	require.ErrorIs(t, err, store.ErrNotFound)

	content := store.KnowledgeContent{MediaType: "text/html", Bytes: []byte("<p>")}
	digest := store.KnowledgeDigest(content.Bytes)
	require.NoError(t, k.PutKnowledgeContent(t.Context(), ns, r, digest, content))
	got, err := k.KnowledgeContent(t.Context(), ns, r)
	require.NoError(t, err)
	require.Equal(t, content, got)
	require.Equal(t, digest, document1(t, k, ns, begun.ID).Digest)
	require.NoError(t, k.PutKnowledgeContent(t.Context(), ns, r, "other", store.KnowledgeContent{Bytes: []byte("other")}))
	got, err = k.KnowledgeContent(t.Context(), ns, r)
	require.NoError(t, err)
	require.Equal(t, content, got, "what is there stays")
	require.Equal(t, digest, document1(t, k, ns, begun.ID).Digest)

	indexed := finishKnowledge(t, k, ns, r, store.KnowledgeFinish{})
	require.Equal(t, digest, indexed.IndexedDigest)
	require.Equal(t, 2, beginKnowledge(t, k, ns, source("https://example.org"), store.KnowledgeBegin{}).Revision,
		"what has no content yet is not unchanged")
	require.ErrorIs(t, k.PutKnowledgeContent(t.Context(), ns, r, digest, content), store.ErrSuperseded)

	again := document1(t, k, ns, begun.ID).Newest()
	require.NoError(t, k.PutKnowledgeContent(t.Context(), ns, again, digest, content))
	same := finishKnowledge(t, k, ns, again, store.KnowledgeFinish{Unchanged: true})
	require.Equal(t, store.KnowledgeIndexed, same.Status)
	require.Equal(t, []int{2, 1}, []int{same.Revision, same.Indexed}, "the revision before remains")
	_, err = k.KnowledgeContent(t.Context(), ns, r)
	require.NoError(t, err)
	_, err = k.KnowledgeContent(t.Context(), ns, again)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func testKnowledgeRevisions(t *testing.T, k store.Knowledge) {
	one := beginKnowledge(t, k, ns, source("a.md"), contentOf("one"))
	addChunks(t, k, ns, one.Newest(), "apple of one", "pear of one")
	require.Empty(t, finds(t, k, ns, "apple"), "not before it is finished")
	finishKnowledge(t, k, ns, one.Newest(), store.KnowledgeFinish{})
	require.Equal(t, []string{"apple of one"}, finds(t, k, ns, "apple"))

	two := beginKnowledge(t, k, ns, source("a.md"), contentOf("two"))
	addChunks(t, k, ns, two.Newest(), "apple of two")
	require.Equal(t, []string{"apple of one"}, finds(t, k, ns, "apple"))
	require.Empty(t, finds(t, k, ns, "two"))
	require.Len(t, chunksOf(t, k, ns, one.Newest()), 2)
	require.Len(t, chunksOf(t, k, ns, two.Newest()), 1)

	d := finishKnowledge(t, k, ns, two.Newest(), store.KnowledgeFinish{})
	require.Equal(t, 2, d.Indexed)
	require.Equal(t, 1, d.Chunks)
	require.Equal(t, []string{"apple of two"}, finds(t, k, ns, "apple"))
	require.Empty(t, finds(t, k, ns, "pear"))
	require.Empty(t, chunksOf(t, k, ns, one.Newest()))
	_, err := k.KnowledgeContent(t.Context(), ns, one.Newest())
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = k.KnowledgeContent(t.Context(), ns, two.Newest())
	require.NoError(t, err)

	three := beginKnowledge(t, k, ns, source("a.md"), contentOf("three"))
	d = finishKnowledge(t, k, ns, three.Newest(), store.KnowledgeFinish{})
	require.Zero(t, d.Chunks)
	require.Empty(t, finds(t, k, ns, "apple"), "a revision without chunks is a revision")
}

func testKnowledgeFails(t *testing.T, k store.Knowledge) {
	one := learn(t, k, ns, source("a.md"), "apple one")
	two := beginKnowledge(t, k, ns, source("a.md"), contentOf("two"))
	addChunks(t, k, ns, two.Newest(), "apple two")
	d := finishKnowledge(t, k, ns, two.Newest(), store.KnowledgeFinish{Error: "no \x00 text", Title: "T", Format: "pdf", Bytes: 7})
	want := one
	want.Status, want.Error, want.Revision, want.Digest = store.KnowledgeFailed, "no \uFFFD text", 2, two.Digest
	want.UpdatedAt = d.UpdatedAt
	d.Title = want.Title // whether a document that failed gets a title is left to the store
	require.Equal(t, want, d)
	require.Equal(t, []string{"apple one"}, finds(t, k, ns, "apple"))
	require.Empty(t, chunksOf(t, k, ns, two.Newest()))
	_, err := k.KnowledgeContent(t.Context(), ns, two.Newest())
	require.NoError(t, err, "its content can be tried again")
	_, err = k.KnowledgeContent(t.Context(), ns, one.Newest())
	require.NoError(t, err)

	three := beginKnowledge(t, k, ns, source("a.md"), contentOf("two"))
	require.Equal(t, 3, three.Revision, "what failed is tried again")
	require.Empty(t, three.Error)
	require.Equal(t, 1, three.Indexed)
	_, err = k.KnowledgeContent(t.Context(), ns, two.Newest())
	require.ErrorIs(t, err, store.ErrNotFound)
	d = finishKnowledge(t, k, ns, three.Newest(), store.KnowledgeFinish{Error: "again"})
	require.Equal(t, 1, d.Indexed)
	four := beginKnowledge(t, k, ns, source("a.md"), contentOf("apple one"))
	require.Equal(t, 4, four.Revision, "the content that is indexed is no longer that of the newest revision")
	d = finishKnowledge(t, k, ns, four.Newest(), store.KnowledgeFinish{})
	require.Equal(t, store.KnowledgeIndexed, d.Status)
	require.Empty(t, d.Error)

	first := beginKnowledge(t, k, ns, source("b.md"), contentOf("b"))
	d = finishKnowledge(t, k, ns, first.Newest(), store.KnowledgeFinish{Error: strings.Repeat("e", 100_000)})
	require.Zero(t, d.Indexed)
	require.Empty(t, d.Format)
	require.Less(t, len(d.Error), 10_000, "a long error is cut")
}

// requireSuperseded checks that the steps of a revision return [store.ErrSuperseded].
func requireSuperseded(t *testing.T, k store.Knowledge, namespace string, r store.KnowledgeRevision) {
	t.Helper()
	err := k.PutKnowledgeContent(t.Context(), namespace, r, "digest", store.KnowledgeContent{Bytes: []byte("late")})
	require.ErrorIs(t, err, store.ErrSuperseded)
	require.ErrorIs(t, k.AddChunks(t.Context(), namespace, r, passages("late apple")), store.ErrSuperseded)
	require.ErrorIs(t, k.AddContexts(t.Context(), namespace, r, contexts("late apple")), store.ErrSuperseded)
	for _, failure := range []string{"", "it failed"} {
		_, err = k.FinishKnowledge(t.Context(), namespace, r, store.KnowledgeFinish{Error: failure})
		require.ErrorIs(t, err, store.ErrSuperseded)
	}
}

func testKnowledgeSuperseded(t *testing.T, k store.Knowledge) {
	requireSuperseded(t, k, ns, store.KnowledgeRevision{Document: store.KnowledgeID("books", "a.md"), Number: 1})
	one := beginKnowledge(t, k, ns, source("a.md"), contentOf("one"))
	addChunks(t, k, ns, one.Newest(), "apple one")
	two := beginKnowledge(t, k, ns, source("a.md"), contentOf("two"))
	require.Empty(t, chunksOf(t, k, ns, one.Newest()), "what nobody will finish is deleted")
	_, err := k.KnowledgeContent(t.Context(), ns, one.Newest())
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, number := range []int{-1, 0, 1, 3} {
		requireSuperseded(t, k, ns, store.KnowledgeRevision{Document: one.ID, Number: number})
	}
	require.Equal(t, two, document1(t, k, ns, two.ID))
	require.Empty(t, finds(t, k, ns, "late"))

	finishKnowledge(t, k, ns, two.Newest(), store.KnowledgeFinish{})
	requireSuperseded(t, k, ns, one.Newest())
	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, two.ID))
	requireSuperseded(t, k, ns, two.Newest())
	requireSuperseded(t, k, ns, store.KnowledgeRevision{Document: two.ID, Number: 3})
	three := beginKnowledge(t, k, ns, source("a.md"), contentOf("three"))
	requireSuperseded(t, k, ns, one.Newest())
	requireSuperseded(t, k, ns, two.Newest())
	require.Equal(t, three, document1(t, k, ns, three.ID))
	require.Empty(t, chunksOf(t, k, ns, three.Newest()))
}

func testKnowledgeRepeated(t *testing.T, k store.Knowledge) {
	d := beginKnowledge(t, k, ns, source("a.md"), contentOf("one"))
	r := d.Newest()
	require.NoError(t, k.AddChunks(t.Context(), ns, r, nil))
	addChunks(t, k, ns, r, "apple", "pear")
	addChunks(t, k, ns, r, "changed", "changed", "plum")
	twice := passages("cherry", "changed")
	twice[0].Index, twice[1].Index = 3, 3
	require.NoError(t, k.AddChunks(t.Context(), ns, r, twice))
	chunks := chunksOf(t, k, ns, r)
	require.Len(t, chunks, 4)
	for i, want := range []string{"apple", "pear", "plum", "cherry"} {
		require.Equal(t, want, chunks[i].Text)
	}
	indexed := finishKnowledge(t, k, ns, r, store.KnowledgeFinish{Format: "pdf"})
	for _, again := range []store.KnowledgeFinish{{Format: "pdf"}, {Format: "html", Title: "T", Bytes: 5}, {Error: "it failed"}} {
		require.Equal(t, indexed, finishKnowledge(t, k, ns, r, again))
	}
	late := passages("late")
	late[0].Index = 4
	require.NoError(t, k.AddChunks(t.Context(), ns, r, late))
	require.NoError(t, k.PutKnowledgeContent(t.Context(), ns, r, "digest", store.KnowledgeContent{}))
	require.Equal(t, indexed, document1(t, k, ns, d.ID))
	require.Equal(t, chunks, chunksOf(t, k, ns, r))
	require.Equal(t, []string{"apple"}, finds(t, k, ns, "apple changed late"))

	failing := beginKnowledge(t, k, ns, source("a.md"), store.KnowledgeBegin{})
	addChunks(t, k, ns, failing.Newest(), "fig")
	failed := finishKnowledge(t, k, ns, failing.Newest(), store.KnowledgeFinish{Error: "it failed"})
	require.Equal(t, failed, finishKnowledge(t, k, ns, failing.Newest(), store.KnowledgeFinish{}))
	addChunks(t, k, ns, failing.Newest(), "fig")
	require.Empty(t, chunksOf(t, k, ns, failing.Newest()), "a late step does not bring back what was deleted")
	require.Equal(t, failed, document1(t, k, ns, d.ID))
}

func testKnowledgeDeleted(t *testing.T, k store.Knowledge) {
	require.ErrorIs(t, k.DeleteKnowledge(t.Context(), ns, "nothing"), store.ErrNotFound)
	kept := learn(t, k, ns, source("b.md"), "apple stays")
	d := learn(t, k, ns, source("a.md"), "apple one", "apple two")
	processed := beginKnowledge(t, k, ns, source("a.md"), contentOf("next"))
	addChunks(t, k, ns, processed.Newest(), "apple three")
	if k.HasVectors() {
		addVectors(t, k, ns, embedder, vectorOf(d.Newest(), 0, 1, 0), vectorOf(processed.Newest(), 0, 1, 0))
	}
	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, d.ID))
	require.ErrorIs(t, k.DeleteKnowledge(t.Context(), ns, d.ID), store.ErrNotFound)
	gone := func() {
		t.Helper()
		require.Equal(t, []string{"apple stays"}, finds(t, k, ns, "apple"))
		for _, r := range []store.KnowledgeRevision{d.Newest(), processed.Newest()} {
			require.Empty(t, chunksOf(t, k, ns, r))
			require.Empty(t, missing(t, k, ns, r, embedder))
			_, err := k.KnowledgeContent(t.Context(), ns, r)
			require.ErrorIs(t, err, store.ErrNotFound)
		}
		if k.HasVectors() {
			require.Empty(t, near(t, k, ns, 1, 0))
		}
		require.Equal(t, store.KnowledgeIndex{Documents: 1, Chunks: 1, Embedders: []store.KnowledgeEmbedder{}}, index(t, k, ns))
	}
	gone()
	_, err := k.KnowledgeDocument(t.Context(), ns, d.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	all, err := k.KnowledgeDocuments(t.Context(), ns, store.KnowledgePage{})
	require.NoError(t, err)
	require.Equal(t, []store.KnowledgeDocument{kept}, all)

	given := store.KnowledgeDocument{Collection: "books", Source: "a.md"}
	again := beginKnowledge(t, k, ns, given, contentOf("next"))
	want := given
	want.ID, want.Status, want.Digest, want.Revision = d.ID, store.KnowledgeProcessing, processed.Digest, 3
	want.CreatedAt, want.UpdatedAt = again.CreatedAt, again.CreatedAt
	require.Equal(t, want, again, "nothing is left but the number of the revision")
	gone()
	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, d.ID))
	require.Equal(t, 4, beginKnowledge(t, k, ns, given, contentOf("next")).Revision)
}

func testKnowledgeNamespaces(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), "apple here")
	begun := beginKnowledge(t, k, ns, source("b.md"), store.KnowledgeBegin{})
	if k.HasVectors() {
		addVectors(t, k, ns, embedder, vectorOf(d.Newest(), 0, 1, 0))
	}
	untouched := func() {
		t.Helper()
		require.Equal(t, d, document1(t, k, ns, d.ID))
		require.Equal(t, begun, document1(t, k, ns, begun.ID))
		require.Equal(t, []string{"apple here"}, finds(t, k, ns, "apple"))
		require.Len(t, chunksOf(t, k, ns, d.Newest()), 1)
		require.Empty(t, chunksOf(t, k, ns, begun.Newest()))
		content, err := k.KnowledgeContent(t.Context(), ns, d.Newest())
		require.NoError(t, err)
		require.Equal(t, "apple here", string(content.Bytes))
		if k.HasVectors() {
			require.Equal(t, []string{"apple here"}, near(t, k, ns, 1, 0))
			require.Equal(t, []store.KnowledgeEmbedder{{Name: embedder, Dimension: 2, Chunks: 1}}, index(t, k, ns).Embedders)
		}
	}
	for _, other := range []string{"other", "Default", "default ", "defaul", "%"} {
		requireNothing(t, k, other, d)
		requireSuperseded(t, k, other, d.Newest())
		requireSuperseded(t, k, other, begun.Newest())
		require.ErrorIs(t, k.DeleteKnowledge(t.Context(), other, d.ID), store.ErrNotFound)
		require.NoError(t, k.DropVectors(t.Context(), other, embedder))
		if k.HasVectors() {
			addVectors(t, k, other, embedder, vectorOf(d.Newest(), 0, 0, 1, 0))
		}
		untouched()

		theirs := beginKnowledge(t, k, other, source("a.md"), contentOf("apple there"))
		require.Equal(t, d.ID, theirs.ID, "ids follow from the source")
		require.Equal(t, 1, theirs.Revision)
		addChunks(t, k, other, theirs.Newest(), "apple there")
		if k.HasVectors() {
			addVectors(t, k, other, embedder, vectorOf(theirs.Newest(), 0, 0, 1, 0))
		}
		untouched()
		finishKnowledge(t, k, other, theirs.Newest(), store.KnowledgeFinish{})
		require.Equal(t, []string{"apple there"}, finds(t, k, other, "apple"))
		if k.HasVectors() {
			require.Equal(t, []string{"apple there"}, near(t, k, other, 0, 1, 0), "each namespace has its dimension")
			require.Empty(t, near(t, k, other, 1, 0))
		}
		untouched()
		require.NoError(t, k.DropVectors(t.Context(), other, embedder))
		require.NoError(t, k.DeleteKnowledge(t.Context(), other, theirs.ID))
		untouched()
	}
	in, err := k.KnowledgeNamespaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{ns}, in)
	gone := learn(t, k, ns, store.KnowledgeDocument{Collection: "gone", Source: "a.md"}, "a")
	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, gone.ID))
	beginKnowledge(t, k, ns, store.KnowledgeDocument{Collection: "zoo", Source: "a.md"}, contentOf("a"))
	for namespace, want := range map[string][]string{ns: {"books", "zoo"}, "other": nil, "\x00": nil} {
		collections, err := k.KnowledgeCollections(t.Context(), namespace)
		require.NoError(t, err)
		require.Equal(t, want, append([]string(nil), collections...))
	}
	beginKnowledge(t, k, "begun", source("a.md"), contentOf("a"))
	learn(t, k, "also", source("a.md"), "a")
	in, err = k.KnowledgeNamespaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"also", ns}, in)
}

// requireNothing checks that a namespace has nothing of a document.
func requireNothing(t *testing.T, k store.Knowledge, namespace string, d store.KnowledgeDocument) {
	t.Helper()
	_, err := k.KnowledgeDocument(t.Context(), namespace, d.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = k.KnowledgeContent(t.Context(), namespace, d.Newest())
	require.ErrorIs(t, err, store.ErrNotFound)
	all, err := k.KnowledgeDocuments(t.Context(), namespace, store.KnowledgePage{})
	require.NoError(t, err)
	require.Empty(t, all)
	require.Empty(t, chunksOf(t, k, namespace, d.Newest()))
	require.Empty(t, missing(t, k, namespace, d.Newest(), "another"))
	require.Empty(t, missing(t, k, namespace, store.KnowledgeRevision{}, "another"))
	require.Equal(t, store.KnowledgeIndex{Embedders: []store.KnowledgeEmbedder{}}, index(t, k, namespace))
	require.Empty(t, finds(t, k, namespace, "apple"))
	require.Empty(t, near(t, k, namespace, 1, 0))
}

func testKnowledgeCollections(t *testing.T, k store.Knowledge) {
	for i, collection := range []string{"a", "b", "A", "a b", `"a"`, "ab"} {
		d := learn(t, k, ns, store.KnowledgeDocument{Collection: collection, Source: "s"}, "apple of "+collection)
		if k.HasVectors() {
			addVectors(t, k, ns, embedder, vectorOf(d.Newest(), 0, 1, float32(i)))
		}
	}
	for _, test := range []struct{ in, want []string }{
		{[]string{"a"}, []string{"apple of a"}},
		{[]string{"a", "a", "none"}, []string{"apple of a"}},
		{[]string{`"a"`, "A"}, []string{`apple of "a"`, "apple of A"}},
		{[]string{"a b"}, []string{"apple of a b"}},
		{[]string{"none"}, nil},
		{[]string{""}, nil},
		{[]string{"%", "*", "a*", "\x00", "\xff", "a OR b", "a'"}, nil},
		{nil, []string{"apple of a", "apple of b", "apple of A", "apple of a b", `apple of "a"`, "apple of ab"}},
	} {
		scope := store.KnowledgeScope{Collections: test.in}
		require.ElementsMatch(t, test.want, textsOf(searchText(t, k, ns, "apple", scope)), "%q", test.in)
		if k.HasVectors() {
			require.ElementsMatch(t, test.want, textsOf(searchVectors(t, k, ns, embedder, scope, 1, 0)), "%q", test.in)
		}
	}
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	require.Equal(t, []string{"apple of b"}, textsOf(searchText(t, k, ns, "apple", store.KnowledgeScope{Collections: append(many, "b")})))
}

func testKnowledgeCrowd(t *testing.T, k store.Knowledge) {
	const crowd = 2 * store.MaxKnowledgeHits
	ours := learn(t, k, ns, source("a.md"), "an apple, among other fruit, such as pears, plums and cherries")
	others := []struct {
		namespace string
		document  store.KnowledgeDocument
	}{{"other", source("a.md")}, {ns, store.KnowledgeDocument{Collection: "crowd", Source: "a.md"}}}
	for _, other := range others {
		d := learn(t, k, other.namespace, other.document, numbered(crowd, "apple apple apple")...)
		if !k.HasVectors() {
			continue
		}
		for from := 0; from < crowd; from += store.MaxKnowledgeBatch {
			vectors := make([]store.KnowledgeVector, store.MaxKnowledgeBatch)
			for i := range vectors {
				vectors[i] = vectorOf(d.Newest(), from+i, 1, 0)
			}
			addVectors(t, k, other.namespace, embedder, vectors...)
		}
	}
	scope := store.KnowledgeScope{Collections: []string{"books"}, Limit: 1}
	require.Equal(t, []string{"an apple, among other fruit, such as pears, plums and cherries"}, textsOf(searchText(t, k, ns, "apple", scope)))
	if k.HasVectors() {
		addVectors(t, k, ns, embedder, vectorOf(ours.Newest(), 0, 0, 1))
		require.Len(t, searchVectors(t, k, ns, embedder, scope, 1, 0), 1)
	}
}

func testKnowledgePages(t *testing.T, k store.Knowledge) {
	page := func(p store.KnowledgePage) (found []string) {
		t.Helper()
		documents, err := k.KnowledgeDocuments(t.Context(), ns, p)
		require.NoError(t, err)
		for _, d := range documents {
			require.Equal(t, d, document1(t, k, ns, d.ID))
			found = append(found, d.Collection+"/"+d.Source)
		}
		return found
	}
	require.Empty(t, page(store.KnowledgePage{}))
	for _, name := range []string{"b/2", "b/1", "B/1", "a/é", "a/z", "a/A_1%", "a/a-1", "a!/1"} {
		collection, from, _ := strings.Cut(name, "/")
		d := store.KnowledgeDocument{Collection: collection, Source: from}
		if from == "z" {
			d.Title = "The Title of Z"
		}
		beginKnowledge(t, k, ns, d, contentOf(name))
	}
	indexed := learn(t, k, ns, store.KnowledgeDocument{Collection: "b", Source: "1"}, "text")
	failing := beginKnowledge(t, k, ns, store.KnowledgeDocument{Collection: "b", Source: "2"}, contentOf("b/2"))
	finishKnowledge(t, k, ns, failing.Newest(), store.KnowledgeFinish{Error: "it failed"})

	all := []string{"B/1", "a/A_1%", "a/a-1", "a/z", "a/é", "a!/1", "b/1", "b/2"}
	require.Equal(t, all, page(store.KnowledgePage{}), "byte by byte")
	require.Equal(t, all[:3], page(store.KnowledgePage{Limit: 3}))
	require.Equal(t, all[3:5], page(store.KnowledgePage{Limit: 2, AfterCollection: "a", AfterSource: "a-1"}))
	require.Equal(t, all[5:], page(store.KnowledgePage{AfterCollection: "a", AfterSource: "é"}))
	require.Equal(t, all[4:5], page(store.KnowledgePage{Collection: "a", AfterCollection: "a", AfterSource: "z"}))
	require.Equal(t, all[1:5], page(store.KnowledgePage{Collection: "a"}))
	require.Equal(t, []string{"b/1"}, page(store.KnowledgePage{Status: store.KnowledgeIndexed}))
	require.Equal(t, []string{"b/2"}, page(store.KnowledgePage{Status: store.KnowledgeFailed, Collection: "b"}))
	require.Len(t, page(store.KnowledgePage{Status: store.KnowledgeProcessing}), 6)
	require.Empty(t, page(store.KnowledgePage{Status: "else"}))
	require.Equal(t, []string{"a/A_1%"}, page(store.KnowledgePage{Search: "_"}))
	require.Equal(t, []string{"a/A_1%"}, page(store.KnowledgePage{Search: "%"}))
	require.Equal(t, []string{"a/A_1%", "a/a-1"}, page(store.KnowledgePage{Search: "a"})[:2], "case does not matter")
	require.Equal(t, []string{"a/z"}, page(store.KnowledgePage{Search: "tITLE of", Collection: "a"}))
	require.Equal(t, []string{"b/1"}, page(store.KnowledgePage{Search: "1", Collection: "b", Status: store.KnowledgeIndexed}))
	for _, nothing := range []string{`\`, "\x00", "\xff", "B/1"} {
		require.Empty(t, page(store.KnowledgePage{Search: nothing}), "%q", nothing)
	}
	for i := range store.MaxKnowledgePage {
		beginKnowledge(t, k, ns, store.KnowledgeDocument{Collection: "z", Source: fmt.Sprint(i)}, contentOf("z"))
	}
	require.Len(t, page(store.KnowledgePage{}), store.DefaultKnowledgePage)
	require.Len(t, page(store.KnowledgePage{Limit: -1}), store.DefaultKnowledgePage)
	require.Len(t, page(store.KnowledgePage{Limit: 1000}), store.MaxKnowledgePage)
	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, indexed.ID))
	require.Equal(t, []string{"b/2"}, page(store.KnowledgePage{Collection: "b"}))
}

func testKnowledgeChunks(t *testing.T, k store.Knowledge) {
	r := beginKnowledge(t, k, ns, source("a.md"), contentOf("one")).Newest()
	given := store.KnowledgeChunk{
		Document: "ignored", Revision: 9, Index: 1, Text: "text", Overlap: 2, Path: []string{"A", "", "B \x00"}, Page: 3, Tokens: 4, Context: "con\xfftext",
	}
	addChunks(t, k, ns, r, numbered(250, "text")[0])
	require.NoError(t, k.AddChunks(t.Context(), ns, r, []store.KnowledgeChunk{given}))
	require.Equal(t, "B \x00", given.Path[2], "what was given is left alone")
	want := given
	want.Document, want.Revision, want.Path, want.Context = r.Document, r.Number, []string{"A", "", "B \uFFFD"}, "con\uFFFDtext"
	got := chunksOf(t, k, ns, r)
	require.Equal(t, []store.KnowledgeChunk{{Document: r.Document, Revision: 1, Text: "text 0"}, want}, got)

	addChunks(t, k, ns, r, numbered(250, "text")...)
	for _, test := range []struct{ from, limit, first, n int }{
		{0, 0, 0, 100}, {0, 1000, 0, 100}, {-5, 3, 0, 3}, {200, 0, 200, 50}, {249, 5, 249, 1}, {250, 5, 0, 0}, {99, 2, 99, 2}, {1 << 40, 1, 0, 0},
	} {
		got, err := k.Chunks(t.Context(), ns, r, test.from, test.limit)
		require.NoError(t, err)
		require.Len(t, got, test.n, "%+v", test)
		for i, c := range got {
			require.Equal(t, test.first+i, c.Index)
		}
	}
	late := passages("the last")
	late[0].Index = 1<<31 - 1
	require.NoError(t, k.AddChunks(t.Context(), ns, r, late))
	last, err := k.Chunks(t.Context(), ns, r, 250, 1)
	require.NoError(t, err)
	require.Len(t, last, 1)
	finishKnowledge(t, k, ns, r, store.KnowledgeFinish{})
	hits := searchText(t, k, ns, "last", store.KnowledgeScope{})
	require.Len(t, hits, 1)
	require.Equal(t, last[0], hits[0].KnowledgeChunk)
	require.Equal(t, []string{"books", "a.md", ""}, []string{hits[0].Collection, hits[0].Source, hits[0].Title})
	hits = searchText(t, k, ns, "B", store.KnowledgeScope{})
	require.Len(t, hits, 1)
	require.Equal(t, want, hits[0].KnowledgeChunk)
}

func testKnowledgeAnyContent(t *testing.T, k store.Knowledge) {
	for i, content := range [][]byte{nil, {0}, []byte("\xff\x00\xfe"), []byte("{\"a\": 'b'}"), make([]byte, store.MaxKnowledgeContent)} {
		b := store.KnowledgeBegin{
			Digest: store.KnowledgeDigest(content), Content: &store.KnowledgeContent{Name: "n'\"é", MediaType: "a/b; c=\"d\"", Bytes: content},
		}
		d := beginKnowledge(t, k, ns, source(fmt.Sprint(i)), b)
		got, err := k.KnowledgeContent(t.Context(), ns, d.Newest())
		require.NoError(t, err)
		require.True(t, string(content) == string(got.Bytes), "the content %d is kept", i)
		require.Equal(t, []string{b.Content.Name, b.Content.MediaType}, []string{got.Name, got.MediaType})
	}
	for i, text := range []string{
		"", " ", "\n\r\t", "a\x00b", "\xff\xfe", "'; DROP TABLE x; --", "ünï/cödé 🧵 \u202e", strings.Repeat("word ", 10_000), strings.Repeat("x", 60_000),
		"\u0301", "中文 日本語", `"AND" (NEAR*`,
	} {
		d := learn(t, k, ns, source(fmt.Sprint("t", i)), text+" needle", text)
		chunks := chunksOf(t, k, ns, d.Newest())
		require.Len(t, chunks, 2)
		want := strings.NewReplacer("\x00", "\uFFFD", "\xff\xfe", "\uFFFD").Replace(text)
		require.True(t, want == chunks[1].Text, "the text %q is kept", text[:min(len(text), 20)])
		hits := searchText(t, k, ns, "needle", store.KnowledgeScope{})
		require.Len(t, hits, i+1)
	}
	odd := "ünï/cödé 🧵 'a' \"b\" %_"
	d := learn(t, k, odd, store.KnowledgeDocument{Collection: odd, Source: odd, Title: odd, ThreadID: odd, By: odd}, "needle")
	require.Equal(t, d, document1(t, k, odd, store.KnowledgeID(odd, odd)))
	hits := searchText(t, k, odd, "needle", store.KnowledgeScope{Collections: []string{odd}})
	require.Len(t, hits, 1)
	require.Equal(t, []string{odd, odd, odd}, []string{hits[0].Collection, hits[0].Source, hits[0].Title})
}

func testKnowledgeRefused(t *testing.T, k store.Knowledge) {
	for name, change := range map[string]func(*store.KnowledgeDocument, *store.KnowledgeBegin){
		"no source":       func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Source = "" },
		"bad source":      func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Source = "a\x00" },
		"long source":     func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Source = strings.Repeat("x", 2049) },
		"bad collection":  func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Collection = "\xff" },
		"long collection": func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Collection = strings.Repeat("x", 101) },
		"long title":      func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Title = strings.Repeat("x", 501) },
		"bad author":      func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.By = "\x00" },
		"bad thread":      func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.ThreadID = "\x00" },
		"bad metadata":    func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) { d.Metadata = json.RawMessage(`{`) },
		"large metadata": func(d *store.KnowledgeDocument, _ *store.KnowledgeBegin) {
			d.Metadata = json.RawMessage(`"` + strings.Repeat("x", 16<<10) + `"`)
		},
		"bad digest":       func(_ *store.KnowledgeDocument, b *store.KnowledgeBegin) { b.Digest = "\x00" },
		"no digest":        func(_ *store.KnowledgeDocument, b *store.KnowledgeBegin) { b.Digest = "" },
		"bad content name": func(_ *store.KnowledgeDocument, b *store.KnowledgeBegin) { b.Content.Name = "\x00" },
		"bad content type": func(_ *store.KnowledgeDocument, b *store.KnowledgeBegin) { b.Content.MediaType = "\xff" },
		"large content": func(_ *store.KnowledgeDocument, b *store.KnowledgeBegin) {
			b.Content.Bytes = make([]byte, store.MaxKnowledgeContent+1)
		},
	} {
		d, b := source("a.md"), contentOf("one")
		change(&d, &b)
		_, err := k.BeginKnowledge(t.Context(), ns, d, b)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	for _, namespace := range []string{"", "\x00", "\xff"} {
		_, err := k.BeginKnowledge(t.Context(), namespace, source("a.md"), contentOf("one"))
		require.ErrorIs(t, err, store.ErrInvalid)
	}
	all, err := k.KnowledgeDocuments(t.Context(), ns, store.KnowledgePage{})
	require.NoError(t, err)
	require.Empty(t, all, "nothing was stored")

	r := beginKnowledge(t, k, ns, source("a.md"), store.KnowledgeBegin{}).Newest()
	require.ErrorIs(t, k.PutKnowledgeContent(t.Context(), ns, r, "", store.KnowledgeContent{}), store.ErrInvalid)
	require.ErrorIs(t, k.PutKnowledgeContent(t.Context(), ns, r, "\x00", store.KnowledgeContent{}), store.ErrInvalid)
	require.ErrorIs(t, k.PutKnowledgeContent(t.Context(), ns, r, "d", store.KnowledgeContent{Name: "\x00"}), store.ErrInvalid)
	for name, change := range map[string]func(*store.KnowledgeChunk){
		"index below 0":   func(c *store.KnowledgeChunk) { c.Index = -1 },
		"large index":     func(c *store.KnowledgeChunk) { c.Index = 1 << 31 },
		"long text":       func(c *store.KnowledgeChunk) { c.Text = strings.Repeat("x", 64<<10+1) },
		"long context":    func(c *store.KnowledgeChunk) { c.Context = strings.Repeat("x", 64<<10) },
		"long path":       func(c *store.KnowledgeChunk) { c.Path = []string{strings.Repeat("x", 64<<10)} },
		"too much of it":  func(c *store.KnowledgeChunk) { c.Overlap = len(c.Text) + 1 },
		"overlap below 0": func(c *store.KnowledgeChunk) { c.Overlap = -1 },
		"page below 0":    func(c *store.KnowledgeChunk) { c.Page = -1 },
		"large page":      func(c *store.KnowledgeChunk) { c.Page = 1 << 31 },
		"large tokens":    func(c *store.KnowledgeChunk) { c.Tokens = 1 << 31 },
	} {
		chunks := passages("first", "second")
		change(&chunks[1])
		require.ErrorIs(t, k.AddChunks(t.Context(), ns, r, chunks), store.ErrInvalid, name)
	}
	tooMany := passages(numbered(store.MaxKnowledgeBatch+1, "x")...)
	require.ErrorIs(t, k.AddChunks(t.Context(), ns, r, tooMany), store.ErrInvalid)
	require.ErrorIs(t, k.AddContexts(t.Context(), ns, r, contexts(numbered(store.MaxKnowledgeBatch+1, "x")...)), store.ErrInvalid)
	require.ErrorIs(t, k.AddContexts(t.Context(), ns, r, contexts(strings.Repeat("x", store.MaxKnowledgeContext+1))), store.ErrInvalid)
	require.Empty(t, chunksOf(t, k, ns, r), "all or nothing")
}

func testKnowledgeEndedContext(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), "apple")
	begun := beginKnowledge(t, k, ns, source("b.md"), store.KnowledgeBegin{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.BeginKnowledge(ended, ns, source("c.md"), contentOf("c"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, k.PutKnowledgeContent(ended, ns, begun.Newest(), "digest", store.KnowledgeContent{}), context.Canceled)
	require.ErrorIs(t, k.AddChunks(ended, ns, begun.Newest(), passages("late")), context.Canceled)
	require.ErrorIs(t, k.AddContexts(ended, ns, begun.Newest(), contexts("late")), context.Canceled)
	_, err = k.FinishKnowledge(ended, ns, begun.Newest(), store.KnowledgeFinish{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, k.DeleteKnowledge(ended, ns, d.ID), context.Canceled)
	require.ErrorIs(t, k.DropVectors(ended, ns, embedder), context.Canceled)
	_, err = k.KnowledgeDocument(ended, ns, d.ID)
	require.ErrorIs(t, err, context.Canceled)
	_, err = k.SearchText(ended, ns, "apple", store.KnowledgeScope{})
	require.ErrorIs(t, err, context.Canceled)
	if k.HasVectors() {
		require.ErrorIs(t, k.AddVectors(ended, ns, embedder, []store.KnowledgeVector{vectorOf(d.Newest(), 0, 1)}), context.Canceled)
		_, err = k.SearchVectors(ended, ns, embedder, []float32{1}, store.KnowledgeScope{})
		require.ErrorIs(t, err, context.Canceled)
	}
	all, err := k.KnowledgeDocuments(t.Context(), ns, store.KnowledgePage{})
	require.NoError(t, err)
	require.Equal(t, []store.KnowledgeDocument{d, begun}, all)
	require.Empty(t, chunksOf(t, k, ns, begun.Newest()))
	require.Equal(t, []string{"apple"}, finds(t, k, ns, "apple"))
}

func testKnowledgeOddNames(t *testing.T, k store.Knowledge) {
	d := learn(t, k, ns, source("a.md"), "apple")
	for _, odd := range []string{"", "\x00", "\xff", d.ID + "\x00"} {
		theirs := d
		theirs.ID = odd
		requireNothing(t, k, odd, d)
		_, err := k.KnowledgeDocument(t.Context(), ns, odd)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = k.KnowledgeContent(t.Context(), ns, theirs.Newest())
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Empty(t, chunksOf(t, k, ns, theirs.Newest()))
		requireSuperseded(t, k, ns, theirs.Newest())
		requireSuperseded(t, k, odd, d.Newest())
		require.ErrorIs(t, k.DeleteKnowledge(t.Context(), ns, odd), store.ErrNotFound)
		require.ErrorIs(t, k.DeleteKnowledge(t.Context(), odd, d.ID), store.ErrNotFound)
		require.NoError(t, k.DropVectors(t.Context(), ns, odd))
		require.NoError(t, k.DropVectors(t.Context(), odd, embedder))
		require.Equal(t, []string{"apple"}, missing(t, k, ns, store.KnowledgeRevision{}, odd))
		found, err := k.KnowledgeDocuments(t.Context(), odd, store.KnowledgePage{})
		require.NoError(t, err)
		require.Empty(t, found)
		if odd != "" {
			found, err = k.KnowledgeDocuments(t.Context(), ns, store.KnowledgePage{Collection: odd})
			require.NoError(t, err)
			require.Empty(t, found)
			found, err = k.KnowledgeDocuments(t.Context(), ns, store.KnowledgePage{Status: store.KnowledgeStatus(odd)})
			require.NoError(t, err)
			require.Empty(t, found)
		}
		if k.HasVectors() {
			addVectors(t, k, odd, embedder, vectorOf(d.Newest(), 0, 1))
			addVectors(t, k, ns, embedder, vectorOf(theirs.Newest(), 0, 1))
			hits, err := k.SearchVectors(t.Context(), ns, odd, []float32{1}, store.KnowledgeScope{})
			require.NoError(t, err)
			require.Empty(t, hits)
		}
	}
	_, err := k.KnowledgeDocuments(t.Context(), ns, store.KnowledgePage{AfterCollection: "\x00", AfterSource: "\xff"})
	require.NoError(t, err)
	require.Equal(t, d, document1(t, k, ns, d.ID))
}

func testKnowledgeIndex(t *testing.T, k store.Knowledge) {
	require.Equal(t, store.KnowledgeIndex{Embedders: []store.KnowledgeEmbedder{}}, index(t, k, ns))
	one := learn(t, k, ns, source("a.md"), "a", "b", "c")
	learn(t, k, ns, source("b.md"), "d")
	processed := beginKnowledge(t, k, ns, source("b.md"), contentOf("next"))
	addChunks(t, k, ns, processed.Newest(), "e", "f")
	require.Equal(t, store.KnowledgeIndex{Documents: 2, Chunks: 4, Embedders: []store.KnowledgeEmbedder{}}, index(t, k, ns))
	if !k.HasVectors() {
		return
	}
	addVectors(t, k, ns, "z/2", vectorOf(one.Newest(), 0, 1, 0, 0), vectorOf(one.Newest(), 2, 1, 0, 0))
	addVectors(t, k, ns, "a/1", vectorOf(one.Newest(), 1, 1, 0))
	addVectors(t, k, ns, "a/1", vectorOf(processed.Newest(), 1, 1, 0))
	addVectors(t, k, ns, "m/3", vectorOf(processed.Newest(), 1, 1, 0))
	want := store.KnowledgeIndex{Documents: 2, Chunks: 4, Embedders: []store.KnowledgeEmbedder{
		{Name: "a/1", Dimension: 2, Chunks: 1}, {Name: "z/2", Dimension: 3, Chunks: 2},
	}}
	require.Equal(t, want, index(t, k, ns), "by name, of what is visible")
	finishKnowledge(t, k, ns, processed.Newest(), store.KnowledgeFinish{})
	want = store.KnowledgeIndex{Documents: 2, Chunks: 5, Embedders: []store.KnowledgeEmbedder{
		{Name: "a/1", Dimension: 2, Chunks: 2}, {Name: "m/3", Dimension: 2, Chunks: 1}, {Name: "z/2", Dimension: 3, Chunks: 2},
	}}
	require.Equal(t, want, index(t, k, ns))
}
