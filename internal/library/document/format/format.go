// Package format tells the formats of documents that are read.
package format

import (
	"bytes"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Format is a kind of document.
type Format string

// The formats that are read.
const (
	PlainText Format = "text"
	Markdown  Format = "Markdown"
	HTML      Format = "HTML"
	PDF       Format = "PDF"
	DOCX      Format = "DOCX"
	CSV       Format = "CSV"
	Code      Format = "source code"
)

// byMediaType has the media types that name a format by themselves.
var byMediaType = map[string]Format{
	"text/markdown": Markdown, "text/x-markdown": Markdown,
	"text/html": HTML, "application/xhtml+xml": HTML,
	"application/pdf": PDF,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": DOCX,
	"text/csv": CSV, "text/tab-separated-values": CSV,
	"application/json": Code, "application/yaml": Code, "application/toml": Code, "application/xml": Code, "text/xml": Code,
	"text/javascript": Code, "text/css": Code,
}

// byExtension has the extensions of names of files.
var byExtension = map[string]Format{
	"md": Markdown, "markdown": Markdown, "mdx": Markdown, "html": HTML, "htm": HTML, "xhtml": HTML, "pdf": PDF, "docx": DOCX, "csv": CSV, "tsv": CSV,
	"txt": PlainText, "text": PlainText, "log": PlainText, "rst": PlainText, "adoc": PlainText, "org": PlainText, "tex": PlainText,
}

// source are extensions of source code.
var source = strings.Fields("bash c cc clj cpp cs css dart ex exs erl fish go gradle graphql h hpp hs ini java jl js json jsonl jsx kt kts lua m ml " +
	"mjs nix php pl proto ps1 py r rb rs scala scss sh sql svelte swift tf toml ts tsx vue xml yaml yml zig zsh")

// Known reports whether the name of a file says that it is read.
func Known(name string) bool {
	ext := extension(name)
	return byExtension[ext] != "" || slices.Contains(source, ext)
}

// Detect returns the format of a document: by its media type if that is specific, by its name, or by its content. The format of
// what cannot be read is empty; what says which kind of content it seems to be.
func Detect(name, mediaType string, content []byte) (format Format, what string) {
	stated, _, _ := mime.ParseMediaType(mediaType)
	if format := byMediaType[stated]; format != "" {
		return format, stated
	}
	switch ext := extension(name); {
	case byExtension[ext] != "":
		return byExtension[ext], ext
	case slices.Contains(source, ext):
		return Code, ext
	}
	sniffed, _, _ := mime.ParseMediaType(http.DetectContentType(content))
	switch {
	case byMediaType[sniffed] != "":
		return byMediaType[sniffed], sniffed
	case sniffed == "application/zip" && bytes.Contains(content[:min(len(content), 1<<16)], []byte("word/")):
		return DOCX, sniffed
	case strings.HasPrefix(sniffed, "text/"):
		return PlainText, sniffed
	}
	return "", sniffed
}

func extension(name string) string { return strings.ToLower(strings.TrimPrefix(path.Ext(name), ".")) }
