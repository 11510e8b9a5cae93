package knowledge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

const hostileName = `<img src=x onerror="document.title='owned'">`

// readers are agents that get passages, with an embedder.
func readers() harness.Options {
	return harness.Options{
		Agents:    []agent.Agent{{Name: "reader", Model: "openai/stand-in", Knowledge: agent.Knowledge{Passages: 2}}},
		Configure: func(cfg *threadmill.Config) { cfg.Knowledge.Embedder = "openai/stand-in-embedding" },
	}
}

// addText adds a document to a collection, and waits until it is indexed.
func addText(w *harness.Harness, collection, source, text string) string {
	w.T.Helper()
	body, err := json.Marshal(map[string]any{"collection": collection, "source": source, "text": text})
	require.NoError(w.T, err)
	response, err := http.Post(w.API.URL+"/v1/knowledge/documents", "application/json", strings.NewReader(string(body)))
	require.NoError(w.T, err)
	require.NoError(w.T, response.Body.Close())
	require.Equal(w.T, http.StatusAccepted, response.StatusCode)
	id := store.KnowledgeID(collection, source)
	require.Eventually(w.T, func() bool {
		d, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, id)
		return err == nil && d.Status == store.KnowledgeIndexed
	}, testenv.Patience, testenv.Tick)
	return id
}

// goTo shows another address of the page.
func goTo(p *browser.Tab, w *harness.Harness, path string) {
	p.Do(chromedp.Navigate(w.API.URL + "/#/knowledge/" + path))
}

// confirm answers the question that is open.
func confirm(p *browser.Tab, verb string) {
	p.Click("dialog[open] button", verb)
	p.Until(`document.querySelector("dialog[open]") === null`)
}

// TestPageDocuments adds documents in every way, follows them, and indexes and removes them.
func TestPageDocuments(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	p := browser.New(t).Open(w.API.URL + "/#/knowledge")
	p.Sees("tm-documents .empty", "There are no documents yet")
	p.Drop(map[string]string{"notes.md": "# Vacation " + hostileName + "\n\nThirty days.", "broken.pdf": "%PDF-1.4 no", "table.csv": "a,b\n1,2"})
	p.Sees("tm-adding h2", "0 of 3 documents indexed")
	p.Sees("tm-documents .rows .badge", "processing")
	p.Sees("tm-documents", "3 of these are being processed.")

	// What has the focus keeps it while the statuses change.
	browser.Evaluate[chromedp.Void](p, `document.querySelector('[aria-label="Remove: table.csv"]').focus()`)
	w.StartWorker()
	p.Sees("tm-adding h2", "2 of 3 documents indexed, 1 failed")
	p.Sees("tm-adding .error", "no valid PDF")
	p.Sees("tm-documents .rows .error", "no valid PDF")
	p.Sees("tm-documents .rows .title", "Vacation "+hostileName)
	p.Until(`[...document.querySelectorAll("tm-documents .rows li")].some((r) => r.textContent.includes("1 chunk") && r.contains(document.activeElement))`)
	p.Sees("tm-documents strong", "2 documents")
	p.Sees("tm-documents", "found by their words alone")

	p.Drop(map[string]string{"large.txt": strings.Repeat("a", 32<<20+1)})
	p.Sees("tm-adding .error", "It is larger than 32 MiB.")
	p.Click("tm-adding button", "Clear")
	p.Until(`document.querySelector("tm-adding section").hidden`)

	p.Click("button", "Add documents")
	p.Click("tm-adding label", "Address")
	p.Fill("tm-adding input[type=url]", "http://127.0.0.1:1/private.txt")
	p.Click("tm-adding button", "Add")
	p.Sees("tm-adding .error", "private network")
	p.Click("tm-adding label", "Text")
	p.Fill("tm-adding textarea", "Bring a towel.")
	p.Fill("tm-adding [name=source]", "towel.md")
	p.Fill("tm-adding [name=collection]", "guides")
	p.Click("tm-adding button", "Add")
	p.Sees("tm-documents .rows .title", "towel.md")
	p.Sees("tm-documents .rows .from", "guides")
	p.Until(`document.querySelector("tm-adding textarea").value === ""`)

	p.Fill("input[aria-label=Collection]", "guides")
	p.Until(`document.querySelectorAll("tm-documents .rows li").length === 1`)
	p.Sees("tm-documents .rows .badge", "indexed")
	p.Do(chromedp.Reload())
	p.Until(`document.querySelectorAll("tm-documents .rows li").length === 1`)
	goTo(p, w, "documents?status=failed")
	p.Until(`document.querySelectorAll("tm-documents .rows li").length === 2`)

	goTo(p, w, "documents?search=TOWEL")
	p.Until(`document.querySelectorAll("tm-documents .rows li").length === 1`)
	p.Click("tm-documents button", "Index again…")
	confirm(p, "Index it again")
	require.Eventually(t, func() bool {
		d, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID("guides", "towel.md"))
		return err == nil && d.Indexed == 2
	}, testenv.Patience, testenv.Tick)
	p.Click("tm-documents a.title", "towel.md")
	p.Sees("tm-document", "revision 2")
	p.Sees(".chunk-text", "Bring a towel.")
	p.Click("tm-document button", "Remove…")
	confirm(p, "Cancel")
	p.Click("tm-document button", "Remove…")
	confirm(p, "Remove it")
	p.Sees("tm-documents .rows", "table.csv")
	_, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID("guides", "towel.md"))
	require.ErrorIs(t, err, store.ErrNotFound)
	p.Until(`document.title === "Knowledge · Threadmill"`)
}

