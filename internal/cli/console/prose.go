package console

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/threadmill/threadmill/internal/text/markdown"
	"github.com/threadmill/threadmill/internal/text/term"
)

// prose returns Markdown as lines of at most width cells. lead stands before it: on its first line if
// that is a paragraph, and on a line of its own otherwise.
func prose(source string, lead term.Text, width int) []term.Text {
	w := writer{width: width}
	w.blocks(markdown.Render(source), lead)
	return w.lines
}

// writer writes blocks of Markdown.
type writer struct {
	width int
	lines []term.Text
}

// blocks writes blocks with an empty line between them.
func (w *writer) blocks(nodes []markdown.Node, lead term.Text) {
	var loose []markdown.Node // text outside of blocks, as in items of a list
	first := true
	between := func() {
		if !first {
			w.line(nil)
		}
		first = false
	}
	flush := func() {
		if strings.TrimSpace(textOf(loose)) != "" {
			between()
			w.text(inline(loose, term.Plain), lead)
			lead = nil
		}
		loose = nil
	}
	for _, n := range nodes {
		if !isBlock(n.Tag) {
			loose = append(loose, n)
			continue
		}
		flush()
		between()
		if n.Tag == "p" {
			w.text(inline(n.Children, term.Plain), lead)
			lead = nil
			continue
		}
		if len(lead) > 0 {
			w.line(lead)
			lead = nil
		}
		w.block(n)
	}
	flush()
	if len(lead) > 0 {
		w.line(lead)
	}
}

func isBlock(tag string) bool {
	switch tag {
	case "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "blockquote", "pre", "hr", "table":
		return true
	}
	return false
}

func (w *writer) block(n markdown.Node) {
	switch n.Tag {
	case "ul", "ol":
		w.list(n)
	case "blockquote":
		w.within(term.Text{{Style: term.Dim, Text: "│ "}}, nil, n.Children)
	case "pre":
		for line := range strings.SplitSeq(strings.TrimRight(textOf(n.Children), "\n"), "\n") {
			w.line(term.Text{{Text: "  "}, {Style: term.Cyan, Text: line}})
		}
	case "hr":
		w.line(term.Text{{Style: term.Dim, Text: "───"}})
	case "table":
		w.table(n)
	default: // a heading
		w.text(inline(n.Children, term.Bold), nil)
	}
}

// list writes a list, whose items are close together unless they have several blocks.
func (w *writer) list(n markdown.Node) {
	number := 1
	if start, err := strconv.Atoi(n.Attributes["start"]); err == nil {
		number = start
	}
	for _, item := range n.Children {
		if item.Tag != "li" {
			continue
		}
		mark := "• "
		if n.Tag == "ol" {
			mark = strconv.Itoa(number) + ". "
			number++
		}
		w.within(term.Text{{Text: strings.Repeat(" ", ansi.StringWidth(mark))}}, term.Text{{Style: term.Dim, Text: mark}}, item.Children)
	}
}

// within writes blocks whose lines begin with prefix, the first one with first instead.
func (w *writer) within(prefix, first term.Text, nodes []markdown.Node) {
	inner := writer{width: max(w.width-width(prefix), 0)}
	inner.blocks(nodes, nil)
	if len(inner.lines) == 0 {
		inner.lines = []term.Text{nil}
	}
	tight := len(first) > 0 && !hasSeveral(nodes)
	for i, line := range inner.lines {
		if tight && len(line) == 0 {
			continue
		}
		if i == 0 && len(first) > 0 {
			w.line(append(append(term.Text{}, first...), line...))
			continue
		}
		w.line(append(append(term.Text{}, prefix...), line...))
	}
}

// hasSeveral reports whether an item has several paragraphs.
func hasSeveral(nodes []markdown.Node) bool {
	n := 0
	for _, one := range nodes {
		if one.Tag == "p" {
			n++
		}
	}
	return n > 1
}

