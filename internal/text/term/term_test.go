package term_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/text/term"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\tb":                       "a\n\tb",
		"a\r\nb":                       "a\nb",
		"100%\rdone":                   `100%\u000ddone`,
		"ab\b\bcd":                     `ab\u0008\u0008cd`,
		"\x1b[2J\x1b]0;t\x07":          `\u001b[2J\u001b]0;t\u0007`,
		"\u009b2J\u0085\x7f":           `\u009b2J\u0085\u007f`,
		"a\x9bb\xe2\x80":               "a\ufffdb\ufffd\ufffd",
		"rm \u202e\u2066x\u200f\u061c": `rm \u202e\u2066x\u200f\u061c`,
		"ann\u200b\u2060\ufeff\u00ad":  `ann\u200b\u2060\ufeff\u00ad`,
		"ann\u200d\ufe0f\u034f\u3164":  `ann\u200d\ufe0f\u034f\u3164`,
		"x\U000e0041\u2028\u2800":      `x\udb40\udc41\u2028\u2800`,
		"❤\ufe0f\u200d🔥 1\ufe0f\u20e3": "❤\ufe0f\u200d🔥 1\ufe0f\u20e3",
		"می\u200cخواهم é 日本 👩\u200d👧":      "می\u200cخواهم é 日本 👩\u200d👧",
		"👩\u200d\u200d\u200d❤\ufe0f\ufe0f": "👩\u200d\\u200d\\u200d❤\ufe0f\\ufe0f",
	} {
		require.Equal(t, want, term.Escape(text), "%q", text)
	}
	require.Equal(t, `a b  c d\u200d\u0000`, term.Line("a\nb\r\nc\td\u200d\x00"))
}

// TestEscapeEverything: of all characters none is left that controls or hides.
func TestEscapeEverything(t *testing.T) {
	for c := rune(0); c <= unicode.MaxRune; c++ {
		got := term.Escape("n" + string(c) + "n")
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Variation_Selector) && c != '\n' && c != '\t' {
			if strings.ContainsRune(got, c) {
				require.Fail(t, "it remains", "%U", c)
			}
		}
		if line := term.Line("n" + string(c) + "n"); got != line && !unicode.IsSpace(c) {
			require.Equal(t, got, line, "%U", c)
		}
	}
}

// TestEscapeKeepsJSON: the escapes mean the same in JSON.
func TestEscapeKeepsJSON(t *testing.T) {
	given := map[string]string{"a\u202e": "\x7f\u0085\u200b\U000e0041\x1b\r\n❤\ufe0f"}
	var raw strings.Builder
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(given))
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(term.Escape(raw.String())), &got))
	require.Equal(t, given, got)
}

func TestWriter(t *testing.T) {
	text := term.Text{{term.Red, "no\x1b[2J"}, {term.Plain, "\r\n"}}
	for color, want := range map[bool]string{false: `no\u001b[2J` + "\n", true: "\x1b[31mno\\u001b[2J\x1b[0m\n"} {
		var out strings.Builder
		require.NoError(t, term.New(&out, color).Print(text))
		require.Equal(t, want, out.String())
	}
	t.Run("in pieces", func(t *testing.T) {
		var out strings.Builder
		w := term.New(&out, true)
		for _, piece := range []string{"\x1b", "[2J", "\xe2\x80", "\xae", "👩", "\u200d👧"} {
			_, err := w.Write([]byte(piece))
			require.NoError(t, err)
		}
		require.Equal(t, "\\u001b[2J\ufffd\ufffd\ufffd👩\u200d👧", out.String())
	})
}
