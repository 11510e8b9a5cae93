package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// doubleTilde limits GitHub's strikethrough to its form with two tildes: ids of tasks and paths have
// single ones.
type doubleTilde struct{ parser.InlineParser }

// Parse implements [parser.InlineParser].
func (d doubleTilde) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if line, _ := block.PeekLine(); !bytes.HasPrefix(line, []byte("~~")) {
		return nil
	}
	return d.InlineParser.Parse(parent, block, pc)
}
