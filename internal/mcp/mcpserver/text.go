package mcpserver

import (
	"fmt"
	"unicode/utf8"
)

// Bounds of what goes out, in bytes.
const (
	maxText      = 64 << 10 // of the reply of a turn
	maxMessage   = 16 << 10 // of a message in a list
	maxArguments = 4 << 10  // of a tool call in a list
	maxPage      = 192 << 10
	maxError     = 4 << 10
	maxLine      = 200
)

// cut shortens a text that is too long, and says so.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d more bytes)", text[:end], len(text)-end)
}