// TestPageManyDocuments pages a long list.
func TestPageManyDocuments(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	for i := range 230 {
		d := store.KnowledgeDocument{Source: fmt.Sprintf("%03d.md", i)}
		begun, err := w.Store.BeginKnowledge(w.Ctx(), w.TaskQueue, d, store.KnowledgeBegin{})
		require.NoError(t, err)
		_, err = w.Store.FinishKnowledge(w.Ctx(), w.TaskQueue, begun.Newest(), store.KnowledgeFinish{Format: "Markdown", Bytes: i})
		require.NoError(t, err)
	}
	p := browser.New(t).Open(w.API.URL + "/#/knowledge")
	for _, shown := range []int{50, 100, 150, 200, 230} {
		p.Until(fmt.Sprintf(`document.querySelectorAll("tm-documents .rows li").length === %d`, shown))
		if shown < 230 {
			p.Click("tm-documents button", "Show more")
		}
	}
	p.Until(`document.querySelector("tm-documents .rows li:last-child").textContent.includes("229.md") && document.querySelector("tm-documents > button").hidden`)
}

// TestPageIndexState tells how far vectors of another embedder are.
func TestPageIndexState(t *testing.T) {
	t.Parallel()
	o := readers()
	o.NoWorker = true
	w := harness.New(t, o)
	d, err := w.Store.BeginKnowledge(w.Ctx(), w.TaskQueue, store.KnowledgeDocument{Source: "a.md"}, store.KnowledgeBegin{})
	require.NoError(t, err)
	of := func(i int) store.KnowledgeVector {
		return store.KnowledgeVector{Document: d.ID, Revision: d.Revision, Index: i, Vector: []float32{1, 2}}
	}
	require.NoError(t, w.Store.AddChunks(w.Ctx(), w.TaskQueue, d.Newest(), []store.KnowledgeChunk{{Text: "one"}, {Index: 1, Text: "two"}}))
	require.NoError(t, w.Store.AddVectors(w.Ctx(), w.TaskQueue, "openai/before", []store.KnowledgeVector{of(0), of(1)}))
	require.NoError(t, w.Store.AddVectors(w.Ctx(), w.TaskQueue, "openai/stand-in-embedding", []store.KnowledgeVector{of(0)}))
	_, err = w.Store.FinishKnowledge(w.Ctx(), w.TaskQueue, d.Newest(), store.KnowledgeFinish{Format: "Markdown", Bytes: 6})
	require.NoError(t, err)
	p := browser.New(t).Open(w.API.URL + "/#/knowledge")
	p.Sees("tm-documents", "1 document · 2 chunks ·  1 of 2 have vectors of openai/stand-in-embedding so far. Until all have, openai/before serves")
	p.Until(`document.querySelector("tm-documents progress").value === 1`)
	require.NoError(t, w.Store.AddVectors(w.Ctx(), w.TaskQueue, "openai/stand-in-embedding", []store.KnowledgeVector{of(1)}))
	p.Sees("tm-documents", "found by words and by meaning (openai/stand-in-embedding)")
}

