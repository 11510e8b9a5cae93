package redact

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the pattern, a stream shows what the text as a whole becomes.
func TestStreamOfAnyPattern(t *testing.T) {
	for _, expression := range []string{
		`(?i)abc`, `(?m)^a+$`, `(?m)^ab`, `ab|bc`, `abc|b`, `a|ab|abc`, `a{2,4}b?`, `a+?b`, `a.*?c`, `(?s)a.*?c`, `\bab\b`, `\Ba+\B`, `^ab`, `ab$`, `a\z`, `(?:ab)+c`, `a(?:b|c)*d`,
		`[^a]b`, `(?i)[a-c]d`, `é+a`, `(?:^|\s)a`, `a(?:$|\s)`, `aba`, `(?i)k`, `a??b`, `(?:a|b)*?c`, `a\n`, `.b`, `ba*b`, `\b\w{3}\b`,
	} {
		r, err := New(Config{Patterns: []Pattern{{Name: "zz", Expression: expression}}})
		if err != nil {
			require.ErrorContains(t, err, "redacted text would change again")
			continue
		}
		two, err := New(Config{Patterns: []Pattern{{Name: "zz", Expression: expression}, {Name: "yy", Expression: `c[bd]`}}})
		require.NoError(t, err)
		letters := []string{"a", "b", "c", "d", "A", "B", " ", "\n", "é", "\xff", "\u212a"}
		random := rand.New(rand.NewPCG(1, 7))
		for range 6000 {
			var whole strings.Builder
			for range random.IntN(10) {
				whole.WriteString(letters[random.IntN(len(letters))])
			}
			text := whole.String()
			for _, r := range []*Redactor{r, two} {
				s := r.Stream()
				var got strings.Builder
				for rest := text; rest != ""; {
					n := 1 + random.IntN(min(len(rest), 3))
					got.WriteString(s.Write(rest[:n]))
					rest = rest[n:]
				}
				got.WriteString(s.Flush())
				require.Equal(t, r.plain(text), got.String(), "%s: %q", expression, text)
			}
		}
	}
}

// counting matches nothing, holds everything back, and counts what it searches.
type counting struct{ searched *int }

func (counting) find(string, int) [][]int { return nil }
func (c counting) open(text string, from int) int {
	*c.searched += len(text)
	return from
}
func (counting) behind(match []int) int { return match[1] }

func TestStreamOfLongWordIsNotQuadratic(t *testing.T) {
	searched := 0
	r := &Redactor{patterns: []namedMatcher{{counting{&searched}, 0, "[x]"}}}
	s := r.Stream()
	const pieces = 20_000
	for range pieces {
		s.Write("abcd")
	}
	require.Len(t, s.Flush(), 4*pieces)
	require.Less(t, searched, 10*4*pieces)
}

// Of a line of numbers, a stream holds only what may become a card, even if the cards overlap without end.
func TestStreamOfNumbers(t *testing.T) {
	r, err := New(Config{Patterns: []Pattern{Cards()}})
	require.NoError(t, err)
	for name, line := range map[string]string{
		"one long number": "123456789", "numbers": "1024 77 ", "what begins like cards": "4000000000000000003 ", "cards": "4111 1111 1111 1111 ",
		"overlapping cards": "4 ", "wide separators": "4\u2003", "no separator": "4.", "hyphens": "9-",
	} {
		t.Run(name, func(t *testing.T) {
			whole := strings.Repeat(line, 300)
			s := r.Stream()
			var got strings.Builder
			for i := range len(whole) {
				got.WriteString(s.Write(whole[i : i+1]))
				require.LessOrEqual(t, len(s.text), maxContext+maxCard*len("4\u2003"), "after %d bytes", i)
			}
			require.NotEmpty(t, got.String(), "nothing was shown before the end")
			got.WriteString(s.Flush())
			require.Equal(t, r.plain(whole), got.String())
		})
	}
	s := r.Stream()
	require.Equal(t, "1024 77 1024 77 ", s.Write("1024 77 1024 77 "), "no card begins like that")
}
