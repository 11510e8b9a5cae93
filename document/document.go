// Package document says what a reader of documents is, for Knowledge.Reader of a runtime. Package formats has one for the common
// formats; one of your own may read others, such as scanned pages, and pass the rest on.
package document

import "context"

// File is a document as it came.
type File struct {
	// Name is the name of the file, or the path of its address.
	Name string

	// MediaType is what its sender states, such as text/html; charset=utf-8. Empty = unknown.
	MediaType string

	// Content has at most 32 MiB.
	Content []byte
}

// Text is what a document says.
type Text struct {
	// Format that was read, in words for people, such as HTML.
	Format string

	// Title is the title that the document states. Empty = none.
	Title string

	// Blocks are its parts, in order. They are cut into chunks, which end with a block where they can.
	Blocks []Block
}

// Block is a part of a document: a heading, or text that belongs together, such as a paragraph, a list, a table or
// a function.
type Block struct {
	// Level of a heading, 1 is the highest. 0 = text.
	Level int

	Text string

	// Page on which the block begins, 1 is the first. 0 = the document has no pages.
	Page int
}

// Reader reads documents. It is called by several steps at once.
type Reader interface {
	// Read reads a document. After an [*UnreadableError], the document has failed; after any other error, it is read again.
	Read(context.Context, File) (Text, error)

	// Tokens returns the number of tokens of a text, by which chunks are cut.
	Tokens(text string) int
}

// UnreadableError says why a document cannot be read. It would say the same again.
type UnreadableError struct{ Reason string }

func (e *UnreadableError) Error() string { return e.Reason }
