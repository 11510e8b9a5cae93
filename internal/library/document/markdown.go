package document

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// blocksOnly parses blocks without what is within them, so that the text stays as it was written.
var blocksOnly = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))

func (w *writer) markdown(f File) error {
	content, err := decoded(f, guessed)
	if err != nil {
		return err
	}
	return w.addMarkdown(content)
}

// maxMarkers is the maximum number of quotes and lists that one line begins: the parser takes quadratic time.
const maxMarkers = 100

// checkMarkup rejects what takes too much memory to parse.
func (w *writer) checkMarkup(content string) error {
	if len(content) > w.limits.Markup {
		return unreadable("the document has %d bytes of markup; the limit is %d: split it", len(content), w.limits.Markup)
	}
	return nil
}

func (w *writer) addMarkdown(content string) error {
	if err := w.checkMarkup(content); err != nil {
		return err
	}
	for line := range strings.Lines(content) {
		if markers(line) > maxMarkers {
			return unreadable("the quotes and lists of the document are nested more than %d deep, which is the limit", maxMarkers)
		}
	}
	source := []byte(content)
	doc := blocksOnly.Parse(text.NewReader(source))
	from := 0 // of the text that is not added
	add := func(to int) error {
		block := Block{Text: strings.Trim(string(source[from:to]), "\n")}
		from = to
		if rule := strings.Trim(block.Text, " -=*_\n"); rule == "" {
			return nil
		}
		return w.add(block)
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		begin, end, ok := extent(n, source)
		if !ok || begin < from {
			continue
		}
		if err := add(begin); err != nil {
			return err
		}
		h, isHeading := n.(*ast.Heading)
		if !isHeading {
			continue
		}
		title := strings.TrimSpace(string(h.Lines().Value(source)))
		if w.title == "" && h.Level == 1 {
			w.title = title
		}
		if err := w.add(Block{Level: h.Level, Text: title}); err != nil {
			return err
		}
		from = end
	}
	return add(len(source))
}

// markers counts the markers of quotes and lists at the beginning of a line, and those above it to which its
// indentation belongs.
func markers(line string) int {
	trimmed := strings.TrimLeft(line, " \t")
	indentation := len(line) - len(trimmed)
	n := 0
	for {
		rest := strings.TrimLeft(trimmed, "0123456789")
		if rest == "" || !strings.ContainsRune(">-*+.)", rune(rest[0])) || rest[0] != '>' && !strings.HasPrefix(rest[1:], " ") {
			break
		}
		trimmed = strings.TrimLeft(rest[1:], " \t")
		n++
	}
	if n > 0 {
		n += indentation / 2
	}
	return n
}

// extent returns where the lines of a block are, from the beginning of the first one.
func extent(n ast.Node, source []byte) (begin, end int, ok bool) {
	begin = len(source)
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // no function fails
		if entering && n.Type() == ast.TypeBlock {
			if lines := n.Lines(); lines.Len() > 0 {
				begin, end, ok = min(begin, lines.At(0).Start), max(end, lines.At(lines.Len()-1).Stop), true
			}
		}
		return ast.WalkContinue, nil
	})
	if !ok {
		return 0, 0, false
	}
	begin = bytes.LastIndexByte(source[:begin], '\n') + 1
	if _, fenced := n.(*ast.FencedCodeBlock); fenced && begin > 0 {
		begin = bytes.LastIndexByte(source[:begin-1], '\n') + 1
	}
	if i := bytes.IndexByte(source[end:], '\n'); i >= 0 && (end == 0 || source[end-1] != '\n') {
		end += i + 1
	}
	return begin, end, true
}
