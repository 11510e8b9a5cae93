package render

import (
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/internal/term"
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
)

// write adds text to the output as it is: [term.Writer] escapes what a terminal would obey.
func (r *Renderer) write(s style, text string) {
	if text == "" {
		return
	}
	r.out = append(r.out, term.Span{Style: s, Text: text})
	r.open = !strings.HasSuffix(text, "\n")
}

// line adds a whole line. If text has more than one, the others are indented: only the
// first is the program's.
func (r *Renderer) line(s style, text string) {
	r.leave()
	r.write(s, strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\n", "\n  "))
	r.endLine()
}

// leave ends the line of the message that is being written, whose text goes on
// under a new heading.
func (r *Renderer) leave() {
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

// visible puts text on one line and shows what cannot be seen as an escape: who
// allows a call must see all of it.
func visible(text string) string { return term.Line(strings.TrimSpace(text)) }

// oneLine puts text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// shorten cuts a line to width characters.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