// TestPageChunks shows the chunks of a long document, and those that links name.
func TestPageChunks(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	var text strings.Builder
	for i := range 120 {
		fmt.Fprintf(&text, "# Part %d\n\n%s\n\n", i, strings.Repeat(fmt.Sprintf("Sentence of part %d. ", i), 70))
	}
	id := addText(w, "default", "long.md", text.String())
	d, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, id)
	require.NoError(t, err)
	require.Greater(t, d.Chunks, 100)
	p := browser.New(t).Open(w.API.URL + "/#/knowledge/documents/" + id)
	chunks := func(n int) { p.Until(fmt.Sprintf(`document.querySelectorAll(".chunk").length === %d`, n)) }
	chunks(50)
	p.Click("tm-document button", "Show more")
	chunks(100)

	goTo(p, w, "documents/"+id+"/60")
	p.Until(`document.activeElement.matches(".chunk.target") && document.activeElement.textContent.includes("#60")`)
	p.Click(".chunk.target a", "#61")
	p.Until(`document.activeElement.matches(".chunk.target") && document.activeElement.textContent.includes("#61")`)
	chunks(50)
	p.Click("tm-document button", "Show earlier")
	chunks(100)
	p.Until(`document.querySelector(".chunk").textContent.includes("Part 0")`)

	goTo(p, w, fmt.Sprintf("documents/%s/60?passage=%s.1.60", id, id))
	p.Until(`document.activeElement.matches(".chunk.target") && document.activeElement.textContent.includes("#60")`)
	p.Until(`document.querySelector("tm-document .warning") === null`)
	addText(w, "default", "long.md", "Short now.")
	p.Sees(".warning", "The document has changed since. The passage is not in it any more.")
	p.Sees(".chunk-text", "Short now.")
	goTo(p, w, fmt.Sprintf("documents/%s/0?passage=%s.1.0", id, id))
	p.Sees(".chunk.target .warning", "The document has changed since.")
	require.NoError(t, w.Store.DeleteKnowledge(w.Ctx(), w.TaskQueue, id))
	p.Do(chromedp.Reload())
	p.Sees("tm-document .empty", "does not exist any more")
	for wrong, text := range map[string]string{"documents/none/x": "does not exist any more", "documents/%": "does not exist any more", "nothing": "There is no such part of knowledge."} {
		goTo(p, w, wrong)
		p.Sees("tm-document .empty, tm-knowledge [role=alert]", text)
	}
}

