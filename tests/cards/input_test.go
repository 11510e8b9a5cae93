package cards

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestPageInputFields fills in each kind of field. What is missing or too much is not sent.
func TestPageInputFields(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		Tools:  []tool.Tool{check.Survey{}},
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
	require.JSONEq(t, `{"name":"Ann","born":"2000-02-29","seats":2,"budget":12.5,"window":false,"drink":"w","spice":"b","dishes":["salad","cake"],"extras":["olives"],"guests":["Bob","Cy"]}`, check.FirstResult(w, id).Content)
}
