package page

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPagePresence has two people at one thread, who see each other until one leaves.
func TestPagePresence(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	// A browser of their own each: one shows one tab at a time.
	ann := browser.New(t).OpenAs("ann", browser.ThreadPage(w.API.URL, id))
	ann.Until(`document.querySelector("tm-presence span") !== null`)
	bob := browser.New(t).OpenAs("bob", browser.ThreadPage(w.API.URL, id))
	bob.Sees("tm-presence", "Also here: ann")
	ann.Sees("tm-presence", "Also here: bob")
	bob.Do(chromedp.Navigate(w.API.URL + "/#/"))
	bob.Until(`document.querySelector("tm-presence") === null`)
	ann.Until(`document.querySelector("tm-presence").textContent === ""`)
}
