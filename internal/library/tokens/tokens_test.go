package tokens

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/library/knowledge"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "hello world": 2, "Grüße aus Ulm": 6, "a\n\nb": 3} {
		require.Equal(t, want, Count(text), text)
	}
	require.Positive(t, Count("\xff\xfe"))
}

// TestSplit splits with real tokens.
func TestSplit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("The mill has two stones. ", 2000), strings.Repeat("x", 20_000), strings.Repeat("漢字", 5000), strings.Repeat(" ", 5000) + "end"} {
		chunks := knowledge.Splitter{Count: Count}.Split([]knowledge.Block{{Text: text}})
		require.NotEmpty(t, chunks)
		for _, c := range chunks {
			require.LessOrEqual(t, c.Tokens, knowledge.DefaultSize)
		}
	}
}
