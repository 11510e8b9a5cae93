// Package strictyaml keeps YAML from exhausting whoever parses it.
package strictyaml

import (
	"fmt"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// Bounds of a file.
const (
	MaxSize  = 1 << 20 // bytes
	MaxDepth = strictjson.MaxDepth

	// maxAliases bounds the uses of anchors: each repeats the value of its anchor, which may
	// hold others. That of a value may be repeated 36 times so.
	maxAliases = 10
)

// Error is why a file is not parsed, and in which line.
type Error struct {
	Line    int
	Problem string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Check reports, as an [*Error], a file that is too large, too deep or repeats itself too
// often. It looks at tokens, and builds nothing of them.
func Check(data []byte) error {
	if len(data) > MaxSize {
		return &Error{1, fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), MaxSize)}
	}
	flow, aliases, marks := 0, 0, 0
	var columns []int // of the blocks around a token
	for _, t := range lexer.Tokenize(string(data)) {
		if t.Type == token.TagType || t.Type == token.AnchorType {
			marks++ // which a parser nests, too
		} else {
			marks = 0
		}
		switch t.Type { //nolint:exhaustive // of all others there are no levels
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.AliasType:
			if aliases++; aliases > maxAliases {
				return &Error{t.Position.Line, fmt.Sprintf("there are more than %d aliases: write some of the values out", maxAliases)}
			}
		case token.SequenceEntryType, token.MappingKeyType, token.StringType:
			if flow > 0 {
				break
			}
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		if flow+len(columns) > MaxDepth+1 || marks > MaxDepth {
			return tooDeep(t.Position.Line)
		}
	}
	return nil
}

func tooDeep(line int) error {
	return &Error{line, fmt.Sprintf("there are more than %d levels of lists and mappings", MaxDepth)}
}
