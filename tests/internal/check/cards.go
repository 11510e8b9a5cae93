package check

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// AskingFirst is an agent whose notes wait for people.
func AskingFirst(policy agent.Policy) harness.Options {
	return harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": policy},
	}}}
}

// WaitingNotes opens threads with a call that waits in each.
func WaitingNotes(w *harness.Harness, n int) []string {
	var ids []string
	for i := range n {
		id := w.Open()
		ids = append(ids, id)
		w.Post(id, fmt.Sprintf("use note {\"text\":\"%d\"}\nthen\ndone", i))
		w.AwaitApproval(id, 1)
	}
	return ids
}

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

// Survey is a tool whose result is the answer to a form.
type Survey struct{}

// Definition implements [tool.Tool].
func (Survey) Definition() tool.Definition {
	return tool.Definition{Name: "survey", Description: "Asks many things.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

// Call implements [tool.Tool].
func (Survey) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	if call.Input == nil {
		return tool.Result{}, &tool.InputRequired{Questions: []event.InputQuestion{{ID: "all", Kind: event.InputForm, Message: "Please say what you want.", Schema: json.RawMessage(surveySchema)}}}
	}
	return tool.Result{Output: string(call.Input.Answers["all"].Content)}, nil
}

// FirstResult waits until a thread has the result of a tool.
func FirstResult(w *harness.Harness, id string) event.Message {
	w.T.Helper()
	var out event.Message
	require.Eventually(w.T, func() bool {
		for _, m := range w.Messages(id) {
			if m.SenderType == event.CreatedByTool {
				out = m
				return true
			}
		}
		return false
	}, testenv.Patience, testenv.Tick)
	return out
}
