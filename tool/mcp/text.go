package mcp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/internal/term"
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
func clean(text string, limit int) string { return cut(term.Escape(truncate(text, 2*limit)), limit) }

// line is clean for a text on one line.
func line(text string, limit int) string {
	return cut(strings.TrimSpace(term.Line(truncate(text, 2*limit))), limit)
}

// cut shortens a text, and says so.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return truncate(text, limit-len("…")) + "…"
}

// truncate returns the beginning of a text, without a part of a character at its end.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := max(limit, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// marked shortens a result, and says how much is missing.
func marked(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := fmt.Sprintf("\n[… cut: this is only the beginning of %d bytes …]", len(text))
	return truncate(text, max(limit-len(mark), 0)) + mark
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
