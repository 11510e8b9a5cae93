package addressing

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// direction is the content of the directives in an agent's reply: who answers it.
type direction struct {
	// Ends is true for <world>STOP</world>, DONE and PASS: nobody answers, despite mentions.
	Ends bool

	// To are the names in <world>TO:a,b</world>, in lower case, in order and without duplicates:
	// only they answer.
	To []string
}

// directed removes the directives from a reply. A directive is on one line, in any case. Unknown
// ones, such as <world>HELLO</world>, and fenced code blocks remain unchanged. Invalid names in TO
// are ignored.
func directed(content string) (text string, how direction) {
	text = prose(content, func(line string) (string, bool) {
		left := how.take(line)
		if left == line {
			return line, true
		}
		left = strings.TrimRightFunc(left, unicode.IsSpace)
		return left, left != ""
	})
	if text == content {
		return content, how
	}
	return strings.Trim(text, "\r\n"), how
}

const closingTag = "</world>"

var (
	closing   = regexp.MustCompile(`(?i)` + closingTag)
	directive = regexp.MustCompile(`(?i)^<world>\s*(stop|done|pass|to:([^<>]*))\s*</world>$`)
)

// take reads the directives of a line and returns the rest of the line. It repeats until no
// directive is left: removing one may join the parts of another.
func (d *direction) take(line string) string {
	var out []byte
	for {
		at := closing.FindStringIndex(line)
		if at == nil {
			return string(out) + line
		}
		out = append(out, line[:at[1]]...)
		line = line[at[1]:]
		begin := bytes.LastIndexByte(out[:len(out)-len(closingTag)], '<')
		if begin < 0 {
			continue
		}
		found := directive.FindSubmatch(out[begin:])
		if found == nil {
			continue
		}
		d.read(found)
		out = out[:begin]
		if len(out) == 0 || out[len(out)-1] == ' ' {
			line = strings.TrimLeft(line, " ")
		}
	}
}

func (d *direction) read(found [][]byte) {
	if found[2] == nil {
		d.Ends = true
		return
	}
	names := strings.FieldsFunc(string(found[2]), func(r rune) bool { return r == ',' || r == ';' || unicode.IsSpace(r) })
	for _, name := range names {
		name, _ = cutAt(name)
		name = strings.ToLower(name)
		if isName(name) && !slices.Contains(d.To, name) {
			d.To = append(d.To, name)
		}
	}
}

// Rewrite rewrites an agent's final reply to show whom it addresses, before it is stored. self
// is the agent, sender the participant that it answers, and senderIsAgent whether that is an agent.
//
//   - A directive overrides all mentions: they are replaced by mentions of the names in TO, one per
//     line. STOP, DONE and PASS leave no mentions, even with a TO.
//   - The agent's mentions of itself are removed.
//   - If auto is set, an answer to an agent mentions it ([AutoMention]).
//
// The result may be empty, for a reply that was only <world>PASS</world>.
func Rewrite(content, self, sender string, senderIsAgent, auto bool) string {
	text, how := directed(content)
	to := others(how.To, self)
	everybody := func(string) bool { return true }
	switch {
	case how.Ends:
		return withoutMentions(text, everybody)
	case len(to) > 0:
		front := "@" + strings.Join(to, "\n@")
		if text = withoutMentions(text, everybody); text == "" {
			return front
		}
		return front + "\n\n" + text
	case auto && senderIsAgent:
		return AutoMention(text, self, sender)
	}
	return withoutSelf(text, self)
}
