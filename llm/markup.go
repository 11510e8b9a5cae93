package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/event"
)

const (
	blockOpen  = "<function_calls>"
	blockClose = "</function_calls>"
)

// InvalidCall is the name of a call that represents invalid markup. Its arguments are {"problem",
// "text"}. No tool has this name, so the result of the call is an error that informs the model.
const InvalidCall = "invalid_function_call"

// NewInvalidCall returns a call of [InvalidCall], without an ID, for text that was meant as a tool
// call. Drivers use it for structured calls too.
func NewInvalidCall(problem, text string) event.ToolCall {
	args, _ := json.Marshal(map[string]string{"problem": problem, "text": text}) // strings can always be marshalled
	return event.ToolCall{Function: event.Function{Name: InvalidCall, Arguments: string(args)}}
}

// Cleaner removes tool calls that a model writes into its text, piece by piece. The zero value is
// ready to use, for one response.
//
// A block <function_calls>…</function_calls> contains either JSON (an object, an array, or several
// objects, each {"name", "arguments", "id"?} or in OpenAI's format), or <invoke name="…"> elements
// that contain <parameter name="…"> elements; a parameter is a JSON value if its text is one,
// otherwise a string. The end of a block may be missing, since a stop sequence may remove it. A
// block that cannot be parsed becomes one call of [InvalidCall]; none of its calls run.
//
// Text is returned immediately, except for text that may be the opening tag of a block and
// whitespace at the start of the response. Whitespace after a block is removed, and so is
// whitespace between the start of the response and a block. At least a newline separates the text
// before a block from the text after it.
type Cleaner struct {
	pending  []byte // undecided text or, inside a block, its content
	searched int    // the length of the part of pending that does not contain the next tag
	inside   bool
	started  bool // some text was returned
	gap      bool // the last input was a block
	last     byte // the last byte that was returned
	calls    []event.ToolCall
}

// space is ASCII whitespace: a piece may end within a rune.
const space = " \t\r\n"

// Feed adds the next piece of the response and returns the text that is known to be clean: often
// the piece itself, sometimes nothing.
func (c *Cleaner) Feed(piece string) string {
	c.pending = append(c.pending, piece...)
	var out strings.Builder
	for c.step(&out) {
	}
	return out.String()
}

// Close returns the remaining text and the calls. A call has an ID only if the model wrote one; see
// [AssignIDs].
func (c *Cleaner) Close() (rest string, calls []event.ToolCall) {
	var out strings.Builder
	if c.inside {
		c.endBlock(c.pending, nil)
	}
	c.pass(&out, c.pending)
	c.pending = nil
	return out.String(), c.calls
}

// Clean cleans a complete response, as a [Cleaner] does.
func Clean(text string) (content string, calls []event.ToolCall) {
	var c Cleaner
	content = c.Feed(text)
	rest, calls := c.Close()
	return content + rest, calls
}

// step consumes pending up to the next tag or, without one, as far as possible. It reports whether
// to call it again.
func (c *Cleaner) step(out *strings.Builder) bool {
	if c.inside {
		i := bytes.Index(c.pending[c.searched:], []byte(blockClose))
		if i < 0 {
			c.searched = max(0, len(c.pending)-len(blockClose)+1)
			return false
		}
		i += c.searched
		c.endBlock(c.pending[:i], c.pending[i+len(blockClose):])
		return true
	}
	// Outside a block, what was searched is whitespace at the start of the response.
	if i := bytes.Index(c.pending[c.searched:], []byte(blockOpen)); i >= 0 {
		i += c.searched
		if before := c.pending[:i]; c.started || !blank(before[c.searched:]) {
			c.pass(out, before)
		}
		c.pending, c.searched, c.inside = c.pending[i+len(blockOpen):], 0, true
		return true
	}
	keep := len(c.pending) - tagPrefix(c.pending)
	if !c.started && blank(c.pending[c.searched:keep]) {
		c.searched = keep
		return false
	}
	c.pass(out, c.pending[:keep])
	c.pending, c.searched = c.pending[keep:], 0
	return false
}

func blank(text []byte) bool { return len(bytes.Trim(text, space)) == 0 }

// pass writes text, with a newline if it follows a block directly.
func (c *Cleaner) pass(out *strings.Builder, text []byte) {
	if c.gap {
		text = bytes.TrimLeft(text, space)
	}
	if len(text) == 0 {
		return
	}
	if c.gap && c.started && strings.IndexByte(space, c.last) < 0 {
		out.WriteByte('\n')
	}
	out.Write(text)
	c.gap, c.started, c.last = false, true, text[len(text)-1]
}

func (c *Cleaner) endBlock(block, after []byte) {
	calls, err := parseBlock(string(block))
	if err != nil {
		calls = []event.ToolCall{NewInvalidCall(err.Error(), string(block))}
	}
	c.calls = append(c.calls, calls...)
	c.pending, c.searched, c.inside, c.gap = after, 0, false, true
}

