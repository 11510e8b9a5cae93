package knowledge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// words counts words, and long ones by their bytes, as tokenizers do.
func words(text string) int {
	n := 0
	for word := range strings.FieldsSeq(text) {
		n += 1 + len(word)/10
	}
	return n
}

// numbered returns n words.
func numbered(prefix string, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return strings.Join(out, " ")
}

func TestSplit(t *testing.T) {
	ten := Splitter{Size: 10, Overlap: 2, Count: words}
	for _, c := range []struct {
		name     string
		splitter Splitter
		blocks   []Block
		want     []Chunk
	}{
		{"nothing", ten, []Block{{Text: " \n"}, {Level: 1, Text: ""}}, nil},
		{"one block", ten, []Block{{Text: " one two ", Page: 3}}, []Chunk{{Text: "one two", Page: 3, Tokens: 2}}},
		{
			"a section with its path", ten,
			[]Block{{Level: 1, Text: "Guide"}, {Level: 2, Text: "Install"}, {Text: "one two"}},
			[]Chunk{{Text: "one two", Path: []string{"Guide", "Install"}, Tokens: 2}},
		},
		{
			"small sections together, with their headings",
			Splitter{Size: 16, Overlap: -1, Count: words},
			[]Block{{Level: 1, Text: "Guide"}, {Level: 2, Text: "A"}, {Text: "one"}, {Level: 2, Text: "B"}, {Text: "two"}},
			[]Chunk{{Text: "A\n\none\n\nB\n\ntwo", Path: []string{"Guide"}, Tokens: 4}},
		},
		{
			"a section that is large enough ends its chunk", ten,
			[]Block{{Level: 1, Text: "A"}, {Text: "1 2 3 4 5"}, {Level: 1, Text: "B"}, {Text: "6"}},
			[]Chunk{{Text: "1 2 3 4 5", Path: []string{"A"}, Tokens: 5}, {Text: "6", Path: []string{"B"}, Tokens: 1}},
		},
		{
			"a long section overlaps", ten,
			[]Block{{Level: 1, Text: "A"}, {Text: numbered("", 12)}},
			[]Chunk{{Text: "0 1 2 3 4 5 6 7", Path: []string{"A"}, Tokens: 8}, {Text: "6 7\n\n8 9 10 11", Overlap: 3, Path: []string{"A"}, Tokens: 6}},
		},
		{
			"sentences stay whole",
			Splitter{Size: 6, Overlap: -1, Count: words},
			[]Block{{Text: "One two three. Four five six. Seven eight."}},
			[]Chunk{{Text: "One two three. Four five six.", Tokens: 6}, {Text: "Seven eight.", Tokens: 2}},
		},
		{
			"headings without text are text",
			Splitter{Size: 20, Count: words},
			[]Block{{Level: 1, Text: "A"}, {Level: 1, Text: "B"}, {Text: "one"}, {Level: 2, Text: "C"}},
			[]Chunk{{Text: "A\n\nB\n\none\n\nC", Path: []string{}, Tokens: 4}},
		},
		{
			"a text without spaces",
			Splitter{Size: 4, Overlap: -1, Count: func(s string) int { return len(s) }},
			[]Block{{Text: "äöüß"}},
			[]Chunk{{Text: "äö", Tokens: 4}, {Text: "üß", Tokens: 4}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.splitter.Split(c.blocks)
			for i := range got {
				if len(got[i].Path) == 0 && i < len(c.want) {
					got[i].Path = c.want[i].Path
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestSplitLosesNothing splits documents of any form: all words are in the chunks, once and in order, and no chunk is
// larger than permitted.
func TestSplitLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := Splitter{Size: 24 + r.IntN(60), Overlap: r.IntN(20) - 1, Count: words}
		var blocks []Block
		var want []string
		for i := range r.IntN(12) {
			b := Block{Level: max(0, r.IntN(9)-4), Text: numbered(fmt.Sprintf("w%d.", i), 1+r.IntN(1+r.IntN(120)))}
			if b.Level == 0 && r.IntN(5) == 0 {
				b.Text += " "
				for range r.IntN(2000) {
					b.Text += string(rune('a' + r.IntN(26)))
				}
			}
			b.Text = strings.Map(func(c rune) rune {
				if unicode.IsSpace(c) {
					return []rune(" \n")[r.IntN(2)]
				}
				return c
			}, b.Text)
			blocks = append(blocks, b)
			want = append(want, strings.Fields(b.Text)...)
		}
		var got []string
		var above []string
		for i, c := range s.Split(blocks) {
			require.LessOrEqual(t, c.Tokens, s.Size, "seed %d", seed)
			require.Equal(t, words(c.Text), c.Tokens)
			require.Less(t, c.Overlap, len(c.Text))
			if c.Overlap > 0 {
				require.True(t, strings.HasSuffix(strings.Join(got, " "), strings.Join(strings.Fields(c.Text[:c.Overlap]), " ")), "seed %d, chunk %d", seed, i)
			}
			same := len(common(above, c.Path))
			got = append(got, strings.Fields(strings.Join(c.Path[same:], " "))...)
			above = c.Path
			got = append(got, strings.Fields(c.Text[c.Overlap:])...)
		}
		// Headings of an earlier chunk are repeated where a passage without them comes first.
		requireSame(t, seed, strings.Join(unique(want), ""), strings.Join(unique(got), ""))
	}
}

func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range list {
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// TestSplitBoundsWork splits what tokenizers are slow for.
func TestSplitBoundsWork(t *testing.T) {
	t.Parallel()
	longest := 0
	s := Splitter{Count: func(text string) int {
		longest = max(longest, len(text))
		return words(text)
	}}
	chunks := s.Split([]Block{{Text: strings.Repeat("x", 1<<20)}, {Level: 1, Text: strings.Repeat("long heading ", 1<<14)}})
	require.NotEmpty(t, chunks)
	require.LessOrEqual(t, longest, DefaultSize*MaxCounted)
}

// requireSame shows where two long texts begin to differ.
func requireSame(t *testing.T, seed uint64, want, got string) {
	t.Helper()
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, min(i-30, len(s))):min(len(s), i+60)] }
	require.Equal(t, cut(want), cut(got), "seed %d, from byte %d", seed, i)
}
