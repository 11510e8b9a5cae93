package cards

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestPageClientCall: a person gives the result of a call that waits for a client. What somebody else was typing as its result stays.
func TestPageClientCall(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		Tools:  []tool.Tool{tool.ClientSide(tool.Definition{Name: "camera", Description: "Takes a photo."})},
		Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"camera"}}},
	})
	id := w.Open()
	posted := w.Post(id, `use camera {"of":"the door"}`)
	b := browser.New(t)
	p, other := b.OpenAs("ann", browser.ThreadPage(w.API.URL, id)), browser.New(t).OpenAs("bob", browser.ThreadPage(w.API.URL, id))
	for _, tab := range []*browser.Tab{p, other} {
		tab.Sees(".approval.client", "the door")
		tab.Click(".approval.client button", "Give its result…")
		tab.Until(`document.activeElement.matches(".approval.client textarea")`)
	}
	p.Accessible()
	other.Fill(".approval.client textarea", "a dog")
	p.Fill(".approval.client textarea", `{"seen":"a cat"}`)
	browser.Evaluate[chromedp.Void](p, `document.activeElement.blur()`)
	p.Click(".approval.client button", "Send the result")
	result := w.Await(id, posted)
	require.Equal(t, signals.TurnCompleted, result.Status)
	require.Contains(t, result.Message.Content, `{"seen":"a cat"}`)
	p.Until(`document.querySelector(".approval.client") === null`)
	other.Sees(".approval.client .error", "The call has its result. Nothing that you typed here was sent.")
	other.Until(`document.querySelector(".approval.client textarea").value === "a dog"`)
	other.Click(".approval.client button", "Close")
	other.Until(`document.querySelector(".approval.client") === null`)
}
