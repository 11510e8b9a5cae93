package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
)

// offline is a model that understands nothing: it quotes the passages that have a word of the question.
func offline() llm.Provider {
	return scripted.New(scripted.Answer(func(req llm.Request) scripted.Reply { return scripted.Say(quotes(req.Messages)) }))
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