// tagPrefix returns the length of the longest suffix of text that may begin a block.
func tagPrefix(text []byte) int {
	for n := min(len(text), len(blockOpen)-1); n > 0; n-- {
		if strings.HasPrefix(blockOpen, string(text[len(text)-n:])) {
			return n
		}
	}
	return 0
}

func parseBlock(block string) ([]event.ToolCall, error) {
	block = trimFence(strings.TrimSpace(block))
	switch {
	case block == "":
		return nil, nil
	case strings.HasPrefix(block, "<"):
		return parseInvokes(block)
	}
	return parseJSONCalls(block)
}

// trimFence removes a Markdown fence around a block.
func trimFence(s string) string {
	inner, ok := strings.CutPrefix(s, "```")
	if !ok || !strings.HasSuffix(inner, "```") {
		return s
	}
	_, body, _ := strings.Cut(strings.TrimSuffix(inner, "```"), "\n")
	return strings.TrimSpace(body)
}

func parseJSONCalls(block string) ([]event.ToolCall, error) {
	var calls []event.ToolCall
	dec := json.NewDecoder(strings.NewReader(block))
	for {
		var value json.RawMessage
		if err := dec.Decode(&value); errors.Is(err, io.EOF) {
			return calls, nil
		} else if err != nil {
			return nil, fmt.Errorf("neither JSON nor <invoke> elements: %w", err)
		}
		elements := []json.RawMessage{value}
		if value[0] == '[' {
			if err := json.Unmarshal(value, &elements); err != nil {
				return nil, err
			}
		}
		for _, e := range elements {
			call, err := parseJSONCall(e)
			if err != nil {
				return nil, err
			}
			calls = append(calls, call)
		}
	}
}

func parseJSONCall(raw json.RawMessage) (event.ToolCall, error) {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var in struct {
		ID       string    `json:"id"`
		Function *function `json:"function"`
		function
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return event.ToolCall{}, fmt.Errorf("a call must be {\"name\", \"arguments\"}: %w", err)
	}
	f := in.function
	if in.Function != nil {
		f = *in.Function
	}
	if f.Name == "" {
		return event.ToolCall{}, errors.New(`a call has no "name"`)
	}
	args, err := argumentsText(f.Arguments)
	if err != nil {
		return event.ToolCall{}, err
	}
	return event.ToolCall{ID: in.ID, Function: event.Function{Name: f.Name, Arguments: args}}, nil
}

// argumentsText returns arguments from a JSON value or from a string that contains one.
func argumentsText(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "{}", nil
	case raw[0] != '"':
		return string(raw), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if strings.TrimSpace(s) == "" {
		return "{}", nil
	}
	return s, nil
}

var (
	invokeTag    = regexp.MustCompile(`^<invoke\s+name="([^"]+)"\s*>`)
	parameterTag = regexp.MustCompile(`^<parameter\s+name="([^"]+)"[^>]*>`)
)

func parseInvokes(rest string) ([]event.ToolCall, error) {
	var calls []event.ToolCall
	for rest != "" {
		m := invokeTag.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("expected <invoke name=\"…\"> at %q", start(rest))
		}
		args, after, err := parseParameters(rest[len(m[0]):])
		if err != nil {
			return nil, fmt.Errorf("invoke of %s: %w", m[1], err)
		}
		calls = append(calls, event.ToolCall{Function: event.Function{Name: m[1], Arguments: args}})
		rest = strings.TrimSpace(after)
	}
	return calls, nil
}

// parseParameters parses up to </invoke> and returns the arguments and the text after it.
func parseParameters(rest string) (args, after string, err error) {
	var object bytes.Buffer
	for {
		rest = strings.TrimSpace(rest)
		if after, ok := strings.CutPrefix(rest, "</invoke>"); ok {
			return "{" + object.String() + "}", after, nil
		}
		m := parameterTag.FindStringSubmatch(rest)
		if m == nil {
			return "", "", fmt.Errorf("expected <parameter name=\"…\"> or </invoke> at %q", start(rest))
		}
		value, after, found := strings.Cut(rest[len(m[0]):], "</parameter>")
		if !found {
			return "", "", fmt.Errorf("parameter %s has no end", m[1])
		}
		if object.Len() > 0 {
			object.WriteByte(',')
		}
		object.Write(jsonString(m[1]))
		object.WriteByte(':')
		if trimmed := strings.TrimSpace(value); json.Valid([]byte(trimmed)) {
			object.WriteString(trimmed)
		} else {
			object.Write(jsonString(value))
		}
		rest = after
	}
}

func jsonString(s string) []byte {
	b, _ := json.Marshal(s) // strings can always be marshalled
	return b
}

// start returns the beginning of s, for an error text.
func start(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
