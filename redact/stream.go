package redact

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Stream redacts a text that arrives in pieces. It holds back what may be the beginning of a match.
type Stream struct {
	r *Redactor

	// text is what is held, behind maxContext bytes of what has been returned, on which matches may depend.
	text []byte

	// shown is the end in text of what has been returned, as it is or as a replacement. It is within what is held if a match that has been
	// returned may overlap the next one.
	shown int

	// from are, for each pattern, where in text its next match may begin.
	from []int

	// next is the length of text at which it is searched again. Searching a long one for each piece would take quadratic time.
	next int
}

const (
	// maxContext is the length of an escape such as \u0009.
	maxContext = 6

	// searchAlways is the length up to which text is searched for each piece.
	searchAlways = 256
)

// Stream returns a stream for one text.
func (r *Redactor) Stream() *Stream {
	s := &Stream{r: r}
	if r != nil {
		s.from = make([]int, len(r.patterns))
	}
	return s
}

// Write adds a piece, and returns what can be shown by now. It may be empty.
func (s *Stream) Write(piece string) string {
	if s.r == nil {
		return piece
	}
	s.text = append(s.text, piece...)
	if s.r.fn != nil || len(s.text) < s.next {
		return ""
	}
	text := whole(string(s.text))
	limit := len(text)
	for i, p := range s.r.patterns {
		limit = min(limit, p.open(text, s.from[i]))
	}
	out := s.take(text, limit)
	s.forget(limit)
	if s.next = 0; len(s.text) > searchAlways {
		s.next = len(s.text) + len(s.text)/2
	}
	return out
}

// forget drops what is before limit, except for its end.
func (s *Stream) forget(limit int) {
	n := max(0, limit-maxContext)
	s.text = append(s.text[:0], s.text[n:]...)
	s.shown -= n
	for i := range s.from {
		s.from[i] = max(s.from[i], limit) - n
	}
}

// whole returns a text without the beginning of a character at its end.
func whole(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// Flush returns the rest of the text. The next piece begins a new text.
func (s *Stream) Flush() string {
	if s.r == nil || len(s.text) == 0 {
		return ""
	}
	out := s.take(string(s.text), len(s.text))
	if s.r.fn != nil {
		out = s.r.call(out)
	}
	*s = *s.r.Stream()
	return out
}

// match is a part of a text with its replacement.
type match struct {
	start, end  int
	replacement string
}

// take returns what has not been returned of the text up to limit, with the matches that begin before it. Matches that overlap are one.
func (s *Stream) take(text string, limit int) string {
	var all []match
	for i, p := range s.r.patterns {
		for _, at := range p.find(text, s.from[i]) {
			if at[0] >= limit {
				break
			}
			all = append(all, match{at[0], at[1], p.replacement})
			s.from[i] = p.behind(at)
		}
	}
	slices.SortStableFunc(all, func(a, b match) int { return cmp.Or(a.start-b.start, b.end-a.end) })
	var out strings.Builder
	for _, m := range all {
		if m.start >= s.shown {
			out.WriteString(text[s.shown:m.start])
			out.WriteString(m.replacement)
		}
		s.shown = max(s.shown, m.end)
	}
	if s.shown < limit {
		out.WriteString(text[s.shown:limit])
		s.shown = limit
	}
	return out.String()
}
