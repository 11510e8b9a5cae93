package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// card is a running tool call.
type card struct {
	id   string
	name string

	// partial is an incomplete line of progress, shown are the complete ones.
	partial string
	shown   map[string]int
}

// has reports whether all lines of text have been shown as progress.
func (c *card) has(text string) bool {
	left := maps.Clone(c.shown)
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if left[line] == 0 {
			return false
		}
		left[line]--
	}
	return true
}

// callText returns a call for people.
func callText(name, args string) string {
	return visible(name) + " " + cmp.Or(visible(args), "{}")
}

func (r *Renderer) call(id, name, args string) {
	news := r.novelty("call", id, name+" "+args)
	if news == known {
		return
	}
	if r.front != nil {
		r.closeThought(r.front)
	}
	r.leave()
	if news == changed {
		r.write(yellow, "↻ Using "+visible(name)+"…")
	} else {
		r.cards[cardKey(id, name)] = &card{id: id, name: name}
		r.write(cyan, "⚙ Using "+visible(name)+"…")
	}
	r.write(dim, " "+shorten(strings.TrimPrefix(callText(name, args), visible(name)+" "), r.opts.Width))
	r.endLine()
}

// cardKey is the call's id or, in the base protocol, the tool's name.
func cardKey(id, name string) string {
	if id != "" {
		return id
	}
	return "tool/" + name
}

// label distinguishes cards while several are open.
func (r *Renderer) label(c *card) string {
	if len(r.cards) < 2 {
		return ""
	}
	for _, other := range r.cards {
		if other != c && other.name == c.name {
			return visible(c.name) + " " + visible(c.id) + ": "
		}
	}
	return visible(c.name) + ": "
}

func (r *Renderer) progress(e event.AgentEvent) {
	c := r.cards[cardKey(e.ToolCallID, e.ToolName)]
	if c == nil {
		if e.ToolCallID != "" && r.shown["result/"+e.ToolCallID] {
			return
		}
		c = &card{id: e.ToolCallID, name: e.ToolName}
		r.cards[cardKey(e.ToolCallID, e.ToolName)] = c
	}
	text, whole := progressText(e.Data)
	if text == "" || text == "null" {
		return
	}
	c.partial += text
	if whole {
		c.partial += "\n"
	}
	for {
		line, rest, found := strings.Cut(c.partial, "\n")
		if !found {
			return
		}
		c.partial = rest
		r.progressLine(c, line)
	}
}

func (r *Renderer) progressLine(c *card, line string) {
	if c.shown == nil {
		c.shown = map[string]int{}
	}
	c.shown[line]++
	r.line(dim, "│ "+shorten(r.label(c)+line, r.opts.Width))
}

// progressText returns the text of a piece of progress, and whether it is a line rather than a
// chunk of output.
func progressText(data json.RawMessage) (text string, whole bool) {
	if json.Unmarshal(data, &text) == nil {
		return text, !strings.HasSuffix(text, "\n")
	}
	var fields map[string]any
	if json.Unmarshal(data, &fields) == nil {
		for _, key := range []string{"message", "text", "content"} {
			text, ok := fields[key].(string)
			if subtype, _ := fields["subtype"].(string); ok && strings.HasSuffix(subtype, "_chunk") {
				return text, false
			}
			if ok {
				return text, !strings.HasSuffix(text, "\n")
			}
		}
	}
	return oneLine(string(data)), true
}

func (r *Renderer) result(id, name, output string, isError bool) {
	news := r.novelty("result", id, resultForm(output, isError))
	if news == known {
		return
	}
	key := cardKey(id, name)
	c := r.cards[key]
	if c == nil {
		c = &card{id: id, name: name}
	}
	name = cmp.Or(name, c.name)
	if c.partial != "" {
		r.progressLine(c, c.partial)
	}
	head, body := resultText(output)
	s, mark := green, "✓ "
	if isError {
		s, mark = red, "✗ "
	}
	if label := r.label(c); strings.Contains(label, c.id) && c.id != "" {
		name += " " + c.id
	}
	delete(r.cards, key)
	lead := "└ "
	if news == changed {
		lead = "↻ "
	}
	r.leave()
	r.write(s, lead+mark+visible(name))
	r.write(dim, suffix(" ", head))
	r.endLine()
	if body = resultLines(body); !c.has(body) {
		r.resultBody(body, isError)
	}
}

// resultLines returns a result as lines.
func resultLines(body string) string {
	return strings.Trim(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
}

// resultForm distinguishes the results of a call.
func resultForm(output string, isError bool) string { return fmt.Sprint(isError, " ", output) }

func (r *Renderer) resultBody(body string, isError bool) {
	s := plain
	if isError {
		s = red
	}
	if body == "" {
		return
	}
	lines := strings.Split(body, "\n")
	hidden := len(lines) - r.opts.ResultLines
	if hidden > 1 {
		lines = lines[:r.opts.ResultLines]
	}
	for _, line := range lines {
		r.line(s, "  "+shorten(line, r.opts.Width))
	}
	if hidden > 1 {
		r.line(dim, fmt.Sprintf("  … %d more lines", hidden))
	}
}

// resultText splits a result into a remark and the text below it. A command's result is shown as
// its output; a JSON string without its quotes.
func resultText(output string) (head, body string) {
	var text string
	if json.Unmarshal([]byte(output), &text) == nil {
		return "", text
	}
	var command struct {
		Stdout   *string `json:"stdout"`
		Stderr   *string `json:"stderr"`
		ExitCode *int    `json:"exitCode"`
		Error    string  `json:"error"`
	}
	if json.Unmarshal([]byte(output), &command) != nil || command.ExitCode == nil || command.Stdout == nil {
		return "", output
	}
	head = fmt.Sprintf("(exit code %d)", *command.ExitCode)
	body = strings.TrimRight(*command.Stdout, "\n")
	if command.Stderr != nil && *command.Stderr != "" {
		body += "\n" + strings.TrimRight(*command.Stderr, "\n")
	}
	return head, body + suffix("\n", command.Error)
}
