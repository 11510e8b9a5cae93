package knowledge

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// manual are chunks whose tokens are their words.
func manual() []Chunk {
	chunks := []Chunk{
		{Text: "one two three four", Path: []string{"Manual"}},
		{Text: "three four five six", Overlap: len("three four "), Path: []string{"Manual", "Stones"}},
		{Text: "seven eight", Path: []string{"Manual", "Stones"}},
		{Text: "nine ten", Path: []string{"Manual", "Water", "Summer"}},
	}
	for i := range chunks {
		chunks[i].Tokens = len(strings.Fields(chunks[i].Text))
	}
	return chunks
}

func TestWhole(t *testing.T) {
	t.Parallel()
	text, ok := Whole(manual())
	require.True(t, ok)
	require.Equal(t, "# Manual\n\none two three four\n\n# Manual > Stones\n\nfive six\n\nseven eight\n\n# Manual > Water > Summer\n\nnine ten", text)
	_, ok = Whole([]Chunk{{Text: "x", Tokens: WholeTokens}, {Text: "y", Tokens: 1}})
	require.False(t, ok)
	text, ok = Whole(nil)
	require.True(t, ok)
	require.Empty(t, text)
}

func TestBeginningAndEnd(t *testing.T) {
	t.Parallel()
	require.Equal(t, "# Manual\n\none two t", Beginning(manual(), 2), "by its share of the tokens")
	require.Equal(t, "# Manual\n\none two three four", Beginning(manual(), 4))
	require.Empty(t, Beginning(manual(), 0))
	require.Equal(t, "nine ten", End(manual(), 2))
	require.Equal(t, "seven eight\n\nnine ten", End(manual(), 4))
	require.Equal(t, "six\n\nseven eight\n\nnine ten", End(manual(), 6))
	require.Empty(t, End(nil, 10))
	foreign := []Chunk{{Text: strings.Repeat("漢字", 100), Tokens: 200}}
	for limit := range 200 {
		head, tail := Beginning(foreign, limit), End(foreign, limit)
		require.True(t, utf8.ValidString(head) && utf8.ValidString(tail), "characters stay whole")
		require.LessOrEqual(t, utf8.RuneCountInString(head), limit)
	}
}

func TestOutline(t *testing.T) {
	t.Parallel()
	require.Equal(t, "- Manual\n  - Stones\n  - Water\n    - Summer\n", Outline(manual(), 100))
	require.Equal(t, "- Manual\n", Outline(manual(), 3))
	require.Empty(t, Outline(nil, 100))
}
