// Package formats reads documents: plain text, Markdown, HTML, PDF, DOCX, CSV and source code. Each one
// is read in a process of its own with bounded memory and time, which is the program itself under another name: what a document does to
// its reader, it does to that process.
//
//	threadmill.Knowledge{Reader: formats.Reader()}
//
// It is a package of its own for its size: PDFium, its WebAssembly runtime, the other parsers and the vocabulary by which tokens are counted. Programs of package app have it.
package formats

import (
	"context"

	"github.com/threadmill/threadmill/document"
	read "github.com/threadmill/threadmill/internal/library/document"
	"github.com/threadmill/threadmill/internal/library/tokens"
)

// Reader returns the reader of documents. It reads files of up to 32 MiB, HTML and Markdown of up to 2 MiB, PDFs of up to 2,000 pages,
// tables of up to 500,000 cells, and up to 8 MiB of text; a document beyond these is an error, and never read in part.
func Reader() document.Reader { return reader{} }

type reader struct{}

func (reader) Tokens(text string) int { return tokens.Count(text) }

func (reader) Read(ctx context.Context, f document.File) (document.Text, error) {
	return read.Read(ctx, f, read.Limits{})
}
