package thread

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mentions are those whom a message addresses: each name that a line begins with, as
// @name, in lower case, in order and without duplicates.
//
// Only whitespace may stand before the @. A name begins with a letter or a digit and goes
// on with letters, digits, - and _, all of ASCII. What goes on beyond that is no mention,
// such as @a@b.c, @a.b or @a/b; a full stop that ends a sentence does not matter. Lines of
// a fenced code block (``` or ~~~) address nobody: they begin with decorators and the like.
func Mentions(content string) []string {
	var out []string
	prose(content, func(line string) (string, bool) {
		if name, _, ok := cutMention(strings.TrimLeftFunc(line, unicode.IsSpace)); ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
		return line, true
	})
	return out
}

// HasMentionAtStart reports whether a line of the content begins with a mention.
func HasMentionAtStart(content string) bool { return len(Mentions(content)) > 0 }

// mentionsInText reports whether the content mentions one of the names anywhere. An @ that
// goes on a word, as in an e-mail address, is no mention.
func mentionsInText(content string, names []string) bool {
	found := false
	prose(content, func(line string) (string, bool) {
		for i, c := range line {
			if c != '@' || found || !mentionMayBegin(line[:i]) {
				continue
			}
			name, _, ok := cutMention(line[i:])
			found = ok && hasName(names, name)
		}
		return line, true
	})
	return found
}

// ShouldAutoMention reports whether an agent's answer has to be given a mention of the
// sender that it answers. That is so when the sender is another agent, which would not
// hear it otherwise, and the answer addresses nobody but perhaps the agent itself.
func ShouldAutoMention(content, self, sender string, senderIsAgent bool) bool {
	if !senderIsAgent || !isName(sender) || strings.EqualFold(self, sender) {
		return false
	}
	content = withoutSelf(content, self)
	return strings.TrimSpace(content) != "" && !HasMentionAtStart(content)
}

// AutoMention makes sure that an answer to the agent sender addresses somebody other than
// the agent that gives it: the sender, if nobody else. The agent's mentions of itself go.
func AutoMention(content, self, sender string) string {
	content = withoutSelf(content, self)
	if !ShouldAutoMention(content, self, sender, true) {
		return content
	}
	content = strings.TrimLeftFunc(content, unicode.IsSpace)
	first, _, _ := strings.Cut(content, "\n")
	if fenceOf(first) != "" {
		// On the same line, it would make text of the code.
		return "@" + sender + "\n" + content
	}
	return "@" + sender + " " + content
}

// withoutSelf takes the agent's mentions of itself off the start of lines.
func withoutSelf(content, self string) string {
	return withoutMentions(content, func(name string) bool { return strings.EqualFold(name, self) })
}

// withoutMentions takes mentions off the start of lines, if they are to go. A line that
// says nothing else goes with them.
func withoutMentions(content string, goes func(name string) bool) string {
	out := prose(content, func(line string) (string, bool) {
		text := strings.TrimLeftFunc(line, unicode.IsSpace)
		indent, whole := line[:len(line)-len(text)], text
		for {
			name, rest, ok := cutMention(text)
			if !ok || !goes(name) {
				break
			}
			text = unaddressed(text, rest)
		}
		if text == whole {
			return line, true
		}
		return indent + text, strings.TrimSpace(text) != ""
	})
	if out == content {
		return content
	}
	return strings.Trim(out, "\r\n")
}

// unaddressed is text without the mention that it begins with, of which rest is left. A
// name that is part of what is said, as in @bob's, stays as a name.
func unaddressed(text, rest string) string {
	said := strings.TrimLeft(rest, ",:;.!?")
	bare := strings.TrimLeftFunc(said, unicode.IsSpace)
	if rest != "" && bare == rest {
		return text[len("@"):]
	}
	return bare
}

// cutMention takes a mention off the start of text.
func cutMention(text string) (name, rest string, ok bool) {
	after, ok := strings.CutPrefix(text, "@")
	n := nameLength(after)
	if !ok || n == 0 || !nameMayEnd(after[n:]) {
		return "", text, false
	}
	return strings.ToLower(after[:n]), after[n:], true
}

// nameLength is how much of the start of text is a name.
func nameLength(text string) int {
	for i, c := range []byte(text) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return i
		}
	}
	return len(text)
}

func isName(text string) bool { return text != "" && nameLength(text) == len(text) }

// nameMayEnd reports whether a name is all there is before rest, not the start of a longer
// word, of an address or of a path.
func nameMayEnd(rest string) bool {
	if rest != "" && (rest[0] == '.' || rest[0] == '/') {
		rest = rest[1:]
	}
	next, _ := utf8.DecodeRuneInString(rest)
	return !inWord(next) && next != '@'
}

// mentionMayBegin reports whether an @ behind text begins a word.
func mentionMayBegin(text string) bool {
	before, _ := utf8.DecodeLastRuneInString(text)
	return !inWord(before) && !strings.ContainsRune("@._-+%/", before)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// hasName reports whether name is among names, in any case.
func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// others are the names but one.
func others(names []string, but string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.EqualFold(name, but) })
}

// prose passes the lines of content that are not in a fenced code block to edit, which
// returns what becomes of the line, and whether it stays at all. Whether a line is code is
// decided on the lines as edit has left them, so the result is read as it was meant.
func prose(content string, edit func(line string) (string, bool)) string {
	var lines []string
	fence := ""
	for line := range strings.SplitSeq(content, "\n") {
		if fence != "" {
			if endsFence(line, fence) {
				fence = ""
			}
			lines = append(lines, line)
			continue
		}
		line, stays := edit(line)
		if stays {
			lines = append(lines, line)
			fence = fenceOf(line)
		}
	}
	return strings.Join(lines, "\n")
}

// fenceOf is the fence with which a line opens a block of code, if it does. As in Markdown,
// a line of backquotes that ends on itself is code within a text.
func fenceOf(line string) string {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	for _, mark := range []string{"`", "~"} {
		info := strings.TrimLeft(line, mark)
		fence := line[:len(line)-len(info)]
		if len(fence) >= 3 && (mark == "~" || !strings.Contains(info, mark)) {
			return fence
		}
	}
	return ""
}

// endsFence reports whether a line closes the block that the fence has opened.
func endsFence(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}
