package driver

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Seal keeps data with the reply, for the model that wrote it.
func (r *Reply) Seal(origin event.Origin, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return &Unreadable{Err: err}
	}
	r.Opaque = &event.Opaque{Origin: origin, Data: raw}
	return nil
}

// Layout is the order of the parts of a reply: its text, its calls, and parts that only its model can
// read. It is the data of opaque parts, in which a string stands for the text, numbers stand for calls,
// and objects are the other parts.
type Layout struct {
	parts        []any
	text, opaque bool
}

// textMark stands for the text.
const textMark = "text"

// Text adds the text of the reply, at the position of its first piece.
func (l *Layout) Text() {
	if !l.text {
		l.text, l.parts = true, append(l.parts, textMark)
	}
}

// HasText reports whether the layout has the text.
func (l *Layout) HasText() bool { return l.text }

// Call adds a call, by its index.
func (l *Layout) Call(index int) { l.parts = append(l.parts, index) }

// Part adds a part that only the model can read.
func (l *Layout) Part(part any) { l.opaque, l.parts = true, append(l.parts, part) }

// SealLayout keeps the layout with the reply, if it has parts that only the model can read.
func (r *Reply) SealLayout(origin event.Origin, l *Layout) error {
	if !l.opaque {
		return nil
	}
	return r.Seal(origin, l.parts)
}

// Assistant are the functions for the parts of an assistant message.
type Assistant struct {
	Text func(text string)
	Call func(call event.ToolCall)
	Part func(part json.RawMessage)
}

// Walk calls the functions of a for the parts of m in the order of their layout, which is the data of
// opaque parts or nil. Text that is blank is left out.
func (a Assistant) Walk(m llm.Message, layout json.RawMessage) {
	var order []json.RawMessage
	_ = json.Unmarshal(layout, &order) // nil, or the driver's own
	said := Blank(m.Content)
	called := map[int]bool{}
	say := func() {
		if !said {
			said = true
			a.Text(m.Content)
		}
	}
	call := func(i int) {
		if i >= 0 && i < len(m.ToolCalls) && !called[i] {
			called[i] = true
			a.Call(m.ToolCalls[i])
		}
	}
	for _, one := range order {
		var index int
		switch {
		case string(one) == `"`+textMark+`"`:
			say()
		case json.Unmarshal(one, &index) == nil:
			call(index)
		default:
			a.Part(one)
		}
	}
	say()
	for i := range m.ToolCalls {
		call(i)
	}
}
