package page

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// surveySchema has each kind of field that a server may ask for.
const surveySchema = `{"type":"object","required":["name","seats","dishes","drink"],"properties":{
	"name":{"type":"string","title":"Name","description":"As on your ticket.","minLength":2},
	"mail":{"type":"string","format":"email","title":"E-mail"},
	"home":{"type":"string","format":"uri","title":"Home page"},
	"born":{"type":"string","format":"date","title":"Day of birth"},
	"seats":{"type":"integer","title":"Seats","minimum":1,"maximum":8},
	"budget":{"type":"number","title":"Budget","default":12.5},
	"window":{"type":"boolean","title":"At the window","description":"If one is free.","default":true},
	"drink":{"type":"string","title":"Drink","oneOf":[{"const":"t","title":"Tea"},{"const":"w","title":"Water"}]},
	"spice":{"type":"string","title":"Spice","enum":["a","b"],"enumNames":["Mild","Hot"],"default":"b"},
	"dishes":{"type":"array","title":"Dishes","description":"One or two.","minItems":1,"maxItems":2,"items":{"anyOf":[
		{"const":"soup","title":"Soup of the day"},{"const":"salad","title":"Salad"},{"const":"cake","title":"Cake"}]}},
	"extras":{"type":"array","title":"Extras","items":{"type":"string","enum":["bread","olives"]},"default":["olives"]},
	"guests":{"type":"array","title":"Guests","items":{"type":"string"}}}}`

// survey is a tool whose result is the answer to a form.
type survey struct{}

func (survey) Definition() tool.Definition {
	return tool.Definition{Name: "survey", Description: "Asks many things.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (survey) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	if call.Input == nil {
		return tool.Result{}, &tool.InputRequired{Questions: []event.InputQuestion{{ID: "all", Kind: event.InputForm, Message: "Please say what you want.", Schema: json.RawMessage(surveySchema)}}}
	}
	return tool.Result{Output: string(call.Input.Answers["all"].Content)}, nil
}

// TestPageInputFields fills in each kind of field. What is missing or too much is not sent.
func TestPageInputFields(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		Tools:  []tool.Tool{survey{}},
		Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"survey"}}},
	})
	id := w.Open()
	w.Post(id, "use survey {}")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".approval.input .reason", "Please say what you want.")
	p.Sees(".approval.input legend", "Dishes")
	p.Sees(".approval.input .title", "E-mail (optional)")
	invalid := func(n int) {
		p.Click(".approval.input button", "Send")
		p.Until(fmt.Sprintf(`document.querySelectorAll(".approval.input :is(input, select, textarea):invalid").length === %d`, n))
	}
	invalid(4) // name, seats, dishes, drink
	control := func(label string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".approval.input label")].find((l) => l.textContent.startsWith(%q)).querySelector("input, select, textarea")`, label)
	}
	set := func(label, value string) {
		browser.Evaluate[struct{}](p, fmt.Sprintf(`(() => { %s.value = %q; return {}; })()`, control(label), value))
	}
	set("Name", "Ann")
	set("Seats", "2")
	set("Drink", "1")
	set("Day of birth", "2000-02-29")
	set("Guests", "Bob\n\n Cy \n")
	for _, dish := range []string{"Soup", "Salad", "Cake"} {
		p.Click(".approval.input label", dish)
	}
	invalid(1) // three dishes
	p.Click(".approval.input label", "Soup")
	p.Click(".approval.input label", "At the window")
	p.Click(".approval.input button", "Send")
	require.JSONEq(t, `{"name":"Ann","born":"2000-02-29","seats":2,"budget":12.5,"window":false,"drink":"w","spice":"b","dishes":["salad","cake"],"extras":["olives"],"guests":["Bob","Cy"]}`, result(w, id).Content)
}