// TestPageKnowledgeSearch searches passages, and shows why they were found.
func TestPageKnowledgeSearch(t *testing.T) {
	t.Parallel()
	w := harness.New(t, readers())
	addText(w, "guides", "handbook.md", "# Vacation\n\nThirty days <b>of</b> vacation.")
	addText(w, "mail", "letter.md", "The vacations begin.")
	p := browser.New(t).Open(w.API.URL + "/#/knowledge/search")
	p.Enter("tm-search input[type=search]", "how many days of vacation?")
	found := func() {
		p.Until(`document.querySelectorAll("tm-search .chunk").length === 2`)
		first := browser.Evaluate[string](p, `document.querySelector("tm-search .chunk").innerText`)
		assert.Contains(t, first, "Thirty days <b>of</b> vacation.")
		assert.Contains(t, first, "1st by words, ")
		assert.Regexp(t, `\d(st|nd) by meaning · score 0\.0\d{3}`, first)
		assert.Equal(t, []string{"days", "vacation"}, browser.Evaluate[[]string](p, `[...document.querySelector("tm-search .chunk").querySelectorAll("mark")].map((m) => m.textContent)`))
	}
	found()
	p.Do(chromedp.Reload())
	found()
	p.Click("tm-search label", "mail")
	p.Until(`document.querySelectorAll("tm-search .chunk").length === 1`)
	p.Sees("tm-search .chunk", "letter.md")
	p.Do(chromedp.Reload())
	p.Until(`document.querySelectorAll("tm-search .chunk").length === 1`)
	p.Do(chromedp.NavigateBack())
	found()

	w.Provider.Fail(llmtest.Status(http.StatusInternalServerError, ""))
	p.Click("tm-search button", "Search")
	p.Sees("tm-search .warning", "The result may be worse than usual: the embedder openai/stand-in-embedding failed")
	goTo(p, w, "search?q=xylophone&collection=none")
	p.Sees("tm-search .chunk, tm-search .empty", "No passage fits")
}

// TestPageContexts shows what a model has written about chunks beside their text, and how another one has ranked them.
func TestPageContexts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		Provider: llmtest.Config{
			Script: func(req llm.Request) string {
				if strings.Contains(req.Messages[len(req.Messages)-1].Content, "<chunk>") {
					return "Walnuts <b>everywhere</b>"
				}
				return "[2,1]" // if it is asked in a chat
			},
			Relevance: func(_, document string) float64 { return float64(len(document)) },
		},
		Configure: func(cfg *threadmill.Config) {
			cfg.Knowledge.ContextModel, cfg.Knowledge.RerankModel = "openai/stand-in", "openai/stand-in"
		},
	})
	addText(w, "guides", "short.md", "Thirty days.")
	long := addText(w, "guides", "long.md", "Thirty days, and many more words.")
	p := browser.New(t).Open(w.API.URL + "/#/knowledge/search?q=walnuts")
	p.Sees("tm-search .chunk:first-child", "long.md")
	p.Sees("tm-search .chunk:first-child", "1st by the reranking model, 2nd by words")
	p.Sees("tm-search .chunk:first-child", "Written by a model: Walnuts <b>everywhere</b>")
	p.Sees("tm-search .chunk:first-child .chunk-text", "Thirty days, and many more words.")
	goTo(p, w, "documents/"+long)
	p.Sees("tm-document .chunk", "Written by a model: Walnuts <b>everywhere</b>")
	p.Sees("tm-document .chunk-text", "Thirty days, and many more words.")
	p.Accessible()
}

// TestPageReranking tells the rank by the reranking model first.
func TestPageReranking(t *testing.T) {
	t.Parallel()
	o := readers()
	o.Configure = func(cfg *threadmill.Config) { cfg.Knowledge.RerankModel = "openai/stand-in-reranker" }
	o.Provider.Relevance = func(_, document string) float64 { return float64(len(document)) }
	w := harness.New(t, o)
	addText(w, "default", "letter.md", "Vacation.")
	addText(w, "default", "handbook.md", "Thirty days of vacation.")
	p := browser.New(t).Open(w.API.URL + "/#/knowledge/search?q=vacation")
	p.Sees("tm-search .why", "1st by the reranking model, 2nd by words · score 0.0161 · of that model 24.0000")
	w.Provider.Fail(llmtest.Status(http.StatusInternalServerError, ""))
	p.Click("tm-search button", "Search")
	p.Sees("tm-search .warning", "The result may be worse than usual: the reranking model openai/stand-in-reranker failed")
}

