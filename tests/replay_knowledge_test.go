package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// knowledgeLives are threads that ingest documents. Each returns the sources, whose workflows are recorded too.
var knowledgeLives = map[string]func(l lived, s *site) (sources []string){
	"ingestevent": func(l lived, s *site) []string {
		askToIngest(l.Harness, l.id, "e1", signals.Ingestion{Source: s.URL + "/manual.md"})
		awaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 1)
		askToIngest(l.Harness, l.id, "e2", signals.Ingestion{Source: s.URL + "/manual.md"}) // unchanged
		awaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 2)
		return []string{s.URL + "/manual.md"}
	},
	"ingestfailed": func(l lived, s *site) []string {
		askToIngest(l.Harness, l.id, "e1", signals.Ingestion{Source: s.URL + "/gone.md"})
		askToIngest(l.Harness, l.id, "e2", signals.Ingestion{Source: "no address"})
		awaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 1)
		return []string{s.URL + "/gone.md"}
	},
	"ingesttool": func(l lived, _ *site) []string {
		l.say(`use ingest_document {"source":"menu.md","text":"# Menu"}`)
		awaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 1)
		return []string{"menu.md"}
	},
}

// recordKnowledge stores the histories of those threads, of their ingestions, and of an embedding of all documents.
func recordKnowledge(t *testing.T, o harness.Options) {
	t.Helper()
	s := newSite(t, sections("first", killedSections))
	vectors := newEmbeddings(t)
	o = librarians(o)
	o.Configure = embeds(t, vectors, "one")
	w := harness.New(t, o)
	for name, live := range knowledgeLives {
		id := w.Open("searcher")
		first := run(w, id)
		sources := live(lived{w, id}, s)
		settle(w, id)
		storeRuns(t, w, id, first, name)
		n := 0
		for _, source := range sources {
			d := awaitDocument(w, source, 1)
			for revision := 1; revision <= d.Revision; revision++ {
				n++
				storeEnded(t, w, fmt.Sprintf("%s-ingest%d", name, n), signals.IngestWorkflowID(w.TaskQueue, d.ID, revision))
			}
		}
	}
	works(t, w, embeds(t, vectors, "two"))
	require.Eventually(t, func() bool {
		index, err := w.Store.KnowledgeIndex(w.Ctx(), w.TaskQueue)
		return err == nil && len(index.Embedders) == 1 && index.Embedders[0] == (store.KnowledgeEmbedder{
			Name: "vectors/two", Dimension: index.Embedders[0].Dimension, Chunks: index.Chunks,
		})
	}, waitLong, waitTick)
	storeEnded(t, w, "embed", signals.EmbedWorkflowID(w.TaskQueue))
	recordContexts(t, o)
}

// recordContexts stores the history of an ingestion whose chunks get contexts, in two batches.
func recordContexts(t *testing.T, o harness.Options) {
	t.Helper()
	o.Configure = writes(t, newWriter(t), "model")
	w := harness.New(t, o)
	d := ingested(w, w.Open(), "manual.md", sections("first", 60))
	storeEnded(t, w, "ingestcontexts", signals.IngestWorkflowID(w.TaskQueue, d.ID, 1))
}

// storeEnded stores the history of a workflow when it has ended.
func storeEnded(t *testing.T, w *harness.Harness, name, workflowID string) {
	t.Helper()
	require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), workflowID, "").Get(w.Ctx(), nil))
	events, err := runHistory(w.Ctx(), w.Temporal, workflowID, "")
	require.NoError(t, err)
	write(t, name, events)
}
