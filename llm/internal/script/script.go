// Package script is the offline model of llm/demo and llm/llmtest. It converts a request to the
// pieces of a reply. The language is documented at llm/demo.
package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Greeting opens the first reply in a thread.
const Greeting = "This is the offline stand-in for a language model; set OPENAI_API_KEY to talk to a real one, " +
	"or steer this one with lines like `use <tool> <json>`, `count 10` and `think <text>`."

// MaxCount is the maximum of `count`.
const MaxCount = 100_000

// Piece is one token of a reply.
type Piece struct {
	// Wait is the delay before the piece.
	Wait    time.Duration
	Text    string
	Thought string
}

// Reply is a complete reply, with markup in its text.
type Reply struct {
	Pieces []Piece
	Calls  []event.ToolCall
	Usage  event.Usage
}

// Run returns the reply to a request.
func Run(req llm.Request, quiet bool) Reply {
	last := lastUser(req.Messages)
	var r runner
	if last >= 0 && wantsTitle(req) {
		r.title(req.Messages[last].Content)
		return r.finish(req)
	}
	if !quiet && !answered(req.Messages) {
		r.words(Greeting)
		r.newline = "\n\n"
	}
	script, round := "", 0
	if last >= 0 {
		script = req.Messages[last].Content
		round = r.results(req.Messages[last+1:])
	}
	for _, line := range segment(script, round) {
		r.line(line)
	}
	r.choose(req)
	Identify(r.calls, req)
	return r.finish(req)
}

func lastUser(messages []llm.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == event.RoleUser {
			return i
		}
	}
	return -1
}

func answered(messages []llm.Message) bool {
	for _, m := range messages {
		if m.Role == event.RoleAssistant {
			return true
		}
	}
	return false
}

var mentions = regexp.MustCompile(`^\s*(@[\w.-]+[,:]?\s+)+`)

// segment returns the lines for one reply. round is the number of replies with tool calls that the
// script has already produced. A step without tool calls continues with the next step.
func segment(script string, round int) []string {
	script = mentions.ReplaceAllString(script, "")
	segments, calls := [][]string{nil}, false
	for line := range strings.SplitSeq(script, "\n") {
		line = strings.TrimSuffix(line, "\r")
		here := &segments[len(segments)-1]
		switch {
		case strings.TrimSpace(line) != "then":
			*here = append(*here, line)
			calls = calls || useLine.MatchString(line)
		case calls:
			segments, calls = append(segments, nil), false
		}
	}
	if round >= len(segments) {
		return nil
	}
	return segments[round]
}

type runner struct {
	thoughts, text []Piece
	calls          []event.ToolCall
	newline        string // precedes the next piece of text
	blank          int    // blank lines, which count only if text follows
	usage          event.Usage
}

var (
	useLine   = regexp.MustCompile(`^\s*use\s+(\S+)(?:\s+(.*\S))?\s*$`)
	thinkLine = regexp.MustCompile(`^\s*think\s+(.*\S)\s*$`)
	countLine = regexp.MustCompile(`^\s*count\s+(\d+)(?:\s+every\s+(\S+))?\s*$`)
	cacheLine = regexp.MustCompile(`^\s*cache\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})\s*$`)
	word      = regexp.MustCompile(`\s*\S+|\s+$`)
)

func (r *runner) line(line string) {
	if m := useLine.FindStringSubmatch(line); m != nil {
		r.use(m[1], m[2])
		return
	}
	if m := thinkLine.FindStringSubmatch(line); m != nil {
		r.think(m[1])
		return
	}
	if m := countLine.FindStringSubmatch(line); m != nil {
		r.count(m[1], m[2])
		return
	}
	if m := cacheLine.FindStringSubmatch(line); m != nil {
		for i, count := range []*int{&r.usage.CachedTokens, &r.usage.CacheWriteTokens, &r.usage.CacheWriteHourTokens} {
			*count, _ = strconv.Atoi(m[i+1]) // it has up to nine digits
		}
		return
	}
	if strings.TrimSpace(line) == "" {
		if len(r.text) > 0 && r.newline == "\n" {
			r.blank++
		}
		return
	}
	r.words(line)
}

