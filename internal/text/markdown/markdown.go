// Package markdown renders Markdown that strangers write: as elements of a fixed set, which a page
// builds one by one, so that no text ever becomes markup.
package markdown

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	nethtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/threadmill/threadmill/internal/text/term"
)

// Node is an element, or a text if it has no tag.
type Node struct {
	Tag        string            `json:"tag,omitempty" doc:"The name of an HTML element. Without one, the node is a text"`
	Text       string            `json:"text,omitempty" doc:"Of a text"`
	Attributes map[string]string `json:"attributes,omitempty" doc:"Of an element: href of links, which are http, https or mailto, class of highlighted code, align of cells, start of ordered lists"`
	Children   []Node            `json:"children,omitempty" doc:"Of an element"`
}

// maxDepth is the maximum depth of elements. What is deeper becomes text.
const maxDepth = 64

var policy = newPolicy()

func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "del", "hr", "br",
		"table", "thead", "tbody", "tr", "th", "td", "span")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^[a-z0-9]{1,8}$`)).OnElements("span", "pre")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|center|right)$`)).OnElements("th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.AllowRelativeURLs(false)
	return p
}

// Render renders Markdown. Raw HTML is text, and images are links, so that nothing is loaded from
// elsewhere. Characters that nobody can see are written as escapes. A text that exceeds the limits of
// a [Budget] becomes plain text.
func Render(source string) []Node { return NewBudget().Render(source) }

// Render renders one of the texts that share the budget.
func (b *Budget) Render(source string) []Node {
	source = term.Escape(source)
	if !b.parse(len(source)) {
		return plain(source)
	}
	limits := newMeter(b)
	root := converter.Parser().Parse(text.NewReader([]byte(source)), limits.option())
	out := &limited{left: b.output}
	err := converter.Renderer().Render(out, []byte(source), root)
	if limits.exceeded || err != nil || out.exceeded {
		return plain(source)
	}
	b.output = out.left
	parsed, err := nethtml.ParseFragment(policy.SanitizeReader(&out.buffer), &nethtml.Node{Type: nethtml.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		return plain(source) // it is nested too deep
	}
	return nodes(parsed, 0)
}

// plain returns a text as it is.
func plain(source string) []Node { return []Node{{Tag: "pre", Children: []Node{{Text: source}}}} }

func nodes(from []*nethtml.Node, depth int) []Node {
	var out []Node
	for _, n := range from {
		switch n.Type { //nolint:exhaustive // the sanitizer leaves no other types
		case nethtml.TextNode:
			out = append(out, Node{Text: n.Data})
		case nethtml.ElementNode:
			out = append(out, element(n, depth))
		}
	}
	return out
}

func element(n *nethtml.Node, depth int) Node {
	if depth == maxDepth {
		return Node{Text: textOf(n)}
	}
	out := Node{Tag: n.Data}
	for _, a := range n.Attr {
		if out.Attributes == nil {
			out.Attributes = map[string]string{}
		}
		out.Attributes[a.Key] = a.Val
	}
	var children []*nethtml.Node
	for child := range n.ChildNodes() {
		children = append(children, child)
	}
	out.Children = nodes(children, depth+1)
	return out
}

// textOf returns the text of a tree, however deep.
func textOf(n *nethtml.Node) string {
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == nethtml.TextNode {
			out.WriteString(d.Data)
		}
	}
	return out.String()
}

// asText renders raw HTML as text, images as links, and the boxes of task lists as characters.
type asText struct{}

func (asText) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw := n.(*ast.RawHTML); entering {
			return ast.WalkSkipChildren, escape(w, raw.Segments.Value(source))
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block := n.(*ast.HTMLBlock)
		if !entering {
			return ast.WalkContinue, nil
		}
		lines := block.Lines().Value(source)
		if block.HasClosure() {
			lines = append(lines, block.ClosureLine.Value(source)...)
		}
		return ast.WalkSkipChildren, surround(w, "p", lines)
	})
	r.Register(extast.KindTaskCheckBox, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		box := "☐ "
		if n.(*extast.TaskCheckBox).IsChecked {
			box = "☑ "
		}
		if !entering {
			return ast.WalkContinue, nil
		}
		_, err := w.WriteString(box)
		return ast.WalkContinue, err
	})
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		link := "</a>"
		if entering {
			link = `<a href="` + string(util.EscapeHTML(n.(*ast.Image).Destination)) + `">`
		}
		_, err := w.WriteString(link)
		return ast.WalkContinue, err
	})
}

func surround(w io.StringWriter, tag string, content []byte) error {
	_, err := w.WriteString("<" + tag + ">" + string(util.EscapeHTML(bytes.TrimSpace(content))) + "</" + tag + ">")
	return err
}

func escape(w io.Writer, content []byte) error {
	_, err := w.Write(util.EscapeHTML(content))
	return err
}
