package script

import (
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// titleWords is the maximum number of words of a title.
const titleWords = 6

// wantsTitle reports whether a request is for the title of a conversation.
func wantsTitle(req llm.Request) bool {
	return req.Messages[0].Role == event.RoleSystem && req.Messages[0].Content == llm.TitleInstructions
}

// title replies with the first words of a conversation, whose paragraphs begin with the sender.
func (r *runner) title(conversation string) {
	line, _, _ := strings.Cut(conversation, "\n")
	if _, said, ok := strings.Cut(line, ": "); ok {
		line = said
	}
	words := strings.Fields(mentions.ReplaceAllString(line, ""))
	r.words(strings.Join(words[:min(len(words), titleWords)], " "))
}
