package event

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the maximum length of a name, in bytes.
const MaxName = 200

// ValidateName reports, as a [*FieldError], why s is not a valid name of a person or a thing: the
// sender of a message, an approver, an agent, a tool, an API key. Names that look the same must be
// the same, so a name has no invisible characters, no white space except single spaces between
// words, and its letters are composed (NFC) and of ordinary width. Similar letters of different
// scripts remain different: only an authenticated name proves an identity.
//
// An empty name is an error; the caller decides whether a name is optional.
func ValidateName(field, s string) error {
	switch {
	case s == "":
		return FieldErrorf(field, "is required")
	case len(s) > MaxName:
		return FieldErrorf(field, "is %d bytes long, must be at most %d", len(s), MaxName)
	case !utf8.ValidString(s):
		return FieldErrorf(field, "is not UTF-8 text")
	}
	last := ' '
	for i, r := range s {
		switch {
		case r == ' ' && i == 0:
			return FieldErrorf(field, "begins with a space: remove it")
		case r == ' ' && last == ' ':
			return FieldErrorf(field, "has two spaces in a row: keep one of them")
		case r == ' ':
		case unicode.IsSpace(r):
			return FieldErrorf(field, "contains %U, white space: a name has single spaces only", r)
		case !visible(r) || r == utf8.RuneError:
			return FieldErrorf(field, "contains %U, which cannot be seen: remove it", r)
		case unicode.Is(composable, r):
			return FieldErrorf(field, "contains %U, a separate combining mark: write the letter and its mark as one character (Unicode NFC)", r)
		case unicode.Is(compatibility, r):
			return FieldErrorf(field, "contains %U, another form of an ordinary character: write that one (Unicode NFKC)", r)
		}
		last = r
	}
	if last == ' ' {
		return FieldErrorf(field, "ends with a space: remove it")
	}
	return nil
}

// anonymous are the names that Threadmill uses itself, or for senders without a name.
var anonymous = []string{"system", "world", "user", "human", "agent", "tool", "api", "schedule", "threadmill", "llm"}

// Anonymous reports whether a name, ignoring case, is one that Threadmill uses itself or for senders
// without a name. It identifies nobody: no API key, approver or vote has it.
func Anonymous(name string) bool {
	return slices.ContainsFunc(anonymous, func(r string) bool { return strings.EqualFold(r, name) })
}

// ValidateLine reports, as a [*FieldError], why s is not a valid title or other single line of text:
// it has control characters, line breaks or direction overrides, or is not valid UTF-8. It may be
// empty and has no maximum length.
func ValidateLine(field, s string) error {
	return checkReadable(field, s, "")
}

// ValidateText is [ValidateLine] for text of several lines, such as a reason: it allows line breaks and
// tabs.
func ValidateText(field, s string) error {
	return checkReadable(field, s, "\n\r\t")
}

func checkReadable(field, s, allowed string) error {
	if !utf8.ValidString(s) {
		return FieldErrorf(field, "is not UTF-8 text")
	}
	for _, r := range s {
		switch {
		case strings.ContainsRune(allowed, r):
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return FieldErrorf(field, "contains %U, a control character: remove it", r)
		case directs(r):
			return FieldErrorf(field, "contains %U, which changes the direction of the text around it: remove it", r)
		case !unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r), unicode.Is(tags, r):
			return FieldErrorf(field, "contains %U, which cannot be seen: remove it", r)
		}
	}
	return nil
}

// CleanLine converts s to a line that [ValidateLine] accepts: each run of control characters becomes
// one space, and other invalid characters are removed.
func CleanLine(s string) string {
	clean := func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case ValidateLine("", string(r)) != nil:
			return -1
		}
		return r
	}
	return strings.Join(strings.Fields(strings.Map(clean, strings.ToValidUTF8(s, ""))), " ")
}

// ShortLine is [CleanLine], cut off after most bytes, with an ellipsis behind them. It is empty if nothing
// of s is visible.
func ShortLine(s string, most int) string {
	s = CleanLine(s)
	switch {
	case Blank(s):
		return ""
	case len(s) <= most:
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Blank reports whether s is empty or contains only white space and invisible characters.
func Blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && visible(r) })
}

// visible reports whether a character is visible by itself.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		r != '\u2800' // a braille pattern without dots
}

// directs reports whether a character embeds, isolates or overrides the direction of text. It
// allows the direction marks, which have no range and are common in right-to-left text.
func directs(r rune) bool {
	return unicode.Is(unicode.Bidi_Control, r) && r != '\u061c' && r != '\u200e' && r != '\u200f'
}

// tags are an invisible copy of ASCII.
var tags = &unicode.RangeTable{R32: []unicode.Range32{{Lo: 0xE0000, Hi: 0xE007F, Stride: 1}}}

// composable are combining marks and parts of letters that Unicode composes with the preceding
// character. It excludes the vowel signs of Indic scripts, which are required there.
var composable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0300, Hi: 0x036F, Stride: 1}, // diacritical marks
		{Lo: 0x0653, Hi: 0x0655, Stride: 1}, // Arabic madda and hamza
		{Lo: 0x1100, Hi: 0x11FF, Stride: 1}, // parts of Hangul syllables
		{Lo: 0x1AB0, Hi: 0x1AFF, Stride: 1},
		{Lo: 0x1DC0, Hi: 0x1DFF, Stride: 1},
		{Lo: 0x20D0, Hi: 0x20FF, Stride: 1},
		{Lo: 0x3099, Hi: 0x309C, Stride: 1}, // marks of Japanese
		{Lo: 0xA960, Hi: 0xA97F, Stride: 1},
		{Lo: 0xD7B0, Hi: 0xD7FF, Stride: 1},
		{Lo: 0xFE20, Hi: 0xFE2F, Stride: 1},
	},
}

// compatibility are blocks with alternative forms of ordinary characters.
var compatibility = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x02B0, Hi: 0x02B8, Stride: 1}, // raised letters
		{Lo: 0x2000, Hi: 0x200A, Stride: 1},
		{Lo: 0x2024, Hi: 0x2026, Stride: 1},
		{Lo: 0x2070, Hi: 0x209F, Stride: 1}, // superscripts and subscripts
		{Lo: 0x2100, Hi: 0x218F, Stride: 1}, // letterlike symbols and numbers
		{Lo: 0x2460, Hi: 0x24FF, Stride: 1}, // in circles
		{Lo: 0x2E80, Hi: 0x2FDF, Stride: 1}, // radicals
		{Lo: 0x3130, Hi: 0x318F, Stride: 1}, // parts of Hangul syllables
		{Lo: 0x3200, Hi: 0x33FF, Stride: 1},
		{Lo: 0xF900, Hi: 0xFAFF, Stride: 1}, // ideographs
		{Lo: 0xFB00, Hi: 0xFDFF, Stride: 1}, // presentation forms and ligatures
		{Lo: 0xFE10, Hi: 0xFE1F, Stride: 1},
		{Lo: 0xFE30, Hi: 0xFEFF, Stride: 1},
		{Lo: 0xFF00, Hi: 0xFFEF, Stride: 1}, // full and half width
	},
	R32: []unicode.Range32{
		{Lo: 0x1D400, Hi: 0x1D7FF, Stride: 1}, // mathematical letters
		{Lo: 0x1EE00, Hi: 0x1EEFF, Stride: 1},
		{Lo: 0x1F100, Hi: 0x1F1AF, Stride: 1}, // in circles and squares
		{Lo: 0x2F800, Hi: 0x2FA1F, Stride: 1}, // ideographs
	},
}
