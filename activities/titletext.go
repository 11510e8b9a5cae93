package activities

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

const (
	// maxTitle is how long a title is at most, in bytes.
	maxTitle = 80

	// maxTitleWords is how much a model may say that it was asked for a title of 3 to 6
	// words. More is no title, but an answer to something else.
	maxTitleWords = 12
)

// thinking is what some servers leave in a reply of what the model thought before.
var thinking = regexp.MustCompile(`(?s)<think(?:ing)?>.*?(?:</think(?:ing)?>|$)`)

// modelTitle is the title in what a model has said, "" if there is none.
func modelTitle(reply string) string {
	for line := range strings.Lines(thinking.ReplaceAllString(reply, "")) {
		title := oneLine(line)
		switch {
		case strings.HasSuffix(title, ":"), !readable(title):
			// What leads up to a title, and what stands around it.
			continue
		case len(strings.Fields(title)) > maxTitleWords:
			return ""
		}
		return cutAtWord(title, maxTitle)
	}
	return ""
}

// leadingMentions say whom a text is for, not what it is about.
var leadingMentions = regexp.MustCompile(`^(@[\w-]+[,:]?\s+)+`)

// plainTitle is the title of a conversation that no model has named: what a person said
// first or, if only others have spoken, what they did.
func plainTitle(said []statement) string {
	for _, people := range []bool{true, false} {
		for _, s := range said {
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

// oneLine is a line as a title: without markdown, quotes and a period at its end, and
// with nothing that would not be seen as it is.
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

// withoutDirection drops what turns the direction of text.
func withoutDirection(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) {
		return -1
	}
	return r
}

// unquoted drops quotation marks. Single ones may be apostrophes, and stay.
func unquoted(r rune) rune {
	if strings.ContainsRune("\"“”„‟«»「」『』", r) {
		return -1
	}
	return r
}

// readable reports whether there is a word in a text.
func readable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// cutAtWord returns the beginning of a text, at most n bytes long: whole words, if there
// is more than one.
func cutAtWord(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	head := s[:end]
	// The next character says whether the last word is whole.
	if next, _ := utf8.DecodeRuneInString(s[end:]); !unicode.IsSpace(next) {
		if at := strings.LastIndexFunc(head, unicode.IsSpace); at > 0 {
			head = head[:at]
		}
	}
	return strings.TrimRight(head, " \t\r\n,;:–—-(")
}
