package document

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// toMarkdown converts what is read, without the images that nobody can read.
var toMarkdown = converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))

func (w *writer) html(f File) error {
	content, err := decoded(f, browsers)
	if err != nil {
		return err
	}
	if err := w.checkMarkup(content); err != nil {
		return err
	}
	doc, err := html.Parse(strings.NewReader(content))
	if err != nil {
		return err
	}
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && w.title == "" && n.FirstChild != nil {
			w.title = n.FirstChild.Data
		}
	}
	remove(doc, func(n *html.Node) bool { return slices.Contains(noText, n.DataAtom) || hidden(n) })
	body := mainPart(doc)
	if err := w.checkTables(body); err != nil {
		return err
	}
	markdown, err := toMarkdown.ConvertNode(body)
	if err != nil {
		return err
	}
	return w.addMarkdown(string(markdown))
}

// noText are elements whose text nobody reads, around are those that pages repeat around their content.
var (
	noText = []atom.Atom{atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Img, atom.Head}
	around = []atom.Atom{atom.Nav, atom.Footer, atom.Aside}
)

// remove removes elements.
func remove(from *html.Node, which func(*html.Node) bool) {
	var found []*html.Node
	for n := range from.Descendants() {
		if which(n) {
			found = append(found, n)
		}
	}
	for _, n := range found {
		n.Parent.RemoveChild(n)
	}
}

func hidden(n *html.Node) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
		return a.Key == "hidden" || a.Key == "style" && strings.Contains(strings.ReplaceAll(a.Val, " ", ""), "display:none")
	})
}

// mainPart returns the main element of a page, or else what is not around its content, unless most of the page's text is
// elsewhere: some pages fill their main element by a script, have nothing but a link in it, or their article in a footer.
func mainPart(doc *html.Node) *html.Node {
	all, outside := letters(doc), 0
	for n := range doc.Descendants() {
		switch {
		case n.DataAtom == atom.Main && 4*letters(n) >= all:
			remove(n, isAround)
			return n
		case n.DataAtom == atom.Summary: // a line of its own, which the converter does not make
			n.DataAtom, n.Data = atom.P, atom.P.String()
		case isAround(n) && !slices.ContainsFunc(slices.Collect(n.Ancestors()), isAround):
			outside += letters(n)
		}
	}
	if 4*(all-outside) >= all {
		remove(doc, isAround)
	}
	return doc
}

func isAround(n *html.Node) bool { return slices.Contains(around, n.DataAtom) }

// letters returns the size of a text without its space, in bytes.
func letters(of *html.Node) int {
	n := 0
	for d := range of.Descendants() {
		if d.Type == html.TextNode {
			for word := range strings.FieldsSeq(d.Data) {
				n += len(word)
			}
		}
	}
	return n
}

// maxColumns is the largest colspan of the HTML standard.
const maxColumns = 1000

// checkTables bounds what cells span as browsers do, by the standard and by the rows of their table, and rejects tables that
// have too many cells then: the converter makes each of them.
func (w *writer) checkTables(body *html.Node) error {
	cells := 0
	for table := range body.Descendants() {
		if table.DataAtom != atom.Table {
			continue
		}
		rows, width := 0, 0
		for n := range table.Descendants() {
			if n.DataAtom == atom.Tr {
				rows++
			}
		}
		for n := range table.Descendants() {
			if n.DataAtom == atom.Tr {
				columns := 0
				for c := range n.ChildNodes() {
					columns += span(c, "colspan", maxColumns)
					span(c, "rowspan", rows)
				}
				width = max(width, columns)
			}
		}
		if cells += rows * width; cells > w.limits.Cells {
			return unreadable("the tables of the document have more than %d cells, which is the limit: split it", w.limits.Cells)
		}
	}
	return nil
}

// span returns how many columns or rows a cell spans, which it makes no more than most.
func span(cell *html.Node, key string, most int) int {
	for i, a := range cell.Attr {
		if a.Key != key {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(a.Val), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			n = 1
		}
		n = min(max(n, 1), uint64(most))
		cell.Attr[i].Val = strconv.FormatUint(n, 10)
		return int(n)
	}
	return 1
}
