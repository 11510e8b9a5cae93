// Package markdown renders Markdown that strangers write: as elements of a fixed set, which a page
// builds one by one, so that no text ever becomes markup.
package markdown

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
	nethtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/threadmill/threadmill/internal/term"
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

var (
	converter = goldmark.New(
		goldmark.WithExtensions(extension.Linkify, strikethrough{}, extension.TaskList,
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), highlighting.NewHighlighting(
				highlighting.WithFormatOptions(chromahtml.WithClasses(true), chromahtml.PreventSurroundingPre(false)),
			)),
		// The priority is above that of the default renderer, which omits raw HTML.
		goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(asText{}, 100))),
	)
	policy = newPolicy()
)

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
// elsewhere. Characters that nobody can see are written as escapes.
func Render(source string) ([]Node, error) {
	var out bytes.Buffer
	if err := converter.Convert([]byte(term.Escape(source)), &out); err != nil {
		return nil, fmt.Errorf("rendering Markdown: %w", err)
	}
	clean := policy.SanitizeReader(&out)
	parsed, err := nethtml.ParseFragment(clean, &nethtml.Node{Type: nethtml.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		// The parser refuses what is nested too deep.
		return []Node{{Tag: "p", Children: []Node{{Text: term.Escape(source)}}}}, nil
	}
	return nodes(parsed, 0), nil
}

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
		return Node{Text: text(n)}
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

// text returns the text of a tree, however deep.
func text(n *nethtml.Node) string {
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
