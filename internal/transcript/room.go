package transcript

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/text/excerpt"
)

// ErrTooLarge means that more would have to be read than the caller allows.
var ErrTooLarge = errors.New("is too large")

const (
	// messageBytes is what a message counts in a window besides its texts. It takes about as much room.
	messageBytes = 256

	// largest is the share of a window's bytes that one message may have: a quarter.
	largest = 4

	// stubBytes are those of a message of the turn for which a window has no room.
	stubBytes = 512

	// minArguments is the least to which arguments are shortened, so that shortening them again changes nothing.
	minArguments = 128
)

// bytesOf returns what a message counts in a window.
func bytesOf(m event.Message) int {
	n := messageBytes + len(m.Content)
	for _, p := range m.Parts {
		n += len(p.Text)
	}
	for _, entry := range event.ContextOf(m) {
		n += len(entry.Description) + len(entry.Value)
	}
	for _, call := range m.ToolCalls {
		n += len(call.ID) + len(call.Function.Name) + len(call.Function.Arguments)
	}
	return n
}

// shortened returns a message whose texts have about limit bytes, with a note where they are cut.
func (w Window) shortened(m *Message, limit int) *Message {
	if bytesOf(m.Message) <= messageBytes+limit {
		return m
	}
	out := *m
	if n := len(m.ToolCalls); n > 0 {
		limit /= 2
		out.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range out.ToolCalls {
			f := &out.ToolCalls[i].Function
			f.Arguments = shortenedArguments(f.Arguments, max(limit/n, minArguments))
		}
	}
	out.Parts = nil // the content has all parts
	if w.Result > 0 && isResult(m.Message) {
		out.Content, out.whole = cutResult(m, limit)
	} else {
		out.Content = excerpt.Text(m.Content, limit)
	}
	out.Metadata = nil
	// What was shortened is not kept.
	kept := out.Message
	out.stored, out.shortened = &kept, true
	return &out
}

func isResult(m event.Message) bool { return m.SenderType == event.CreatedByTool && m.ToolCallID != "" }

// cutResult returns the beginning and the end of a result, with a note between them that says how to read the rest, and the size of
// the whole text. A result that was cut can be cut to less.
func cutResult(m *Message, limit int) (text string, whole int) {
	if len(m.Content) <= limit {
		return m.Content, m.whole
	}
	whole = cmp.Or(m.whole, len(m.Content))
	note := func(left, offset int) string {
		return fmt.Sprintf("\n[… %d of %d bytes are left out. To read them, call %s with {\"call\":%q,\"offset\":%d}; with \"find\", it searches them …]\n",
			left, whole, builtin.ReadResult, m.ToolCallID, offset)
	}
	kept := (limit - len(note(whole, whole))) / 2
	start, end := excerpt.Start(m.Content, kept), excerpt.End(m.Content, kept)
	return start + note(whole-len(start)-len(end), len(start)) + end, whole
}

// shortenedArguments returns arguments that are a JSON object of at most limit bytes.
func shortenedArguments(arguments string, limit int) string {
	if len(arguments) <= limit {
		return arguments
	}
	// In JSON, a character takes at most six times as much.
	raw, _ := json.Marshal(map[string]any{"truncated": true, "bytes": len(arguments), "start": excerpt.Start(arguments, (limit-64)/6)})
	return string(raw)
}

// room is what a window still has room for, while it takes messages, newest first.
type room struct {
	Window
	left, stubs int
	full        bool
}

// room returns the room of a window. The message Also has its own.
func (w Window) room(shown []placed) *room {
	r := &room{Window: w, left: w.Bytes, stubs: w.Bytes / largest}
	if i := slices.IndexFunc(shown, func(m placed) bool { return w.also(m.Message) }); i >= 0 {
		r.left -= bytesOf(r.bounded(shown[i].Message).Message)
	}
	return r
}

func (w Window) bounded(m *Message) *Message {
	limit := w.Bytes / largest
	if w.Result > 0 && isResult(m.Message) && (w.Bytes == 0 || w.Result < limit) {
		limit = w.Result
	} else if w.Bytes == 0 {
		return m
	}
	return w.shortened(m, limit)
}

// take returns the message as the window has it. ok is false if there is no room for it.
func (r *room) take(m *Message) (taken *Message, ok bool) {
	if m = r.bounded(m); r.Bytes == 0 || r.also(m) {
		return m, true
	}
	if size := bytesOf(m.Message); !r.full && size <= r.left {
		r.left -= size
		return m, true
	}
	r.full = true
	if !r.ofTurn(m) {
		return nil, false
	}
	m = r.shortened(m, stubBytes)
	r.stubs -= bytesOf(m.Message)
	return m, r.stubs >= 0
}

// shorten shortens messages of the turn for which a window has no room in any case, so that a long turn is never in memory whole.
func (t *transcript) shorten(w Window) {
	if w.Bytes == 0 || t.texts <= 2*w.Bytes {
		return
	}
	t.sort()
	newer := 0 // bytes of newer messages that the window keeps in any case
	t.texts = 0
	for i, m := range t.shown {
		if w.ofTurn(m.Message) && !w.also(m.Message) {
			if newer >= w.Bytes {
				t.shown[i].Message = w.shortened(m.Message, stubBytes)
			}
			newer += bytesOf(t.shown[i].Message.Message)
		}
		t.texts += bytesOf(t.shown[i].Message.Message)
	}
}
