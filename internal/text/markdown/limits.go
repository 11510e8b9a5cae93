package markdown

import (
	"bytes"
	"time"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Limits of one text. A table with more cells, and blocks that are nested deeper, stay text; a text
// that exceeds another limit is plain.
const (
	// maxSource is the maximum size of a text in bytes.
	maxSource = 64 << 10

	// maxCells is the maximum number of cells of all tables. Rows are as long as their header, so that
	// a text of n bytes can have n² of them.
	maxCells = 4096

	// maxNested is the maximum depth of quotes and lists, each of which looks at every line.
	maxNested = 32

	// maxMarks and maxBlockMarks limit the characters that may begin or end emphasis, code, links and
	// HTML, in a text and in a block of it. Each may be compared with all others of its block.
	maxMarks      = 16 << 10
	maxBlockMarks = 2 << 10
)

// Budget limits what rendering several texts costs. Texts beyond it are plain.
type Budget struct {
	source, output, code int
	until                time.Time
}

// Limits of a [Budget].
const (
	budgetSource = 512 << 10
	budgetOutput = 2 << 20 // of HTML
	budgetCode   = 64 << 10
	budgetTime   = 2 * time.Second
)

// NewBudget returns the budget of one request.
func NewBudget() *Budget {
	return &Budget{source: budgetSource, output: budgetOutput, code: budgetCode, until: time.Now().Add(budgetTime)}
}

// parse reports whether a text may be parsed.
func (b *Budget) parse(size int) bool {
	if size > maxSource || size > b.source || time.Now().After(b.until) {
		return false
	}
	b.source -= size
	return true
}

var meterKey = parser.NewContextKey()

// meter counts what a text costs while it is parsed and rendered.
type meter struct {
	budget   *Budget
	cells    int
	marks    int
	block    ast.Node
	inBlock  int
	exceeded bool
}

func newMeter(b *Budget) *meter { return &meter{budget: b} }

func (m *meter) option() parser.ParseOption {
	pc := parser.NewContext()
	pc.Set(meterKey, m)
	return parser.WithContext(pc)
}

func meterOf(pc parser.Context) *meter { return pc.Get(meterKey).(*meter) }

// mark counts a mark of a block.
func (m *meter) mark(block ast.Node) bool {
	if m.block != block {
		m.block, m.inBlock = block, 0
	}
	m.marks++
	m.inBlock++
	m.exceeded = m.exceeded || m.marks > maxMarks || m.inBlock > maxBlockMarks
	return !m.exceeded
}

// counted is a parser of inline elements whose marks are counted.
type counted struct{ parser.InlineParser }

// Parse implements [parser.InlineParser].
func (c counted) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if !meterOf(pc).mark(parent) {
		return nil
	}
	return c.InlineParser.Parse(parent, block, pc)
}

// CloseBlock implements [parser.CloseBlocker].
func (c counted) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if closer, ok := c.InlineParser.(parser.CloseBlocker); ok {
		closer.CloseBlock(parent, block, pc)
	}
}

// shallow is a parser of blocks that contain others, up to a depth.
type shallow struct{ parser.BlockParser }

// Open implements [parser.BlockParser].
func (s shallow) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for at := parent; at != nil; at = at.Parent() {
		depth++
	}
	if depth > maxNested {
		return nil, parser.NoChildren
	}
	return s.BlockParser.Open(parent, reader, pc)
}

// small makes tables of paragraphs, as long as they have few cells.
type small struct{ parser.ParagraphTransformer }

// Transform implements [parser.ParagraphTransformer].
func (s small) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	m, lines, columns := meterOf(pc), node.Lines(), 0
	for i := range lines.Len() {
		line := lines.At(i)
		columns = max(columns, bytes.Count(line.Value(reader.Source()), []byte{'|'})+1)
	}
	cells := columns * lines.Len()
	if cells > maxCells-m.cells {
		return
	}
	parent := node.Parent()
	s.ParagraphTransformer.Transform(node, reader, pc)
	if last := parent.LastChild(); last != nil && last.Kind() == extast.KindTable {
		m.cells += cells
	}
}

// limited keeps what is written, up to a limit.
type limited struct {
	buffer   bytes.Buffer
	left     int
	exceeded bool
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		l.exceeded = true
		return len(p), nil
	}
	l.left -= len(p)
	return l.buffer.Write(p)
}