func (w *writer) table(n markdown.Node) {
	var rows [][]term.Text
	var widths []int
	head := 0
	for _, part := range n.Children {
		for _, tr := range part.Children {
			if tr.Tag != "tr" {
				continue
			}
			style := term.Plain
			if part.Tag == "thead" {
				style, head = term.Bold, len(rows)+1
			}
			var row []term.Text
			for _, cell := range tr.Children {
				if cell.Tag != "td" && cell.Tag != "th" {
					continue
				}
				text := inline(cell.Children, style)
				if len(row) == len(widths) {
					widths = append(widths, 0)
				}
				widths[len(row)] = max(widths[len(row)], width(text))
				row = append(row, text)
			}
			rows = append(rows, row)
		}
	}
	for i, row := range rows {
		var line term.Text
		for column, cell := range row {
			if column > 0 {
				line = append(line, term.Span{Style: term.Dim, Text: " │ "})
			}
			line = append(line, cell...)
			if column < len(row)-1 {
				line = append(line, term.Span{Text: strings.Repeat(" ", widths[column]-width(cell))})
			}
		}
		w.line(line)
		if i+1 == head {
			var rule []string
			for _, n := range widths {
				rule = append(rule, strings.Repeat("─", n))
			}
			w.line(term.Text{{Style: term.Dim, Text: strings.Join(rule, "─┼─")}})
		}
	}
}

// text writes spans in as many lines as they need.
func (w *writer) text(spans, lead term.Text) {
	for _, line := range wrap(append(append(term.Text{}, lead...), spans...), w.width) {
		w.line(line)
	}
}

func (w *writer) line(line term.Text) { w.lines = append(w.lines, line) }

// inline returns the spans of elements within a line.
func inline(nodes []markdown.Node, style term.Style) term.Text {
	var out term.Text
	for _, n := range nodes {
		switch n.Tag {
		case "":
			out = append(out, term.Span{Style: style, Text: n.Text})
		case "br":
			// The line feed behind it is in the text.
		case "strong", "em":
			out = append(out, inline(n.Children, term.Bold)...)
		case "code":
			out = append(out, term.Span{Style: term.Cyan, Text: textOf(n.Children)})
		case "del":
			out = append(out, inline(n.Children, term.Dim)...)
		case "a":
			out = append(out, inline(n.Children, style)...)
			if href := n.Attributes["href"]; href != "" && href != textOf(n.Children) && href != "mailto:"+textOf(n.Children) {
				out = append(out, term.Span{Style: term.Dim, Text: " (" + href + ")"})
			}
		default:
			out = append(out, inline(n.Children, style)...)
		}
	}
	return out
}

func textOf(nodes []markdown.Node) string {
	var out strings.Builder
	for _, n := range nodes {
		out.WriteString(n.Text)
		out.WriteString(textOf(n.Children))
	}
	return out.String()
}

// width returns the number of cells that text takes.
func width(text term.Text) int { return ansi.StringWidth(term.Render(text, false)) }

// wrap breaks text at line feeds, and behind spaces where it exceeds the width.
func wrap(text term.Text, limit int) []term.Text {
	lines := []term.Text{nil}
	var word term.Text // up to its spaces, in one style or several
	used := 0
	end := func() {
		cells := width(word)
		if limit > 0 && used > 0 && used+ansi.StringWidth(strings.TrimRight(term.Render(word, false), " ")) > limit {
			lines, used = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], word...)
		used += cells
		word = nil
	}
	for _, s := range text {
		for i, part := range strings.Split(s.Text, "\n") {
			if i > 0 {
				end()
				lines, used = append(lines, nil), 0
			}
			for _, piece := range words(part) {
				word = append(word, term.Span{Style: s.Style, Text: piece})
				if strings.HasSuffix(piece, " ") {
					end()
				}
			}
		}
	}
	end()
	return lines
}

// words divides text behind its spaces.
func words(text string) []string {
	var out []string
	for text != "" {
		end := strings.IndexByte(text, ' ')
		if end < 0 {
			return append(out, text)
		}
		for end < len(text) && text[end] == ' ' {
			end++
		}
		out, text = append(out, text[:end]), text[end:]
	}
	return out
}