// TestPageSources shows the passages that a reply may cite, live and after a reload. They lead to their chunks.
func TestPageSources(t *testing.T) {
	t.Parallel()
	w := harness.New(t, readers())
	id := w.Open()
	document := addText(w, "default", "handbook.md", "# Handbook\n\n## Vacation\n\nThirty days <b>of</b> vacation.")
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
	p.Click(".sources a", "Handbook")
	p.Sees(".chunk.target", "Thirty days <b>of</b> vacation.")
	p.Until(`document.querySelector("tm-document .warning") === null`)

	addText(w, "default", "handbook.md", "# Handbook\n\n## Vacation\n\nForty days.")
	p.Do(chromedp.NavigateBack())
	shown()
	p.Click(".sources a", "Handbook")
	p.Sees(".chunk.target", "Forty days.")
	p.Sees(".chunk.target .warning", "The document has changed since.")
	require.NoError(t, w.Store.DeleteKnowledge(w.Ctx(), w.TaskQueue, document))
	p.Do(chromedp.NavigateBack())
	shown()
	p.Click(".sources a", "Handbook")
	p.Sees("tm-document .empty", "does not exist any more")
}

// finds adds people and things as if they had been found in a message.
func finds(w *harness.Harness, thread, message string, found store.EntitiesFound) {
	w.T.Helper()
	for i := range found.Mentions {
		m := &found.Mentions[i]
		m.ThreadID, m.SourceType, m.SourceID = thread, "message", message
	}
	x := store.Extraction{ID: message, ThreadID: thread, SourceType: "message", SourceID: message}
	require.NoError(w.T, w.Store.QueueExtraction(w.Ctx(), w.TaskQueue, x))
	ended, err := w.Store.EndExtraction(w.Ctx(), w.TaskQueue, message, found)
	require.NoError(w.T, err)
	require.True(w.T, ended)
}

// sarahs are two persons with one name, of whom a third one was merged into the first, and an organization.
func sarahs(w *harness.Harness, thread, message string) {
	finds(w, thread, message, store.EntitiesFound{
		New: []store.NewEntity{
			{ID: "e1", Name: "Sarah Connor", Type: "person", Description: hostileName},
			{ID: "e2", Name: "Sarah C.", Type: "person", Description: "leads sales"},
			{ID: "e3", Name: "Sahra", Type: "person"},
			{ID: "e4", Name: hostileName, Type: "organization"},
		},
		Mentions: []store.Mention{
			{EntityID: "e1", Name: "Sarah Connor", Text: "I met Sarah Connor <b>today</b>."}, {EntityID: "e2", Name: "Sarah C.", Text: "Sarah C. called."}, {EntityID: "e4", Name: "it", Text: "It works."},
		},
		Relations: []store.Relation{{From: "e3", To: "e1", Type: store.RelatedTo, Reason: "they have different employers"}},
		Merges:    []store.EntityMerge{{ID: "g1", From: "e2", Into: "e1", By: "openai/judge", Similarity: 0.97}},
	})
}

// TestPageEntities shows who and what messages mention, undoes a merge, merges two and deletes one.
func TestPageEntities(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	thread := w.Open()
	message := w.Post(thread, "I met Sarah Connor today.")
	w.Await(thread, message)
	p := browser.New(t).Open(w.API.URL + "/#/knowledge/entities")
	p.Sees("tm-entities .empty", "Nobody and nothing is known yet")
	p.Sees("tm-entities", "Nothing new is found in messages: no model finds them")
	sarahs(w, thread, message)
	p.Do(chromedp.Reload())
	names := func(want ...string) {
		t.Helper()
		list, err := json.Marshal(want)
		require.NoError(t, err)
		p.Until(fmt.Sprintf(`JSON.stringify([...document.querySelectorAll("tm-entities .title")].map((a) => a.textContent)) === JSON.stringify(%s)`, list))
	}
	names("Sarah Connor", hostileName, "Sahra")
	goTo(p, w, "entities?type=person&search=SARAH%20C.")
	names("Sarah Connor")
	p.Sees("tm-entities .from", "also Sarah C.")

	p.Click("tm-entities a", "Sarah Connor")
	p.Sees("tm-entity h3", "2 mentions")
	p.Sees("tm-entity .card", "leads sales")
	p.Sees("tm-entity .card", hostileName)
	p.Sees("tm-entity li", "related to Sahra — they have different employers")
	p.Sees("tm-entity li", "Sarah C. merged into Sarah Connor by openai/judge, similarity 0.970")
	p.Sees("tm-entity .rows", "I met Sarah Connor <b>today</b>.")

	p.Click("tm-entity button", "Undo…")
	confirm(p, "Undo it")
	p.Sees("tm-entity h3", "1 mention")
	p.Sees("tm-entity li", "undone by ann")
	p.Click("tm-entity button", "Merge into another…")
	p.Fill("dialog input[type=search]", "sarah c.")
	p.Until(`document.querySelectorAll("dialog .options label").length === 1`)
	p.Click("dialog .options label", "Sarah C.")
	confirm(p, "Merge into Sarah C.")
	p.Sees("tm-entity h2", "Sarah C.")
	p.Sees("tm-entity h3", "2 mentions")
	p.Sees("tm-entity li", "Sarah Connor merged into Sarah C. by ann")

	p.Click("tm-entity .rows a", thread)
	p.Until(`document.activeElement?.id === "line-m:` + message + `"`)
	goTo(p, w, "entities/e1")
	p.Sees("tm-entity", "What the link names was merged into it.")
	p.Click("tm-entity button", "Delete…")
	confirm(p, "Delete it")
	names(hostileName, "Sahra")
	goTo(p, w, "entities/e1")
	p.Sees("tm-entity .empty", "Nobody knows of it any more")
	p.Until(`document.querySelector("main img") === null && document.title === "Knowledge · Threadmill"`)
}

