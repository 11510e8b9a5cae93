package render

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/store"
)

// TestPassages says by what a passage was found, and shows its context beside its text.
func TestPassages(t *testing.T) {
	score := 0.12345
	require.Equal(t, `1. a.md
   rank 2 by words, rank 1 by the reranking model (0.123)
   context: About a mill.
   It has two stones.

2. b.md
   rank 1 by vectors, rank 2 by the reranking model
   Another.
`, Passages([]event.Passage{
		{Source: "a.md", Text: "It has two\nstones.", Context: "About a mill.", TextRank: 2, RerankRank: 1, RerankScore: &score},
		{Source: "b.md", Text: "Another.", VectorRank: 1, RerankRank: 2},
	}, TableOptions{}))
}

// TestDocumentContexts: what a model has written cannot be taken for the text of a document, and does not reach the terminal.
func TestDocumentContexts(t *testing.T) {
	shown := Document(store.KnowledgeDocument{ID: "d"}, []api.Chunk{{Text: "It has two stones.", Tokens: 4, Context: "About\x1b[2J a mill."}}, false, TableOptions{})
	require.Contains(t, shown, "   It has two stones.\n")
	require.Regexp(t, `(?m)^   context: About.* a mill\.$`, shown)
	require.NotContains(t, shown, "\x1b")
}
