package thread

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Direction is what the directives in an agent's reply say about who answers it.
type Direction struct {
	// Ends: <world>STOP</world>, DONE or PASS. Nobody is to answer, whoever is mentioned.
	Ends bool

	// To are those whom <world>TO:a,b</world> names, in lower case, in order and without
	// duplicates: they are to answer, and no others.
	To []string
}

// Directed takes the directives out of a reply. A directive stands on one line, in any
// case; what is none, such as <world>HELLO</world>, stays as it is, and so does what stands
// in a fenced code block. Names that TO cannot mean are passed over.
func Directed(content string) (text string, how Direction) {
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

// take takes the directives of a line in, and returns what else it says. Tags that meet
// only once a directive between them is out are read as well: nothing that is left is one.
func (d *Direction) take(line string) string {
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

func (d *Direction) read(found [][]byte) {
	if found[2] == nil {
		d.Ends = true
		return
	}
	names := strings.FieldsFunc(string(found[2]), func(r rune) bool { return r == ',' || r == ';' || unicode.IsSpace(r) })
	for _, name := range names {
		name = strings.ToLower(strings.TrimPrefix(name, "@"))
		if isName(name) && !slices.Contains(d.To, name) {
			d.To = append(d.To, name)
		}
	}
}

// Addressing settles whom an agent's final reply addresses, before it is stored. self is
// the agent; sender is the one that it answers, senderIsAgent says that this is an agent.
//
//   - A directive holds over all mentions: they go, and those whom TO names take their
//     place, one to a line. STOP, DONE and PASS leave none, also beside a TO.
//   - The agent's mentions of itself go.
//   - If auto says so, an answer to an agent gets its mention ([AutoMention]).
//
// What is left may be empty: a reply that was nothing but <world>PASS</world>.
func Addressing(content, self, sender string, senderIsAgent, auto bool) string {
	text, how := Directed(content)
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
