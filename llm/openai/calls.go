package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// calls assembles tool calls from their pieces.
type calls struct {
	list []*partialCall

	// byIndex and byID have the last call with an index or an id.
	byIndex map[number]*partialCall
	byID    map[string]*partialCall
}

// maxCallName is the length of a name, in bytes, from which on further pieces are ignored.
const maxCallName = 256

type partialCall struct {
	id, name  string
	arguments strings.Builder
	halves    halves
	shape     shape
	extra     json.RawMessage
}

func (c *calls) add(p callPart) {
	call := c.find(p)
	if call == nil {
		call = &partialCall{id: string(p.ID), name: string(p.Function.Name)}
		c.list = append(c.list, call)
	} else if name := string(p.Function.Name); name != call.name && len(call.name) <= maxCallName {
		call.name += name
	}
	if call.id == "" {
		call.id = string(p.ID)
	}
	if len(p.Extra) > 0 && string(p.Extra) != "null" {
		call.extra = p.Extra
	}
	piece := call.halves.add(string(p.Function.Arguments))
	call.arguments.WriteString(piece)
	call.shape.add(piece)
	if c.byIndex == nil {
		c.byIndex, c.byID = map[number]*partialCall{}, map[string]*partialCall{}
	}
	if p.Index != nil {
		c.byIndex[*p.Index] = call
	}
	c.byID[call.id] = call
	if p.ID != "" {
		c.byID[string(p.ID)] = call
	}
}

// find returns the call that a piece continues, or nil if the piece begins a new one. The protocol identifies calls by index, and names
// the function in the first piece. Some servers send no index, or always 0, and some another id or index with each piece: a piece
// without a name continues the call before it if nothing else fits, since a call whose arguments were cut off would run with what is left of them.
func (c *calls) find(p callPart) *partialCall {
	if len(c.list) == 0 {
		return nil
	}
	var call *partialCall
	last := c.list[len(c.list)-1]
	switch {
	case p.Index != nil:
		call = c.byIndex[*p.Index]
	case p.ID != "":
		call = c.byID[string(p.ID)]
	default:
		call = last
	}
	if p.Function.Name == "" && (call == nil || call.shape.complete()) && !last.shape.complete() {
		return last
	}
	if call == nil || call.ended(p) {
		return nil
	}
	return call
}

// ended reports whether p begins another call at the position of call: it names a function after call has complete arguments, or another
// one after call has begun its arguments; or it has another id, and the arguments of call are complete.
func (call *partialCall) ended(p callPart) bool {
	if p.ID != "" && call.id != "" && string(p.ID) != call.id {
		return p.Function.Name != "" && call.arguments.Len() == 0 || call.shape.complete()
	}
	if p.ID != "" && string(p.ID) == call.id || p.Function.Name == "" {
		return false
	}
	if string(p.Function.Name) != call.name && (call.arguments.Len() > 0 || p.Index == nil) && call.name != "" {
		return true
	}
	return call.shape.complete()
}

// shape follows the brackets of JSON that arrives in pieces.
type shape struct {
	depth           int
	begun           bool
	inText, escaped bool
}

func (s *shape) add(piece string) {
	for i := range len(piece) {
		switch b := piece[i]; {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped, s.inText = b == '\\', b != '"'
		case b == '"':
			s.inText = true
		case b == '{' || b == '[':
			s.depth++
			s.begun = true
		case b == '}' || b == ']':
			s.depth--
		}
	}
}

// complete reports whether all brackets are closed.
func (s *shape) complete() bool { return s.begun && s.depth <= 0 && !s.inText }

func (c *calls) finish() []event.ToolCall {
	var out []event.ToolCall
	for _, p := range c.list {
		args := p.arguments.String() + p.halves.end()
		if p.name == "" {
			call := llm.NewInvalidCall(fmt.Sprintf("tool call %d has no name", len(out)+1), args)
			call.ID = p.id
			out = append(out, call)
			continue
		}
		out = append(out, event.ToolCall{ID: p.id, Function: event.Function{Name: p.name, Arguments: driver.Written(args)}})
	}
	return out
}
