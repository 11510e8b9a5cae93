package knowledge

import (
	"strings"
	"unicode/utf8"
)

// ends are the places at which a text is cut, the best ones first.
var ends = [][]string{{"\n\n"}, {"\n"}, {". ", "! ", "? ", "。", "！", "？"}, {" ", "\t"}}

// cut cuts a text into pieces of at most limit tokens. There is at least one.
func (s Splitter) cut(text string, limit int) []string {
	var pieces []string
	for _, part := range s.parts(text, limit, ends) {
		if part = strings.TrimSpace(part); part != "" {
			pieces = append(pieces, part)
		}
	}
	return pieces
}

// parts returns the parts of a text, which together are the text.
func (s Splitter) parts(text string, limit int, ends [][]string) []string {
	if s.fits(text, limit) {
		return []string{text}
	}
	if len(ends) == 0 {
		return cutBytes(text, limit)
	}
	var out []string
	begin, end := 0, 0 // of the part that is being filled
	for end < len(text) {
		next := end + after(text[end:], ends[0])
		switch {
		case s.fits(text[begin:next], limit):
			end = next
			continue
		case begin < end:
			out = append(out, text[begin:end])
			begin = end
			continue
		}
		out = append(out, s.parts(text[begin:next], limit, ends[1:])...)
		begin, end = next, next
	}
	if begin < end {
		out = append(out, text[begin:end])
	}
	return out
}

// fits reports whether a text has at most limit tokens. Each token has at least one byte.
func (s Splitter) fits(text string, limit int) bool {
	return len(text) <= limit || len(text) <= limit*MaxCounted && s.Count(text) <= limit
}

// after returns the length of a text up to and including the first of some ends.
func after(text string, ends []string) int {
	first := len(text)
	for _, end := range ends {
		if i := strings.Index(text, end); i >= 0 {
			first = min(first, i+len(end))
		}
	}
	return first
}

// cutBytes cuts a text without spaces into pieces of at most limit bytes, between characters.
func cutBytes(text string, limit int) []string {
	var out []string
	for len(text) > limit {
		n := limit
		for n > 1 && !utf8.RuneStart(text[n]) {
			n--
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, text)
}
