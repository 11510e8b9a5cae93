package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is an ANSI attribute.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	dim    style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	cyan   style = "\x1b[36m"
	reset  style = "\x1b[0m"
)

// write adds text to the output as it is, apart from what a terminal would obey.
func (r *Renderer) write(s style, text string) {
	text = clean(text)
	if text == "" {
		return
	}
	if s != plain && r.opts.Color {
		r.out.WriteString(string(s) + text + string(reset))
	} else {
		r.out.WriteString(text)
	}
	r.open = !strings.HasSuffix(text, "\n")
}

// line adds a whole line of its own.
func (r *Renderer) line(s style, text string) {
	r.leave()
	r.write(s, strings.TrimRight(text, "\n"))
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
		r.out.WriteString("\n")
		r.open = false
	}
}

func (r *Renderer) take() string {
	text := r.out.String()
	r.out.Reset()
	return text
}

// clean removes what would control the terminal: what models and tools write is
// not to be trusted with it.
func clean(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		if unicode.IsControl(c) || isDirection(c) {
			return -1
		}
		return c
	}, text)
}

// isDirection reports marks that reorder text, with which a command can be made to
// look like another.
func isDirection(c rune) bool {
	return c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069
}

// visible puts text on one line and shows what cannot be seen as an escape: who
// allows a call must see all of it.
func visible(text string) string {
	var out strings.Builder
	for _, c := range strings.TrimSpace(text) {
		switch {
		case c == '\n' || c == '\t' || c == '\r':
			out.WriteByte(' ')
		case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
			fmt.Fprintf(&out, "\\u%04x", c)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// shorten cuts a line to width characters.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
