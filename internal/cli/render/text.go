package render

import (
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/internal/text/term"
)

type style = term.Style

const (
	plain  = term.Plain
	bold   = term.Bold
	dim    = term.Dim
	red    = term.Red
	green  = term.Green
	yellow = term.Yellow
	cyan   = term.Cyan
	prose  = term.Prose
)

// write adds text to the output unchanged: [term.Writer] escapes control characters.
func (r *Renderer) write(s style, text string) {
	if text == "" {
		return
	}
	if r.at != "" && !r.open && r.owner == nil {
		r.out = append(r.out, term.Span{Style: dim, Text: r.at})
	}
	r.out, r.prose = append(r.out, term.Span{Style: s, Text: text}), s == prose
	r.open = !strings.HasSuffix(text, "\n")
}

// line adds a line. Further lines of text are indented, because only the first is the program's.
func (r *Renderer) line(s style, text string) {
	r.leave()
	r.write(s, strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\n", "\n  "))
	r.endLine()
}

// leave ends the line of the message in front, whose text continues under a new heading.
func (r *Renderer) leave() {
	if r.prose {
		r.out, r.prose = append(r.out, term.Span{Style: prose}), false
	}
	r.endLine()
	r.owner = nil
}

func (r *Renderer) endLine() {
	if r.open {
		r.write(plain, "\n")
	}
}

func (r *Renderer) take() term.Text {
	text := r.out
	r.out = nil
	return text
}

// visible returns text on one line with invisible characters escaped: a deciding person must see
// all of it.
func visible(text string) string { return term.Line(strings.TrimSpace(text)) }

// oneLine returns text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// shorten cuts a line to width characters.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
