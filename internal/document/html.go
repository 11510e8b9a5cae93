package document

import (
	"slices"
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
	content, err := decoded(f)
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
	body := doc // without a main part
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && w.title == "" && n.FirstChild != nil {
			w.title = n.FirstChild.Data
		}
		if n.DataAtom == atom.Main && body == doc {
			body = n
		}
	}
	remove(body)
	markdown, err := toMarkdown.ConvertNode(body)
	if err != nil {
		return err
	}
	return w.addMarkdown(string(markdown))
}

// noContent are scripts, and what pages repeat around their content.
var noContent = []atom.Atom{
	atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Nav, atom.Footer, atom.Aside, atom.Svg, atom.Iframe, atom.Img, atom.Head,
}

// remove removes the elements that are no content.
func remove(body *html.Node) {
	var found []*html.Node
	for n := range body.Descendants() {
		if slices.Contains(noContent, n.DataAtom) {
			found = append(found, n)
		}
	}
	for _, n := range found {
		n.Parent.RemoveChild(n)
	}
}
