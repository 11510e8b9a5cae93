// Package document reads documents of people into blocks of text, in bounded memory. A document is what a stranger sent:
// it may be broken, or made to exhaust whoever reads it.
package document

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/document"
	"github.com/threadmill/threadmill/internal/library/document/format"
)

type (
	// File is a document as it came.
	File = document.File

	// Text is what a document says.
	Text = document.Text

	// Block is a part of a document.
	Block = document.Block

	// Error says why a document cannot be read. It would say the same again.
	Error = document.UnreadableError
)

// Limits bound what is read. A document beyond them is an error: it is never read in part.
type Limits struct {
	// Bytes of the file. Default 32 MiB.
	Bytes int

	// Text is the maximum size of the text, in bytes. Default 8 MiB.
	Text int

	// Markup is the maximum size of HTML and Markdown, in bytes: what is parsed as a whole takes up to 200 times as
	// much memory. Default 2 MiB.
	Markup int

	// Pages of a PDF. Default 2,000.
	Pages int

	// Cells of a table of values. Default 500,000.
	Cells int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Bytes:  cmp.Or(l.Bytes, 32<<20),
		Text:   cmp.Or(l.Text, 8<<20),
		Markup: cmp.Or(l.Markup, 2<<20),
		Pages:  cmp.Or(l.Pages, 2000),
		Cells:  cmp.Or(l.Cells, 500_000),
	}
}

func unreadable(format string, args ...any) error {
	return &Error{Reason: fmt.Sprintf(format, args...)}
}

// errEmpty is the error of a document without text.
var errEmpty = &Error{Reason: "the document has no text"}

// parse reads a document in this process.
func parse(j job, content []byte) (Text, error) {
	kind, what := format.Detect(j.Name, j.MediaType, content)
	if kind == "" {
		return Text{}, unreadable("the format of the document (%s) cannot be read; text, Markdown, HTML, PDF, DOCX, CSV and source code can", what)
	}
	w := &writer{job: j, limits: j.Limits}
	err := w.read(kind, File{Name: j.Name, MediaType: j.MediaType, Content: content})
	if e, ok := errors.AsType[*Error](err); ok {
		return Text{}, e
	}
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n") // the rest is the stack of a library
		return Text{}, unreadable("the document is no valid %s: %s", kind, why)
	}
	if len(w.blocks) == 0 {
		return Text{}, errEmpty
	}
	return Text{Format: string(kind), Title: clean(w.title), Blocks: w.blocks}, nil
}

// writer collects the blocks of a document.
type writer struct {
	job    job
	limits Limits
	title  string
	blocks []Block
	size   int
}

// readers read the formats. A reader's error says what is wrong with a document, without naming the format.
var readers = map[format.Format]func(*writer, File) error{
	format.PlainText: (*writer).plainText, format.Markdown: (*writer).markdown, format.HTML: (*writer).html, format.PDF: (*writer).pdf,
	format.DOCX: (*writer).docx, format.CSV: (*writer).csv, format.Code: (*writer).code,
}

func (w *writer) read(kind format.Format, f File) (err error) {
	// Parsers of libraries may panic on what they do not expect.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return readers[kind](w, f)
}

// add adds a block.
func (w *writer) add(b Block) error {
	b.Text = clean(b.Text)
	if b.Text == "" {
		return nil
	}
	if w.size += len(b.Text); w.size > w.limits.Text {
		return unreadable("the document has more than %d bytes of text, which is the limit: split it", w.limits.Text)
	}
	w.blocks = append(w.blocks, b)
	return nil
}

// paragraphs adds the paragraphs of a text.
func (w *writer) paragraphs(text string, page int) error {
	for p := range strings.SplitSeq(text, "\n\n") {
		if err := w.add(Block{Text: p, Page: page}); err != nil {
			return err
		}
	}
	return nil
}

// softHyphen marks where a word may be hyphenated. Nobody sees it, and it would part the word for a search.
const softHyphen = '\u00AD'

// clean returns a text without control characters and soft hyphens, and without space around it. It is valid UTF-8.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == softHyphen {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
}
