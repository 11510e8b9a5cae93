package activities

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

const (
	// maxTitle is the maximum length of a title, in bytes.
	maxTitle = 80

	// maxTitleWords is the maximum number of words of a usable title. The model is asked for 3 to
	// 6; a longer text is an answer to something else.
	maxTitleWords = 12
)

// thinking matches the reasoning that some servers leave in a reply.
var thinking = regexp.MustCompile(`(?s)<think(?:ing)?>.*?(?:</think(?:ing)?>|$)`)

// modelTitle returns the title in a model's reply, or "".
func modelTitle(reply string) string {
	for line := range strings.Lines(thinking.ReplaceAllString(reply, "")) {
		title := oneLine(line)
		switch {
		case strings.HasSuffix(title, ":"), !readable(title):
			// An introduction of the title, or text around it.
			continue
		case len(strings.Fields(title)) > maxTitleWords:
			return ""
		}
		return cutAtWord(title, maxTitle)
	}
	return ""
}

// leadingMentions matches mentions at the start, which are not part of the topic.
var leadingMentions = regexp.MustCompile(`^(@[\w-]+[,:]?\s+)+`)

// plainTitle returns a title without a model: the start of the first user's message or, if there is
// none, of the first message.
func plainTitle(statements []statement) string {
	for _, people := range []bool{true, false} {
		for _, s := range statements {
			if s.person != people {
				continue
			}
			for line := range strings.Lines(s.text) {
				line = leadingMentions.ReplaceAllString(strings.TrimSpace(line), "")
				if title := strings.TrimRight(cutAtWord(oneLine(line), maxTitle), " :"); readable(title) {
					return title
				}
			}
		}
	}
	return ""
}

var (
	link          = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	blockMark     = regexp.MustCompile(`^(?:(?:#{1,6}|[-*+>]|\d{1,3}[.)])\s+)+`)
	emphasisOpen  = regexp.MustCompile("(^|[\\s(])[*_~`]+([^\\s*_~`])")
	emphasisClose = regexp.MustCompile("([^\\s*_~`])[*_~`]+($|[\\s).,:;!?])")
	titleLabel    = regexp.MustCompile(`(?i)^title:\s+`)
)

// oneLine returns a line as a title: without Markdown, quotes, a final period and invisible
// characters.
func oneLine(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "```") {
		return ""
	}
	line = event.CleanLine(strings.Map(withoutDirection, strings.ToValidUTF8(line, "")))
	line = link.ReplaceAllString(line, "$1")
	line = blockMark.ReplaceAllString(line, "")
	line = emphasisOpen.ReplaceAllString(line, "$1$2")
	line = emphasisClose.ReplaceAllString(line, "$1$2")
	line = titleLabel.ReplaceAllString(line, "")
	line = withoutPeriod(strings.TrimSpace(strings.Map(unquoted, line)))
	if len(line) > 1 && line[0] == '\'' && line[len(line)-1] == '\'' {
		line = withoutPeriod(line[1 : len(line)-1])
	}
	return line
}

func withoutPeriod(s string) string { return strings.TrimRight(s, " .。") }

// withoutDirection removes characters that change the direction of text.
func withoutDirection(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) {
		return -1
	}
	return r
}

// unquoted removes quotation marks, except single ones, which may be apostrophes.
func unquoted(r rune) rune {
	if strings.ContainsRune("\"“”„‟«»「」『』", r) {
		return -1
	}
	return r
}

// readable reports whether a text has a letter or digit.
func readable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// cutAtWord returns the start of a text, at most n bytes long, and whole words if there is more
// than one.
func cutAtWord(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	head := s[:end]
	// The next character tells whether the last word is complete.
	if next, _ := utf8.DecodeRuneInString(s[end:]); !unicode.IsSpace(next) {
		if at := strings.LastIndexFunc(head, unicode.IsSpace); at > 0 {
			head = head[:at]
		}
	}
	return strings.TrimRight(head, " \t\r\n,;:–—-(")
}
