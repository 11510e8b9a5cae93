package markdown

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	// maxCode is the maximum size of a block of code that is highlighted, in bytes.
	maxCode = 16 << 10

	// blockCost is what any block costs of a budget's code, in bytes: looking up its language.
	blockCost = 512

	// maxLanguage is the maximum size of a language's name in bytes.
	maxLanguage = 32

	// maxToken is the size up to which tokens of one type become one, in bytes.
	maxToken = 1 << 10

	// codeTime is the time in which a block must be highlighted.
	codeTime = 500 * time.Millisecond
)

// lexing has a slot for each lexer that runs. A lexer can be stopped between two tokens only, and its
// regular expressions may take long for one, so that a stopped one keeps its slot until then.
var lexing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// languages are the lexers by the names of their languages. Chroma's own lookup compares an unknown
// name with the patterns of all file names, which takes milliseconds.
var languages = sync.OnceValue(func() map[string]chroma.Lexer {
	all := map[string]chroma.Lexer{}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		for _, name := range append(lexer.Config().Aliases, lexer.Config().Name) {
			if name = strings.ToLower(name); all[name] == nil {
				all[name] = lexer
			}
		}
	}
	return all
})

var formatter = chromahtml.New(chromahtml.WithClasses(true))

// code is a block of highlighted code.
type code struct {
	ast.BaseBlock
	html []byte
}

var kindCode = ast.NewNodeKind("HighlightedCode")

// Kind implements [ast.Node].
func (*code) Kind() ast.NodeKind { return kindCode }

// IsRaw implements [ast.Node].
func (*code) IsRaw() bool { return true }

// Dump implements [ast.Node].
func (c *code) Dump(source []byte, level int) { ast.DumpHelper(c, source, level, nil, nil) }

// highlighter highlights the code of a text, as far as its budget goes. Other code is left as it is.
type highlighter struct{}

// Transform implements [parser.ASTTransformer].
func (highlighter) Transform(root *ast.Document, reader text.Reader, pc parser.Context) {
	m := meterOf(pc)
	if m.exceeded {
		return
	}
	var blocks []*ast.FencedCodeBlock
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if block, ok := n.(*ast.FencedCodeBlock); ok && entering {
			blocks = append(blocks, block)
		}
		return ast.WalkContinue, nil
	})
	source := reader.Source()
	for _, block := range blocks {
		language, lines := string(block.Language(source)), block.Lines().Value(source)
		if html := m.budget.highlight(language, lines); html != nil {
			block.Parent().ReplaceChild(block.Parent(), block, &code{html: html})
		}
	}
}

// RegisterFuncs implements [renderer.NodeRenderer].
func (highlighter) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(kindCode, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		_, err := w.Write(n.(*code).html)
		return ast.WalkSkipChildren, err
	})
}

// highlight returns code as HTML, or nil if it has no known language or costs too much.
func (b *Budget) highlight(language string, source []byte) []byte {
	cost := blockCost + len(source)
	if language == "" || len(language) > maxLanguage || len(source) > maxCode || cost > b.code {
		return nil
	}
	b.code -= cost
	lexer := languages()[strings.ToLower(language)]
	if lexer == nil {
		return nil
	}
	until := time.Now().Add(codeTime)
	if b.until.Before(until) {
		until = b.until
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	select {
	case lexing <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	done := make(chan []byte, 1)
	go func() {
		defer func() { <-lexing }()
		done <- lex(ctx, lexer, string(source))
	}()
	select {
	case html := <-done:
		return html
	case <-ctx.Done():
		return nil
	}
}

// lex returns code as HTML, or nil if the context ends or the lexer fails.
func lex(ctx context.Context, lexer chroma.Lexer, source string) (html []byte) {
	defer func() {
		if recover() != nil { // chroma reports errors of lexers so
			html = nil
		}
	}()
	next, err := lexer.Tokenise(nil, source)
	if err != nil {
		return nil
	}
	var tokens []chroma.Token
	for token := next(); token != chroma.EOF; token = next() {
		switch last := len(tokens) - 1; {
		case ctx.Err() != nil:
			return nil
		case last >= 0 && tokens[last].Type == token.Type && len(tokens[last].Value) < maxToken:
			tokens[last].Value += token.Value
		case token.Value != "":
			tokens = append(tokens, token)
		}
	}
	var out bytes.Buffer
	if err := formatter.Format(&out, styles.Fallback, chroma.Literator(tokens...)); err != nil {
		return nil
	}
	return out.Bytes()
}