// TestPageFacts leads from what an agent knew to whom it knew.
func TestPageFacts(t *testing.T) {
	t.Parallel()
	o := harness.Options{Agents: []agent.Agent{{Name: "friend", Model: "openai/stand-in", Knowledge: agent.Knowledge{Entities: true}}}}
	o.Provider.Script = func(req llm.Request) string {
		if !strings.HasPrefix(req.Messages[0].Content, entities.FindInstructions) {
			return ""
		}
		return `{"entities":[{"name":"Sarah","type":"person","description":"works at Acme"}]}`
	}
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Knowledge.Embedder, cfg.Knowledge.EntityModel = "openai/stand-in-embedding", "openai/stand-in"
	}
	w := harness.New(t, o)
	w.Say(w.Open(), "I met Sarah")
	require.Eventually(t, func() bool {
		all, err := w.Store.Entities(w.Ctx(), w.TaskQueue, store.EntityPage{})
		return err == nil && len(all) == 1
	}, testenv.Patience, testenv.Tick)
	id := w.Open()
	w.Say(id, "Who is Sarah?")
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Click(".sources summary", "Known (1)")
	p.Click(".sources a", "Sarah")
	p.Sees("tm-entity h2", "Sarah")
	p.Sees("tm-entity .card", "works at Acme")
}

// TestPageKnowledgeElsewhere shows nothing of a namespace to another one.
func TestPageKnowledgeElsewhere(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := addText(w, "default", "handbook.md", "Thirty days of vacation.")
	sarahs(w, "t", "m")
	other := httptest.NewServer(harness.API(t, w.Beside(func(cfg *threadmill.Config) { cfg.Namespace = "elsewhere" })))
	t.Cleanup(other.Close) // once the browser is closed
	p := browser.New(t).Open(other.URL + "/#/knowledge")
	p.Sees("tm-documents .empty", "There are no documents yet")
	for path, text := range map[string]string{
		"documents/" + id: "does not exist any more", "search?q=vacation": "No passage fits", "entities": "Nobody and nothing is known yet", "entities/e1": "Nobody knows of it any more",
	} {
		p.Do(chromedp.Navigate(other.URL + "/#/knowledge/" + path))
		p.Sees("tm-knowledge .empty", text)
	}
}

