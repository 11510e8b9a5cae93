package markdown

import (
	"bytes"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// strikethrough is GitHub's extension without its form with a single tilde, which the ids of tasks and paths contain.
type strikethrough struct{}

// Extend implements [goldmark.Extender]. The priorities are those of [extension.Strikethrough].
func (strikethrough) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(parser.WithInlineParsers(util.Prioritized(doubleTilde{extension.NewStrikethroughParser()}, 500)))
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500)))
}

type doubleTilde struct{ parser.InlineParser }

// Parse implements [parser.InlineParser].
func (d doubleTilde) Parse(parent ast.Node, block gmtext.Reader, pc parser.Context) ast.Node {
	if line, _ := block.PeekLine(); !bytes.HasPrefix(line, []byte("~~")) {
		return nil
	}
	return d.InlineParser.Parse(parent, block, pc)
}

// CloseBlock implements [parser.CloseBlocker].
func (d doubleTilde) CloseBlock(parent ast.Node, block gmtext.Reader, pc parser.Context) {
	if closer, ok := d.InlineParser.(parser.CloseBlocker); ok {
		closer.CloseBlock(parent, block, pc)
	}
}