func (r *runner) use(tool, args string) {
	if args == "" {
		args = "{}"
	}
	r.calls = append(r.calls, event.ToolCall{Function: event.Function{Name: tool, Arguments: args}})
}

// choose leaves out the calls that a request forbids, and adds the one that it demands.
func (r *runner) choose(req llm.Request) {
	name := req.ToolChoice.Tool()
	if req.ToolChoice == llm.ToolsNone || name != "" {
		r.calls = slices.DeleteFunc(r.calls, func(c event.ToolCall) bool { return c.Function.Name != name })
	}
	if req.ToolChoice == llm.ToolsRequired && len(req.Tools) > 0 {
		name = req.Tools[0].Name
	}
	if name != "" && len(r.calls) == 0 {
		r.use(name, "")
	}
}

func (r *runner) think(text string) {
	if len(r.thoughts) > 0 {
		text = "\n" + text
	}
	for _, w := range word.FindAllString(text, -1) {
		r.thoughts = append(r.thoughts, Piece{Thought: w})
	}
}

func (r *runner) count(number, every string) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > MaxCount {
		r.words(fmt.Sprintf("count takes a number from 1 to %d.", MaxCount))
		return
	}
	var wait time.Duration
	if every != "" {
		if wait, err = time.ParseDuration(every); err != nil || wait < 0 {
			r.words("count … every takes a duration like 50ms or 2s.")
			return
		}
	}
	r.add(Piece{Wait: wait, Text: "1"})
	for i := 2; i <= n; i++ {
		r.text = append(r.text, Piece{Wait: wait, Text: " " + strconv.Itoa(i)})
	}
}

func (r *runner) words(line string) {
	for i, w := range word.FindAllString(line, -1) {
		if i == 0 {
			r.add(Piece{Text: w})
			continue
		}
		r.text = append(r.text, Piece{Text: w})
	}
}

// add begins a line.
func (r *runner) add(p Piece) {
	p.Text = r.newline + strings.Repeat("\n", r.blank) + p.Text
	r.text = append(r.text, p)
	r.newline, r.blank = "\n", 0
}

// results reports the tool results at the end of messages, if any, and returns the number of
// replies with tool calls in messages.
func (r *runner) results(messages []llm.Message) (round int) {
	names := map[string]string{}
	first := len(messages)
	for i, m := range messages {
		if m.Role == event.RoleAssistant && len(m.ToolCalls) > 0 {
			round++
			first = i + 1
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Function.Name
			}
		}
	}
	for _, m := range messages[first:] {
		if m.Role != event.RoleTool {
			continue
		}
		verb := "returned"
		if m.IsError {
			verb = "failed"
		}
		r.words(fmt.Sprintf("%s %s: %s", names[m.ToolCallID], verb, m.Content))
	}
	return round
}

// Identify assigns ids to calls. They are derived from the request, so they are the same when it is
// repeated and differ between the requests of a conversation.
func Identify(calls []event.ToolCall, req llm.Request) {
	h := sha256.New()
	shown, _ := json.Marshal([]any{req.Model, req.Messages, toolNames(req.Tools)}) // plain data can always be marshalled
	h.Write(shown)
	sum := hex.EncodeToString(h.Sum(nil)[:8])
	for i := range calls {
		calls[i].ID = fmt.Sprintf("call_%s_%d", sum, i+1)
	}
}

func toolNames(tools []llm.Tool) (names []string) {
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

func (r *runner) finish(req llm.Request) Reply {
	out := Reply{Pieces: append(r.thoughts, r.text...), Calls: r.calls, Usage: r.usage}
	for _, m := range req.Messages {
		out.Usage.InputTokens += len(strings.Fields(m.Content))
	}
	out.Usage.ReasoningTokens = len(r.thoughts)
	out.Usage.OutputTokens = len(r.thoughts) + len(r.text)
	for _, c := range r.calls {
		out.Usage.OutputTokens += len(strings.Fields(c.Function.Arguments))
	}
	return out
}
