package knowledge

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Sizes of what a model is shown of a document to place its chunks, in tokens. They are approximate: texts are cut by their share
// of a chunk's tokens.
const (
	WholeTokens     = 8000 // a document that is shown as a whole
	BeginningTokens = 2000 // the beginning of a larger one
	OutlineTokens   = 1000 // its headings
	BeforeTokens    = 1000 // what precedes a chunk of it
	AfterTokens     = 500  // and what follows

	bytesPerToken = 4 // of English
)

// Whole returns the text of a document, if it is small enough to be shown as a whole.
func Whole(chunks []Chunk) (text string, ok bool) {
	n := 0
	for _, c := range chunks {
		n += c.Tokens
	}
	if n > WholeTokens {
		return "", false
	}
	return Beginning(chunks, n), true
}

// Beginning returns the text at the beginning of chunks, of at most limit tokens, with headings where they change.
func Beginning(chunks []Chunk, limit int) string {
	var parts []string
	var path []string
	for _, c := range chunks {
		if limit <= 0 {
			break
		}
		if !slices.Equal(c.Path, path) {
			path = c.Path
			parts = append(parts, strings.TrimSpace("# "+strings.Join(path, " > ")))
		}
		text := own(c)
		if c.Tokens > limit {
			text = text[:boundary(text, len(text)*limit/c.Tokens)]
		}
		parts, limit = append(parts, strings.TrimSpace(text)), limit-c.Tokens
	}
	return strings.Join(parts, separator)
}

// End returns the text at the end of chunks, of at most limit tokens.
func End(chunks []Chunk, limit int) string {
	var parts []string
	for _, c := range slices.Backward(chunks) {
		if limit <= 0 {
			break
		}
		text := own(c)
		if c.Tokens > limit {
			text = text[boundary(text, len(text)-len(text)*limit/c.Tokens):]
		}
		parts, limit = append(parts, strings.TrimSpace(text)), limit-c.Tokens
	}
	slices.Reverse(parts)
	return strings.Join(parts, separator)
}

// Outline returns the headings of chunks, one a line, indented by their level, of at most limit tokens.
func Outline(chunks []Chunk, limit int) string {
	var out strings.Builder
	var path []string
	for _, c := range chunks {
		for level := len(common(path, c.Path)); level < len(c.Path); level++ {
			line := strings.Repeat("  ", level) + "- " + c.Path[level] + "\n"
			if out.Len()+len(line) > limit*bytesPerToken {
				return out.String()
			}
			out.WriteString(line)
		}
		path = c.Path
	}
	return out.String()
}

// own returns the text of a chunk without what it repeats of the chunk before.
func own(c Chunk) string { return c.Text[boundary(c.Text, c.Overlap):] }

// boundary returns the last place up to at where a character begins.
func boundary(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
