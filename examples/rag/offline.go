package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
)

// offline is the demo model. It understands nothing: it quotes the passages that have a word of the question.
type offline struct{ *demo.Provider }

// Generate implements [llm.Provider].
func (m offline) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	req.Messages = []llm.Message{{Role: event.RoleUser, Content: quotes(req.Messages)}}
	return m.Provider.Generate(ctx, req, onDelta)
}

// passage is a passage as models are given it.
var passage = regexp.MustCompile(`(?s)<passage number="(\d+)".*?>\n(.*?)\n</passage>`)

// quotes answers the last message. What was found for it precedes it.
func quotes(messages []llm.Message) string {
	asked := words(messages[len(messages)-1].Content)
	var quoted []string
	for _, given := range passage.FindAllStringSubmatch(messages[len(messages)-2].Content, -1) {
		for word := range words(given[2]) {
			if asked[word] {
				quoted = append(quoted, fmt.Sprintf("%q [%s]", strings.Join(strings.Fields(given[2]), " "), given[1]))
				break
			}
		}
	}
	if len(quoted) == 0 {
		return "The passages do not answer this."
	}
	return strings.Join(quoted, " ")
}

// words returns the words of a text that may mean something: those with four letters or more.
func words(text string) map[string]bool {
	found := map[string]bool{}
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(word) > 3 {
			found[word] = true
		}
	}
	return found
}
