package step

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

// MaxCarriedContent is the maximum length of a message's text in history, in bytes.
const MaxCarriedContent = 16 << 10

// Carry returns the message for history: without metadata and tool calls, and with long content
// cut. The store has all of it.
func Carry(m event.Message) event.Message {
	m.Metadata, m.ToolCalls = nil, nil
	if len(m.Content) > MaxCarriedContent {
		m.Content, m.Truncated = Cut(m.Content, MaxCarriedContent), true
	}
	return m
}

// CarryText returns a text for history, and whether it was cut.
func CarryText(text string) (carried string, truncated bool) {
	if len(text) <= MaxCarriedContent {
		return text, false
	}
	return Cut(text, MaxCarriedContent), true
}

// CarryArguments returns a call's arguments for history, cut to limit bytes.
func CarryArguments(arguments string, limit int) string {
	if len(arguments) <= limit {
		return arguments
	}
	return fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them whole)", Cut(arguments, limit), len(arguments))
}

// MaxWholeContent is the maximum length in history of a message's text that hooks hold back, in
// bytes.
const MaxWholeContent = 128 << 10

// CarryWhole returns a message for history that hooks hold back. Content over MaxWholeContent is
// cut, and Truncated set.
func CarryWhole(m event.Message) event.Message {
	if len(m.Content) > MaxWholeContent {
		m.Content, m.Truncated = Cut(m.Content, MaxWholeContent), true
	}
	return m
}

// Cut returns at most the first n bytes of s, without splitting a character.
func Cut(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "")
}
