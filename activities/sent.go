package activities

import (
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
)

// sent returns the context that came with the messages of the turn, the oldest first. That of earlier turns is
// out of date.
func (v view) sent(newest []*transcript.Message, eventID string) (out []event.ContextEntry) {
	for _, m := range slices.Backward(newest) {
		if v.asks(m) || m.Record.EventID == eventID && v.concerns(m) {
			out = append(out, event.ContextOf(m.Message)...)
		}
	}
	return out
}

// sentText introduces the context of a message to a model.
const sentText = `The application in which the next message was written sent this with it. It holds for this answer only.`

// sentEnds keeps a value from ending its entry.
var sentEnds = strings.NewReplacer("<context", "‹context", "</context", "‹/context")

// withSent inserts the context of the question before it.
func withSent(messages []llm.Message, question llm.Message, entries []event.ContextEntry) []llm.Message {
	if len(entries) == 0 {
		return messages
	}
	var out strings.Builder
	out.WriteString(sentText)
	for _, e := range entries {
		fmt.Fprintf(&out, "\n\n<context description=%q>\n%s\n</context>", sentEnds.Replace(e.Description), sentEnds.Replace(e.Value))
	}
	return beforeQuestion(messages, question, llm.Message{Role: event.RoleUser, Content: out.String()})
}
