package addressing

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mentions returns the names that a message addresses: @name at the start of a line, in lower case,
// in order and without duplicates.
//
// Only white space may precede the @, which may be the full-width one of Asian input methods. A name
// consists of ASCII letters, digits, - and _, and begins with a letter or digit. It must end there:
// @a@b.c, @a.b and @a/b are not mentions, but a full stop may follow. Invisible characters around the @
// and the name do not count: phones and right-to-left keyboards add them. Lines in fenced code blocks (``` or ~~~) are ignored, since they may begin with
// decorators and the like.
func Mentions(content string) []string {
	var out []string
	prose(content, func(line string) (string, bool) {
		if name, _, ok := cutMention(strings.TrimLeftFunc(line, blank)); ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
		return line, true
	})
	return out
}

// HasMentionAtStart reports whether a line of the content begins with a mention.
func HasMentionAtStart(content string) bool { return len(Mentions(content)) > 0 }

// mentionsInText reports whether the content mentions one of the names anywhere. An @ inside a
// word, as in an e-mail address, is not a mention.
func mentionsInText(content string, names []string) bool {
	found := false
	prose(content, func(line string) (string, bool) {
		for i, c := range line {
			if !isAt(c) || found || !mentionMayBegin(line[:i]) {
				continue
			}
			name, _, ok := cutMention(line[i:])
			found = ok && HasName(names, name)
		}
		return line, true
	})
	return found
}

// shouldAutoMention reports whether an agent's answer needs a mention of its sender: the sender is
// another agent, which would not answer otherwise, and the answer mentions nobody except perhaps
// the agent itself.
func shouldAutoMention(content, self, sender string, senderIsAgent bool) bool {
	if !senderIsAgent || !isName(sender) || strings.EqualFold(self, sender) {
		return false
	}
	content = withoutSelf(content, self)
	return strings.TrimFunc(content, blank) != "" && !HasMentionAtStart(content)
}

// AutoMention returns an answer to the agent sender with a mention of it, if the answer mentions
// nobody else. It removes the agent's mentions of itself.
func AutoMention(content, self, sender string) string {
	content = withoutSelf(content, self)
	if !shouldAutoMention(content, self, sender, true) {
		return content
	}
	content = strings.TrimLeftFunc(content, blank)
	first, _, _ := strings.Cut(content, "\n")
	if fenceOf(first) != "" {
		// On the same line, the mention would break the code block.
		return "@" + sender + "\n" + content
	}
	return "@" + sender + " " + content
}

// withoutSelf removes the agent's mentions of itself from the start of lines.
func withoutSelf(content, self string) string {
	return withoutMentions(content, func(name string) bool { return strings.EqualFold(name, self) })
}

// withoutMentions removes the mentions for which goes returns true from the start of lines, and
// lines that are then empty.
func withoutMentions(content string, goes func(name string) bool) string {
	out := prose(content, func(line string) (string, bool) {
		text := strings.TrimLeftFunc(line, blank)
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
		return indent + text, strings.TrimFunc(text, blank) != ""
	})
	if out == content {
		return content
	}
	return strings.Trim(out, "\r\n")
}

// unaddressed returns text without its first mention; rest is the text after that mention. A name
// that is part of a word, as in @bob's, remains without the @.
func unaddressed(text, rest string) string {
	said := strings.TrimLeft(rest, ",:;.!?，：；。！？、")
	bare := strings.TrimLeftFunc(said, blank)
	if rest != "" && bare == rest {
		name, _ := cutAt(text)
		return name
	}
	return bare
}

// cutMention splits a mention off the start of text.
func cutMention(text string) (name, rest string, ok bool) {
	after, ok := cutAt(text)
	n := nameLength(after)
	rest = strings.TrimLeftFunc(after[n:], invisible)
	if !ok || n == 0 || !nameMayEnd(rest) {
		return "", text, false
	}
	return strings.ToLower(after[:n]), rest, true
}

// cutAt returns text without the @ at its start. Some phones isolate the direction of the name after it.
func cutAt(text string) (after string, ok bool) {
	at, size := utf8.DecodeRuneInString(text)
	if !isAt(at) {
		return text, false
	}
	return strings.TrimLeftFunc(text[size:], func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }), true
}

// isAt reports whether r is an @, or the full-width one.
func isAt(r rune) bool { return r == '@' || r == '＠' }

// nameLength returns the length of the name at the start of text.
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

// nameMayEnd reports whether a name may end before rest: it is not the start of a longer word, an
// address or a path.
func nameMayEnd(rest string) bool {
	if rest != "" && (rest[0] == '.' || rest[0] == '/') {
		rest = strings.TrimLeftFunc(rest[1:], invisible)
	}
	next, _ := utf8.DecodeRuneInString(rest)
	return !inWord(next) && !isAt(next)
}

// mentionMayBegin reports whether an @ after text begins a word.
func mentionMayBegin(text string) bool {
	before, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(text, invisible))
	return !inWord(before) && !isAt(before) && !strings.ContainsRune("._-+%/", before)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// zeroWidthSpace separates words without being seen.
const zeroWidthSpace = '\u200b'

// blank reports whether r shows nothing: white space, or an invisible character.
func blank(r rune) bool { return unicode.IsSpace(r) || r == zeroWidthSpace || invisible(r) }

// invisible reports whether r is a format character that shows nothing and separates nothing, such as a
// byte order mark, a joiner, a soft hyphen or the direction of a text.
func invisible(r rune) bool {
	return r != zeroWidthSpace && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) &&
		unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// HasName reports whether names contains name, ignoring case.
func HasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// others returns the names except one.
func others(names []string, but string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.EqualFold(name, but) })
}

// prose calls edit for the lines of content outside fenced code blocks. edit returns the new line,
// and whether to keep it. Code blocks are detected in the edited lines, so the result is parsed the
// same way.
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

// fenceOf returns the fence with which a line opens a code block, or "". As in Markdown, backquotes
// that close on the same line are inline code.
func fenceOf(line string) string {
	line = strings.TrimLeftFunc(line, blank)
	for _, mark := range []string{"`", "~"} {
		info := strings.TrimLeft(line, mark)
		fence := line[:len(line)-len(info)]
		if len(fence) >= 3 && (mark == "~" || !strings.Contains(info, mark)) {
			return fence
		}
	}
	return ""
}

// endsFence reports whether a line closes the code block that the fence opened.
func endsFence(line, fence string) bool {
	line = strings.TrimFunc(line, blank)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}
