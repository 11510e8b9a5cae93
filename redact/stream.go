package redact

import "unicode/utf8"

// Stream redacts a text that arrives in pieces. It holds back what may be the beginning of a match.
type Stream struct {
	r *Redactor

	// held is what has not been returned, and before the character in front of it, on which a match may depend.
	before string
	held   []byte

	// next is the length of held at which it is searched again. Searching a long one for each piece would take quadratic time.
	next int
}

// searchAlways is the length up to which held text is searched for each piece.
const searchAlways = 256

// Stream returns a stream for one text.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Write adds a piece, and returns what can be shown by now. It may be empty.
func (s *Stream) Write(piece string) string {
	if s.r == nil {
		return piece
	}
	s.held = append(s.held, piece...)
	if s.r.fn != nil || len(s.held) < s.next {
		return ""
	}
	all := s.before + string(s.held)
	text := whole(all)
	limit := len(text)
	for _, p := range s.r.patterns {
		limit = min(limit, p.open(text, len(s.before)))
	}
	out := s.take(all, limit)
	if s.next = 0; len(s.held) > searchAlways {
		s.next = len(s.held) + len(s.held)/2
	}
	return out
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
	if s.r == nil || len(s.held) == 0 {
		return ""
	}
	text := s.before + string(s.held)
	out := s.take(text, len(text))
	if s.r.fn != nil {
		out = s.r.call(out)
	}
	s.before, s.next = "", 0
	return out
}

// take returns the text up to limit, which is behind before, and keeps the rest.
func (s *Stream) take(text string, limit int) string {
	out, n := s.r.replace(text, s.r.matches(text, len(s.before)), limit)
	out = out[len(s.before):]
	if n > 0 {
		_, size := utf8.DecodeLastRuneInString(text[:n])
		s.before = text[n-size : n]
	}
	s.held = append(s.held[:0], text[n:]...)
	return out
}
