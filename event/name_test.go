package event

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{
		"ann", "Ann Lee", "o'neil-smith", "ann@example.com", "ops/bot #7", "André", "Nguyễn", "李小龍", "김철수", "Δημήτρης",
		"Анна", "محمد", "אנה", "राम", "ราม", "がく", "🙂", strings.Repeat("a", MaxName),
	} {
		require.NoError(t, ValidateName("by", name), "%q", name)
	}
	for name, problem := range map[string]string{
		"":                             "by: is required",
		strings.Repeat("a", MaxName+1): "by: is 201 bytes long, must be at most 200",
		"ann\xff":                      "by: is not UTF-8 text",
		" ann":                         "begins with a space",
		"ann ":                         "ends with a space",
		" ":                            "begins with a space",
		"ann  lee":                     "two spaces in a row",
		"ann\tlee":                     "contains U+0009, white space",
		"ann\n":                        "contains U+000A",
		"ann\u00a0lee":                 "contains U+00A0, white space",
		"ann\u3000lee":                 "contains U+3000, white space",
		"ann\u2028":                    "contains U+2028",
		"ann\u2029":                    "contains U+2029",
		"ann\x00":                      "contains U+0000, which cannot be seen: remove it",
		"ann\x1b[2J":                   "contains U+001B",
		"ann\u0085":                    "contains U+0085",
		"ann\u200b":                    "contains U+200B, which cannot be seen: remove it",
		"ann\u200d":                    "contains U+200D",
		"ann\u2060":                    "contains U+2060",
		"ann\ufeff":                    "contains U+FEFF",
		"ann\u00ad":                    "contains U+00AD",
		"ann\u202e":                    "contains U+202E",
		"ann\u2066":                    "contains U+2066",
		"ann\u200f":                    "contains U+200F",
		"ann\ufe0f":                    "contains U+FE0F",
		"ann\U000E0100":                "contains U+E0100",
		"ann\U000E0041":                "contains U+E0041",
		"ann\u034f":                    "contains U+034F",
		"ann\u115f":                    "contains U+115F",
		"ann\u3164":                    "contains U+3164",
		"ann\uffa0":                    "contains U+FFA0",
		"ann\u180e":                    "contains U+180E",
		"ann\u2800":                    "contains U+2800",
		"ann\ue000":                    "contains U+E000",
		"ann\u0378":                    "contains U+0378",
		"ann\ufffd":                    "contains U+FFFD",
		"Andre\u0301":                  "contains U+0301, a separate combining mark: write the letter and its mark as one character (Unicode NFC)",
		"\u1100\u1161":                 "contains U+1100",
		"か\u3099く":                     "contains U+3099",
		"\uff41nn":                     "contains U+FF41, another form of an ordinary character: write that one (Unicode NFKC)",
		"\U0001D41Ann":                 "contains U+1D41A",
		"\u212bke":                     "contains U+212B",
		"\ufb01nn":                     "contains U+FB01",
	} {
		err := ValidateName("by", name)
		require.ErrorIs(t, err, ErrInvalid, "%q", name)
		require.ErrorContains(t, err, problem, "%q", name)
	}
}

// TestCheckNameKnowsAllThatIsInvisible checks the characters of every invisible class of Unicode.
func TestCheckNameKnowsAllThatIsInvisible(t *testing.T) {
	for _, class := range invisible {
		for r := rune(0); r <= 0x10FFFF; r++ {
			if class.has(r) {
				require.Error(t, ValidateName("by", fmt.Sprintf("ann%clee", r)), "%s: %U", class.name, r)
			}
		}
	}
}

func TestCheckLineAndText(t *testing.T) {
	for _, s := range []string{"", " a title ", "\U0001F469\u200d\U0001F467 \u2764\ufe0f", "می\u200cخواهم", "e\u0301", "שלום\u200e!", "ﬁne"} {
		require.NoError(t, ValidateLine("title", s), "%q", s)
		require.NoError(t, ValidateText("reason", s), "%q", s)
	}
	require.NoError(t, ValidateText("reason", "a\n\tb\r\n"))
	require.ErrorContains(t, ValidateLine("title", "a\nb"), "title: contains U+000A, a control character: remove it")
	for s, problem := range map[string]string{
		"a\x1b[2J": "U+001B", "a\x07": "U+0007", "a\u009b": "U+009B", "a\u202e": "U+202E, which changes the direction", "a\u2067": "U+2067",
		"a\u2028": "U+2028", "a\xff": "not UTF-8", "a\U000E0041": "U+E0041", "a\ue000": "U+E000",
	} {
		require.ErrorContains(t, ValidateLine("title", s), problem, "%q", s)
		require.ErrorContains(t, ValidateText("reason", s), problem, "%q", s)
	}
}

func TestCleanLine(t *testing.T) {
	for s, want := range map[string]string{
		"a title": "a title", " a\n\tb\x1b[2Jc ": "a b [2Jc", "a\u202eb\u2028c\xff": "ab c", "\U000E0041\u0000": "", "שלום\u200e!": "שלום\u200e!",
	} {
		require.Equal(t, want, CleanLine(s))
		require.NoError(t, ValidateLine("title", want))
	}
}

func TestShortLine(t *testing.T) {
	for s, want := range map[string]string{
		" a\n title\u202e": "a title", "seven77": "seven77", "eight888": "eight88…", "aaaaaaé": "aaaaaa…", " \u200b ": "",
	} {
		require.Equal(t, want, ShortLine(s, 7))
	}
}

func TestBlank(t *testing.T) {
	for _, s := range []string{"", " ", "\n\t\r", "\u00a0\u3000", "\u200b\u200d\ufeff", "\u2800", "\u3164", "\U000E0041", "\x00", "\u202e \u2028"} {
		require.True(t, Blank(s), "%q", s)
	}
	for _, s := range []string{"a", " . ", "\u200ba", "🙂", "0", "\u0301"} {
		require.False(t, Blank(s), "%q", s)
	}
}

var invisible = []struct {
	name string
	has  func(rune) bool
}{
	{"not a character", func(r rune) bool { return !unicode.IsGraphic(r) }},
	{"white space", func(r rune) bool { return unicode.IsSpace(r) && r != ' ' }},
	{"default ignorable", func(r rune) bool {
		return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf)
	}},
}
