package console

import (
	"strings"

	"github.com/threadmill/threadmill/internal/text/term"
)

// flow divides output into lines that are complete and the part that is still being written.
// Markdown is complete block by block.
type flow struct {
	line  term.Text       // without its end
	prose strings.Builder // Markdown after line that is not shown for good

	blocks bool // whether blocks of the same Markdown stand above
	ends   bool // whether the line's end follows, after Markdown that had none
}

// add returns the lines that text completes. width is that of the terminal, 0 = unknown.
func (f *flow) add(text term.Text, width int) []term.Text {
	var out []term.Text
	for _, s := range text {
		switch {
		case s.Style == term.Prose && s.Text == "":
			out = append(out, f.endProse(width)...)
		case s.Style == term.Prose:
			f.prose.WriteString(s.Text)
			done, rest := complete(f.prose.String())
			f.prose.Reset()
			f.prose.WriteString(rest)
			out = append(out, f.showProse(done, width)...)
		default:
			if f.prose.Len() > 0 || f.blocks {
				out = append(out, f.endProse(width)...)
			}
			out = append(out, f.addLines(s)...)
		}
	}
	return out
}

func (f *flow) addLines(s term.Span) []term.Text {
	var out []term.Text
	for {
		part, rest, ended := strings.Cut(s.Text, "\n")
		if part != "" {
			f.line, f.ends = append(f.line, term.Span{Style: s.Style, Text: part}), false
		}
		if !ended {
			return out
		}
		if !f.ends { // otherwise the Markdown before has ended the line
			out = append(out, f.line)
		}
		f.line, f.ends, s.Text = nil, false, rest
	}
}

// endProse shows the rest of the Markdown.
func (f *flow) endProse(width int) []term.Text {
	rest := f.prose.String()
	f.prose.Reset()
	out := f.showProse(rest, width)
	f.ends = f.blocks && !strings.HasSuffix(rest, "\n")
	f.blocks = false
	return out
}

// showProse shows whole blocks of Markdown. The first one begins on the open line, if it is a
// paragraph.
func (f *flow) showProse(source string, width int) []term.Text {
	if strings.TrimSpace(source) == "" {
		return nil
	}
	lines := prose(source, f.line, width)
	if f.blocks {
		lines = append([]term.Text{nil}, lines...)
	}
	f.line, f.blocks = nil, true
	return lines
}

// open returns the text that is not complete.
func (f *flow) open() term.Text {
	text := append(term.Text{}, f.line...)
	if f.prose.Len() > 0 {
		text = append(text, term.Span{Text: f.prose.String()})
	}
	return text
}

// rest returns the lines of everything that is not complete.
func (f *flow) rest(width int) []term.Text {
	out := f.endProse(width)
	if len(f.line) > 0 {
		out = append(out, f.line)
	}
	f.line, f.ends = nil, false
	return out
}

// complete divides Markdown behind its last block that is certainly complete: an empty line has ended
// it, and the next one is known not to continue it.
func complete(source string) (done, rest string) {
	at, fence := 0, ""
	blank := false
	for pos := 0; pos < len(source); {
		line, _, _ := strings.Cut(source[pos:], "\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]+" \r") == "" {
				fence = ""
			}
		case strings.TrimSpace(line) == "":
		default:
			if blank && line != "" && line[0] != ' ' && line[0] != '\t' {
				at = pos
			}
			fence = fenceOf(trimmed)
		}
		blank = fence == "" && strings.TrimSpace(line) == ""
		pos += len(line) + 1
	}
	return source[:at], source[at:]
}

// fenceOf returns the characters that open a block of code, or "".
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}
