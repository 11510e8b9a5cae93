package sqlstore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// unspaced are the scripts that are written without spaces between words, and Hangul, whose words carry their endings.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
}

// TextWords returns the words of a text that a full-text index keeps, separated by spaces: without case, width, accents and
// signs. A text without spaces between words has each two neighbouring letters as a word, which needs no dictionary, and each
// Chinese character, which can be a word by itself. Letters are neighbours beyond the end of a line and the spaces of a line that
// was spread out, as in PDFs.
func TextWords(text string) string { return words(text, true) }

// QueryWords is [TextWords] for what is searched: of neighbouring letters, both have to be there, and spaces part words.
func QueryWords(query string) string { return words(query, false) }

func words(text string, indexed bool) string {
	var out strings.Builder
	var run []string // letters of an unspaced text, with their marks
	begin := 0       // of the letters after the last space
	end := func() {
		for i, letter := range run {
			if i == begin && len(run) == begin+1 || indexed && is(unicode.Han, letter) {
				out.WriteString(" " + letter)
			}
			if i > 0 {
				out.WriteString(" " + run[i-1] + letter)
			}
		}
		if len(run) > 0 {
			out.WriteByte(' ')
		}
		run, begin = run[:0], 0
	}
	for _, r := range plain(text) {
		switch {
		case unicode.IsMark(r) && len(run) > 0:
			run[len(run)-1] += string(r)
			continue
		case unicode.IsLetter(r) && unicode.In(r, unspaced...), r == 'ー' && len(run) > 0:
			run = append(run, string(r))
			continue
		case indexed && unicode.IsSpace(r) && len(run) > 0 && !is(unicode.Hangul, run[len(run)-1]):
			if len(run) == begin+1 && !is(unicode.Han, run[begin]) {
				out.WriteString(" " + run[begin] + " ")
			}
			begin = len(run)
			continue
		}
		end()
		if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) {
			out.WriteRune(r)
		} else {
			out.WriteByte(' ')
		}
	}
	end()
	return out.String()
}

// is reports whether a letter with its marks is one of a script.
func is(script *unicode.RangeTable, letter string) bool {
	r, _ := utf8.DecodeRuneInString(letter)
	return unicode.Is(script, r)
}

// plain returns a text in the form in which what looks alike is alike.
func plain(text string) string {
	return cases.Fold().String(norm.NFC.String(strings.Map(func(r rune) rune {
		if r >= '\u0300' && r <= '\u036f' { // accents; marks of other scripts are vowels
			return -1
		}
		return r
	}, norm.NFKD.String(text))))
}
