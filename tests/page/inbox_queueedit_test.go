package page

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageQueueEdit: people edit their own message while it waits, and what they type stays when its turn begins first.
func TestPageQueueEdit(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	gate := w.Provider.Block(0)
	t.Cleanup(gate.Release)
	w.Post(id, "first")
	<-gate.Reached()
	one, two := w.Post(id, "to production"), w.Post(id, "then to Mars")
	ann := browser.New(t).OpenAs("ann", browser.ThreadPage(w.API.URL, id))
	bob := browser.New(t).OpenAs("bob", browser.ThreadPage(w.API.URL, id))
	bob.Sees("tm-queue li:nth-child(2)", "then to Mars")
	bob.Until(`document.querySelector("tm-queue [aria-label^=Edit]") === null`)

	ann.Click("tm-queue [aria-label='Edit “to production”']", "Edit…")
	ann.Until(`document.activeElement.matches("tm-message-editor textarea")`)
	const field = "tm-message-editor textarea"
	ann.Write(field, " ")
	ann.Click("tm-message-editor button", "Save")
	ann.Sees("tm-message-editor .error", "A message needs a text.")
	ann.Write(field, "to <b>staging</b>")
	ann.Do(browser.Stroke("Delete", "", 46), alt("ArrowDown")) // no keys of the row
	ann.Click("tm-message-editor button", "Save")
	for _, p := range []*browser.Tab{ann, bob} {
		p.Sees("tm-queue li:first-child .queued-text", "to <b>staging</b>")
	}
	ann.Until(`document.activeElement.closest("li") === document.querySelector("tm-queue li:first-child")`)
	ann.Accessible()

	// The second message begins while it is edited, with e and Ctrl+Enter.
	browser.Evaluate[chromedp.Void](ann, `document.querySelector("tm-queue li:nth-child(2)").focus()`)
	ann.Press("e")
	ann.Until(`document.activeElement.matches("tm-message-editor textarea") && document.activeElement.value === "then to Mars"`)
	ann.Write(field, "then to the Moon")
	// As between two turns.
	told := browser.Evaluate[string](ann, `(document.querySelector("tm-queue").show([]), document.querySelector("tm-message-editor .error").textContent)`)
	require.Contains(t, told, "has left the queue")
	browser.Evaluate[chromedp.Void](ann, `document.querySelector("tm-queue").changed()`)
	ann.Until(`document.querySelector("tm-message-editor .error").hidden && document.activeElement.value === "then to the Moon"`)
	ann.Sees("tm-message-editor button", "Cancel")
	gate.Release()
	require.Contains(t, check.Wholly(w, id, w.Await(id, two)).Message.Content, "then to Mars")
	ann.Sees("tm-message-editor .error", "has left the queue")
	ann.Until(`document.querySelector("tm-message-editor textarea").value === "then to the Moon"`)
	browser.Evaluate[chromedp.Void](ann, `void (location.hash = "#/approvals")`)
	ann.Click("dialog button", "Cancel")
	ann.Click("tm-message-editor button", "Close")
	ann.Until(`document.querySelector("tm-queue").hidden`)

	assert.Equal(t, "to <b>staging</b>", messageOf(w, id, one).Content)
	assert.Equal(t, "then to Mars", messageOf(w, id, two).Content)
	edits := 0
	for _, r := range check.OfType(w, id, event.TypeStatus) {
		if s := harness.Payload[event.StatusChange](w, r); s.Detail == event.DetailEdited {
			assert.Equal(t, "ann", s.By)
			edits++
		}
	}
	assert.Equal(t, 1, edits)
}

// messageOf returns a stored message.
func messageOf(w *harness.Harness, thread, id string) event.Message {
	for _, m := range w.Messages(thread) {
		if m.ID == id {
			return m
		}
	}
	w.T.Fatalf("no message %s", id)
	return event.Message{}
}
