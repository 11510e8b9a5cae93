package openai

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text is a string or a list of parts, whose texts are joined. A half of a character at its beginning or end is as [halves] reads it.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		s, err := unquote(data)
		*t = text(s)
		return err
	}
	var parts []struct {
		Text text `json:"text"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return nil // some servers use the field for other values
	}
	for _, p := range parts {
		*t += p.Text
	}
	return nil
}

// contents are a text, or a list of parts of which some are thoughts, as Mistral's models write them.
type contents struct{ text, thought text }

func (c *contents) UnmarshalJSON(data []byte) error {
	if err := c.text.UnmarshalJSON(data); err != nil {
		return err
	}
	var parts []struct {
		Thinking text `json:"thinking"`
	}
	if data[0] == '[' && json.Unmarshal(data, &parts) == nil {
		for _, p := range parts {
			c.thought += p.Thinking
		}
	}
	return nil
}

// arguments is a string that contains JSON or, from some servers, the JSON value itself.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
	case data[0] == '"':
		s, err := unquote(data)
		*a = arguments(s)
		return err
	default:
		*a = arguments(data)
	}
	return nil
}

// number is a number of tokens or an index: an integer, one with a fraction of zero, or either as a string. Anything else is 0.
type number int

func (n *number) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err == nil && f >= 0 && f <= 1<<53 {
		*n = number(f)
	}
	return nil
}

// optional is a value of which other types than T say nothing.
type optional[T any] struct {
	value T
	given bool
}

func (o *optional[T]) UnmarshalJSON(data []byte) error {
	var v T
	if string(data) != "null" && json.Unmarshal(data, &v) == nil {
		o.value, o.given = v, true
	}
	return nil
}

// list is a list, or one element of it. Anything else is empty.
type list[T any] []T

func (l *list[T]) UnmarshalJSON(data []byte) error {
	var one T
	switch data[0] {
	case '[':
		return json.Unmarshal(data, (*[]T)(l))
	case '{':
		if len(bytes.Trim(data, "{} \t\r\n")) == 0 {
			return nil
		}
		if err := json.Unmarshal(data, &one); err != nil {
			return err
		}
		*l = list[T]{one}
	}
	return nil
}

// Servers that write JSON in JavaScript or Java may cut a text between the two halves of a character, and escape each half. Strings of Go
// have no halves: they are kept as the three bytes that UTF-8 would give them, until the other half comes.
var (
	lowFirst = regexp.MustCompile(`^"\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	highLast = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}"$`)
)

// escape is the length of an escaped half.
const escape = len(`\ud83d`)

// unquote is [json.Unmarshal] of a string, which keeps a low half at its beginning and a high one at its end.
func unquote(data []byte) (s string, err error) {
	var low, high string
	if lowFirst.Match(data) {
		low = half(data[1 : 1+escape])
		data = append([]byte{'"'}, data[1+escape:]...)
	}
	if at := highLast.FindIndex(data); at != nil && !escaped(data[:at[0]]) {
		high = half(data[at[0] : at[0]+escape])
		data = append(bytes.Clone(data[:at[0]]), '"')
	}
	err = json.Unmarshal(data, &s)
	return low + s + high, err
}

// escaped reports whether a text ends with a backslash that escapes what follows.
func escaped(text []byte) bool { return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1 }

func half(escape []byte) string {
	n, _ := strconv.ParseUint(string(escape[2:]), 16, 16)
	return string([]byte{0xe0 | byte(n>>12), 0x80 | byte(n>>6)&0x3f, 0x80 | byte(n)&0x3f})
}

// halfOf returns the half of a character in three bytes, or false.
func halfOf(s string) (r rune, ok bool) {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 {
		return 0, false
	}
	return rune(s[0]&0xf)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), true
}

// halves joins the halves of characters in pieces of a text.
type halves struct{ high rune }

// add returns a piece with the characters that it completes, and without a half that waits for the next piece.
func (h *halves) add(piece string) string {
	if piece == "" {
		return ""
	}
	before := ""
	if low, ok := halfOf(piece); ok && utf16.IsSurrogate(low) && low >= 0xdc00 {
		piece, before = piece[3:], string(utf16.DecodeRune(h.high, low))
		h.high = 0
	}
	before = h.end() + before
	if len(piece) >= 3 {
		if high, ok := halfOf(piece[len(piece)-3:]); ok && high < 0xdc00 {
			piece, h.high = piece[:len(piece)-3], high
		}
	}
	return before + piece
}

// end returns what is left: a half without another one is no character.
func (h *halves) end() string {
	if h.high == 0 {
		return ""
	}
	h.high = 0
	return string(utf8.RuneError)
}
