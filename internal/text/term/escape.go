package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape replaces what a terminal obeys, and what cannot be seen, by the escapes of JSON:
// JSON thus keeps its meaning. Line feeds and tabs remain, and so do characters that shape
// the one before them, as in emoji.
func Escape(text string) string {
	var e escaper
	return e.escape(text)
}

// Line is [Escape] for text that must stay on one line: white space becomes a space, and
// no invisible character remains.
func Line(text string) string {
	var out strings.Builder
	for _, c := range text {
		switch {
		case c == '\n' || c == '\r' || c == '\t':
			out.WriteByte(' ')
		case hidden(c):
			writeEscape(&out, c)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// escaper remembers the last character between the pieces of a text.
type escaper struct{ last rune }

func (e *escaper) escape(text string) string {
	var out strings.Builder
	for i, c := range text {
		switch {
		case c == '\n' || c == '\t':
			out.WriteRune(c)
		case c == '\r' && strings.HasPrefix(text[i+1:], "\n"):
		case hidden(c) && !shapes(e.last, c):
			writeEscape(&out, c)
		default:
			out.WriteRune(c) // an invalid byte is the replacement character
		}
		e.last = c
	}
	return out.String()
}

// hidden reports characters that control a terminal, or that nobody can see.
func hidden(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		c == '\u2800' // a braille pattern without dots
}

const (
	nonJoiner  = '\u200c'
	joiner     = '\u200d'
	textStyle  = '\ufe0e'
	emojiStyle = '\ufe0f'
)

// shapes reports whether c is part of the character before it: emoji have joiners and
// styles, and several scripts are not written without joiners.
func shapes(last, c rune) bool {
	switch c {
	case textStyle, emojiStyle:
		return last >= '\u2000' && !hidden(last) || strings.ContainsRune("0123456789#*©®", last)
	case joiner, nonJoiner:
		return last >= firstWithJoiners && !hidden(last) || last == emojiStyle
	}
	return false
}

// firstWithJoiners is where the scripts end that never join: Latin, Greek, Cyrillic.
const firstWithJoiners = '\u0590'

func writeEscape(out *strings.Builder, c rune) {
	if utf8.RuneLen(c) < 4 {
		fmt.Fprintf(out, `\u%04x`, c)
		return
	}
	high, low := utf16.EncodeRune(c)
	fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
}
