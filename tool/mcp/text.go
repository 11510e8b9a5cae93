package mcp

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/internal/text/term"
)

// Bounds of texts of servers, in bytes.
const (
	maxDescription  = 8 << 10
	maxInstructions = 16 << 10
	maxTitle        = 200
	maxReason       = 500
	maxError        = 2 << 10
	maxLog          = 4 << 10
	maxURI          = 2 << 10
)

// clean returns a text of a server without control characters and bidirectional overrides, of at most
// limit bytes.
func clean(text string, limit int) string {
	return cut(term.Escape(excerpt.Start(text, 2*limit)), limit)
}

// line is clean for a text on one line.
func line(text string, limit int) string {
	return cut(strings.TrimSpace(term.Line(excerpt.Start(text, 2*limit))), limit)
}

// cut shortens a text, and says so.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return excerpt.Start(text, limit-len("…")) + "…"
}

// hides reports whether a text has characters that clean would replace.
func hides(text string) bool { return term.Escape(text) != text }

func bytesText(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
