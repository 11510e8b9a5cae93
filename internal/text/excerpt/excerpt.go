// Package excerpt shortens texts, and says so in them.
package excerpt

import (
	"fmt"
	"unicode/utf8"
)

// Text returns a text of at most limit bytes. If it is shortened, its end says how much it was.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := fmt.Sprintf("\n[… cut: this is only the beginning of %d bytes …]", len(text))
	return Start(text, limit-len(mark)) + mark
}

// Start returns at most the first n bytes of a text, without splitting a character.
func Start(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// End returns at most the last n bytes of a text, without splitting a character.
func End(text string, n int) string {
	if len(text) <= n {
		return text
	}
	at := len(text) - max(n, 0)
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}
