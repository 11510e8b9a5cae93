package harness

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tool"
)

// DaySchema is the schema of the form of [Booking].
const DaySchema = `{"type":"object","properties":{"day":{"type":"string","enum":["monday","tuesday"],"title":"Which day?"},"seats":{"type":"integer","minimum":1}},"required":["day"],"additionalProperties":false}`

// Booking is a tool that asks for a day, and then asks the person to pay at an address.
type Booking struct {
	Runs atomic.Int32 // how often it was called
}

// Definition implements [tool.Tool].
func (b *Booking) Definition() tool.Definition {
	return tool.Definition{Name: "book", Description: "Books a table.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

// Call asks until it has all answers.
func (b *Booking) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	b.Runs.Add(1)
	if call.Input == nil {
		return tool.Result{}, &tool.InputRequired{State: "secret state", Questions: []event.InputQuestion{
			{ID: "when", Kind: event.InputForm, Message: "When do you come?", Schema: json.RawMessage(DaySchema)},
		}}
	}
	if a, asked := call.Input.Answers["when"]; asked {
		if a.Action != event.InputAccept {
			return tool.Result{Output: "not booked: " + string(a.Action)}, nil
		}
		return tool.Result{}, &tool.InputRequired{State: call.Input.State + ", " + string(a.Content), Questions: []event.InputQuestion{
			{ID: "pay", Kind: event.InputURL, Message: "Please pay.", URL: "https://pay.example/42"},
		}}
	}
	return tool.Result{Output: "booked: " + call.Input.State + ", paid: " + string(call.Input.Answers["pay"].Action)}, nil
}