// TestPageKnowledgeRoles offers what the key of a person permits.
func TestPageKnowledgeRoles(t *testing.T) {
	t.Parallel()
	reader, poster := newKey("reader", auth.RoleRead), newKey("poster", auth.RoleRead, auth.RolePost)
	w := harness.New(t, harness.Options{Serve: func(cfg threadmill.Config, api *httpapi.Config) {
		keys, ok := cfg.Store.(store.APIKeys)
		require.True(t, ok)
		var err error
		api.Authenticator, err = auth.NewKeys(auth.KeysConfig{Store: keys, Keys: []auth.Key{reader.Key, poster.Key}})
		require.NoError(t, err)
	}})
	_, err := w.Store.BeginKnowledge(w.Ctx(), w.TaskQueue, store.KnowledgeDocument{Source: "a.md"}, store.KnowledgeBegin{})
	require.NoError(t, err)
	sarahs(w, "t", "m")
	b := browser.New(t)
	for key, adds := range map[*key]bool{reader: false, poster: true} {
		p := b.OpenAs("", w.API.URL+"/#/knowledge")
		p.Fill("#key", key.token.Reveal())
		p.Click("tm-sign-in button", "Sign in")
		p.Sees("tm-documents .rows", "a.md")
		assert.Equal(t, adds, browser.Evaluate[bool](p, `[...document.querySelectorAll("tm-documents button")].some((b) => b.textContent === "Add documents")`))
		p.Until(`document.querySelector("tm-documents .actions") === null`)
		p.Click("tm-documents a", "a.md")
		p.Sees("tm-document h2", "a.md")
		p.Until(`document.querySelectorAll("tm-document .card button").length === 1`) // that copies a link
		goTo(p, w, "entities/e1")
		p.Sees("tm-entity li", "merged into")
		p.Until(`document.querySelector("tm-entity button:not([hidden])") === null`)
	}
}

// key is an API key with its token.
type key struct {
	auth.Key
	token auth.Token
}

func newKey(name string, roles ...auth.Role) *key {
	_, token := auth.NewToken()
	return &key{auth.Key{Name: name, Roles: roles, Hash: token.Hash()}, token}
}

// TestPageKnowledgeAccessible checks each part with axe, in both themes, wide and narrow.
func TestPageKnowledgeAccessible(t *testing.T) {
	t.Parallel()
	w := harness.New(t, readers())
	id := addText(w, "guides", "handbook.md", "# Vacation\n\nThirty days of vacation. "+strings.Repeat("More to read. ", 80))
	addText(w, "mail", "letter.md", "The vacations begin.")
	sarahs(w, "t", "m")
	b := browser.New(t)
	for _, part := range []struct {
		name, path string
		open       func(*browser.Tab)
	}{
		{"documents", "documents", func(p *browser.Tab) {
			p.Click("button", "Add documents")
			p.Drop(map[string]string{"broken.pdf": "no PDF"})
			p.Sees("tm-adding .error", "PDF")
		}},
		{"text", "documents", func(p *browser.Tab) {
			p.Click("button", "Add documents")
			p.Click("tm-adding label", "Text")
		}},
		{"no documents", "documents?search=none", func(p *browser.Tab) { p.Sees("tm-documents", "No document matches.") }},
		{"document", "documents/" + id + "/0?passage=other", func(p *browser.Tab) { p.Sees(".chunk .warning", "has changed") }},
		{"search", "search?" + url.Values{"q": {"vacation"}}.Encode(), func(p *browser.Tab) { p.Sees(".chunk mark", "vacation") }},
		{"entities", "entities", func(p *browser.Tab) { p.Sees("tm-entities", "Sarah") }},
		{"entity", "entities/e1", func(p *browser.Tab) { p.Sees("tm-entity .rows", "I met") }},
		{"merge", "entities/e1", func(p *browser.Tab) {
			p.Click("button", "Merge into another…")
			p.Sees("dialog label", "Sahra")
		}},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.T = t
			p := b.Open(w.API.URL + "/#/knowledge/" + part.path)
			part.open(p)
			for _, size := range []struct{ width, height int64 }{{1440, 900}, {390, 844}} {
				p.Do(chromedp.EmulateViewport(size.width, size.height))
				p.Until(`document.documentElement.scrollWidth <= innerWidth`)
				p.AccessibleInThemes("")
			}
		})
	}
}
