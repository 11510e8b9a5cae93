package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// contexts are contexts of chunks, from the first one on.
func contexts(texts ...string) []store.KnowledgeContext {
	out := make([]store.KnowledgeContext, len(texts))
	for i, text := range texts {
		out[i] = store.KnowledgeContext{Index: i, Context: text}
	}
	return out
}

// testKnowledgeContexts: a context that comes later is like one that a chunk began with.
func testKnowledgeContexts(t *testing.T, k store.Knowledge) {
	chunks := passages("one text about stones", "another text", "third")
	for i := range chunks {
		chunks[i].Path = []string{"Mills", "Stones"}
	}
	filled := passages("one text about stones", "another text", "third")
	for i, c := range []string{"of the gardens in spring, and of stones", "odd \xff", ""} {
		filled[i].Path, filled[i].Context = chunks[i].Path, c
	}
	const filledNamespace = "filled"
	want := beginKnowledge(t, k, filledNamespace, source("a.md"), contentOf("one"))
	require.NoError(t, k.AddChunks(t.Context(), filledNamespace, want.Newest(), filled))
	finishKnowledge(t, k, filledNamespace, want.Newest(), store.KnowledgeFinish{})

	visible := learn(t, k, ns, source("b.md"), "visible")
	require.NoError(t, k.AddContexts(t.Context(), ns, visible.Newest(), contexts("winter")), "what is finished changes no more")
	require.Empty(t, finds(t, k, ns, "winter"))
	require.NoError(t, k.DeleteKnowledge(t.Context(), ns, visible.ID))

	d := beginKnowledge(t, k, ns, source("a.md"), contentOf("one"))
	r := d.Newest()
	require.NoError(t, k.AddChunks(t.Context(), ns, r, chunks))
	require.NoError(t, k.AddContexts(t.Context(), ns, r, nil))
	require.NoError(t, k.AddContexts(t.Context(), ns, r, contexts(filled[0].Context, "")))
	again := append(contexts("changed", filled[1].Context), store.KnowledgeContext{Index: 3, Context: "of no chunk"}, store.KnowledgeContext{Index: -1})
	require.NoError(t, k.AddContexts(t.Context(), ns, r, again))
	require.Empty(t, finds(t, k, ns, "gardens"), "it is not finished")
	finishKnowledge(t, k, ns, r, store.KnowledgeFinish{})
	require.Equal(t, chunksOf(t, k, filledNamespace, want.Newest()), chunksOf(t, k, ns, r))
	for _, query := range []string{"garden", "stones", "odd", "text", "mills", "changed", "no chunk"} {
		require.ElementsMatch(t, finds(t, k, filledNamespace, query), finds(t, k, ns, query), "%q", query)
	}
	require.Equal(t, []string{"one text about stones"}, finds(t, k, ns, "garden"))
	require.Len(t, searchText(t, k, ns, "garden", store.KnowledgeScope{Collections: []string{"books"}}), 1)

	next := beginKnowledge(t, k, ns, source("a.md"), contentOf("two"))
	addChunks(t, k, ns, next.Newest(), "pear")
	require.NoError(t, k.AddContexts(t.Context(), ns, next.Newest(), contexts("winter")))
	finishKnowledge(t, k, ns, next.Newest(), store.KnowledgeFinish{})
	require.Empty(t, finds(t, k, ns, "garden"), "it has gone with its chunk")
	require.Equal(t, []string{"pear"}, finds(t, k, ns, "winter"))
	require.Equal(t, "pear", chunksOf(t, k, ns, next.Newest())[0].Text)
}
