package page

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageSources shows the passages that a reply may cite, live and after a reload.
func TestPageSources(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "reader", Model: "openai/stand-in", Knowledge: agent.Knowledge{Passages: 2}}}})
	id := w.Open()
	document, err := json.Marshal(signals.Ingestion{Source: "handbook.md", Title: "Handbook", Text: "# Vacation\n\nThirty days <b>of</b> vacation."})
	require.NoError(t, err)
	_, err = w.Threads.Post(w.Ctx(), id, signals.Post{ID: "e1", Type: event.TypeRAGIngest, Payload: document})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		d, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID(store.DefaultCollection, "handbook.md"))
		return err == nil && d.Status == store.KnowledgeIndexed
	}, harness.Patience, harness.Tick)
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Enter("tm-composer textarea", "vacation?")
	shown := func() {
		p.Sees(".message.final .sources summary", "Sources (1)")
		p.Click(".sources summary", "Sources (1)")
		p.Sees(".sources li", "Handbook › Vacation")
		p.Sees(".sources .prose", "Thirty days <b>of</b> vacation.")
	}
	shown()
	p.Do(chromedp.Reload())
	shown()
	p.Accessible()
}
