package knowledge

import (
	"sort"
	"strings"

	"github.com/threadmill/threadmill/document"
)

// Block is a part of a document.
type Block = document.Block

// Chunk is a passage of a document, which is embedded and found as a whole.
type Chunk struct {
	Text string

	// Overlap is how many bytes at the beginning of Text repeat the end of the chunk before.
	Overlap int

	// Path is the headings above the whole passage, the highest first.
	Path []string

	// Page on which the chunk begins. 0 = the document has no pages.
	Page int

	// Tokens of Text.
	Tokens int
}

// Defaults of a [Splitter].
const (
	DefaultSize    = 512
	DefaultOverlap = 50
)

// Splitter splits documents into chunks.
type Splitter struct {
	// Size is the maximum number of tokens of a chunk. Default [DefaultSize].
	Size int

	// Overlap is the maximum number of tokens that a chunk repeats of the chunk before, if both are in the same
	// section. Default [DefaultOverlap]; negative = none. At most half of Size.
	Overlap int

	// Count counts the tokens of a text. No word in it has more than [MaxCounted] bytes per token of Size. A token
	// has at least one byte. Required.
	Count func(text string) int
}

// MaxCounted is how many bytes per token a piece of text can have to be counted: longer ones are split first, because
// some tokenizers take quadratic time for long words.
const MaxCounted = 16

// Split returns the chunks of a document. A chunk ends where a section ends if it is at least half full, and
// otherwise where a block, a line, a sentence or a word ends. Chunks contain all text of the blocks; of headings,
// those that are not in Path.
func (s Splitter) Split(blocks []Block) []Chunk {
	if s.Size <= 0 {
		s.Size = DefaultSize
	}
	if s.Overlap == 0 {
		s.Overlap = DefaultOverlap
	}
	s.Overlap = max(0, min(s.Overlap, s.Size/2))
	p := packer{Splitter: s}
	for _, b := range blocks {
		text := strings.TrimSpace(b.Text)
		switch {
		case text == "":
		case b.Level > 0:
			p.heading(min(b.Level, maxLevel), text, b.Page)
		default:
			p.addAll(s.cut(text, s.Size-s.Overlap), b.Page)
		}
	}
	p.leave(0, 0)
	p.flush()
	return p.chunks
}

// Bounds of headings, so that a path leaves room for text.
const (
	maxLevel    = 6
	headingPart = 16 // of a chunk
)

// heading is one of the headings above the current text.
type heading struct {
	level int
	text  string
}

// packer fills one chunk after the other.
type packer struct {
	Splitter
	chunks []Chunk

	path []heading
	bare int // how many headings at the end of path have no text yet

	overlap string
	pieces  []string
	first   []string // the path of the first piece
	above   []string // the common path of all pieces
	page    int
	tokens  int // of all of them, and of first
}

func (p *packer) heading(level int, text string, page int) {
	p.leave(level, page)
	// A heading may be as long as a document.
	pieces := p.cut(text, max(1, p.Size/headingPart))
	p.path = append(p.path, heading{level, pieces[0]})
	p.bare++
	if p.tokens >= p.Size/2 {
		p.flush()
	}
	p.addAll(pieces[1:], page)
}

// leave removes the headings of a level and of those below it from the path. Those without text become text.
func (p *packer) leave(level, page int) {
	keep := len(p.path)
	for keep > 0 && p.path[keep-1].level >= level {
		keep--
	}
	if lost := min(p.bare, len(p.path)-keep); lost > 0 {
		texts := p.names()[len(p.path)-lost:]
		p.path, p.bare = p.path[:len(p.path)-lost], p.bare-lost
		p.add(strings.Join(texts, "\n\n"), page)
	}
	p.path = p.path[:keep]
}

func (p *packer) names() []string {
	names := make([]string, len(p.path))
	for i, h := range p.path {
		names[i] = h.text
	}
	return names
}

func (p *packer) addAll(pieces []string, page int) {
	for _, piece := range pieces {
		p.add(piece, page)
	}
}

// add adds a piece that fits into a chunk beside an overlap.
func (p *packer) add(piece string, page int) {
	path := p.names()
	heads := path[len(path)-p.bare:]
	p.bare = 0
	n := p.cost(piece)
	if len(p.pieces) > 0 {
		if p.tokens+p.cost(heads...)+n > p.Size {
			tail := ""
			if len(heads) == 0 {
				tail = p.tail(p.pieces[len(p.pieces)-1])
			}
			p.flush()
			p.overlap = tail
		} else {
			p.pieces = append(p.pieces, heads...)
			p.tokens += p.cost(heads...)
		}
	}
	if len(p.pieces) == 0 {
		p.first, p.above, p.page = path, path, page
		p.tokens = p.cost(p.overlap) + p.cost(path...)
	}
	p.above = common(p.above, path)
	p.pieces = append(p.pieces, piece)
	p.tokens += n
}

// cost is how many tokens texts add to a chunk, with what separates them.
func (p *packer) cost(texts ...string) int {
	n := 0
	for _, text := range texts {
		if text != "" {
			n += p.Count(text) + 1
		}
	}
	return n
}

// flush ends the chunk, if there is one.
func (p *packer) flush() {
	if len(p.pieces) == 0 {
		return
	}
	var parts []string
	if p.overlap != "" {
		parts = append(parts, p.overlap)
	}
	parts = append(parts, p.first[len(p.above):]...)
	text := strings.Join(append(parts, p.pieces...), separator)
	p.chunks = append(p.chunks, Chunk{Text: text, Overlap: len(p.overlap), Path: p.above, Page: p.page, Tokens: p.Count(text)})
	p.overlap, p.pieces, p.tokens = "", nil, 0
}

// separator is between the pieces of a chunk.
const separator = "\n\n"

// tail returns as many words at the end of a text as the overlap permits.
func (p *packer) tail(text string) string {
	if p.Overlap == 0 {
		return ""
	}
	from := max(0, len(text)-p.Overlap*MaxCounted)
	var starts []int
	for i := from + 1; i < len(text); i++ {
		if text[i-1] == ' ' || text[i-1] == '\n' {
			starts = append(starts, i)
		}
	}
	i := sort.Search(len(starts), func(i int) bool { return p.Count(text[starts[i]:]) <= p.Overlap })
	if i == len(starts) {
		return ""
	}
	return strings.TrimSpace(text[starts[i]:])
}

// common returns the first elements that two paths have in common.
func common(a, b []string) []string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[:i]
		}
	}
	return a[:min(len(a), len(b))]
}
