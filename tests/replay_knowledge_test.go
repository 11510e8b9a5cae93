package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// knowledgeLives are threads that ingest documents. Each returns the sources, whose workflows are recorded too.
var knowledgeLives = map[string]func(l lived, s *documents.Site) (sources []string){
	"ingestevent": func(l lived, s *documents.Site) []string {
		documents.AskToIngest(l.Harness, l.id, "e1", signals.Ingestion{Source: s.URL + "/manual.md"})
		documents.AwaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 1)
		documents.AskToIngest(l.Harness, l.id, "e2", signals.Ingestion{Source: s.URL + "/manual.md"}) // unchanged
		documents.AwaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 2)
		return []string{s.URL + "/manual.md"}
	},
	"ingestfailed": func(l lived, s *documents.Site) []string {
		documents.AskToIngest(l.Harness, l.id, "e1", signals.Ingestion{Source: s.URL + "/gone.md"})
		documents.AskToIngest(l.Harness, l.id, "e2", signals.Ingestion{Source: "no address"})
		documents.AwaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 1)
		return []string{s.URL + "/gone.md"}
	},
	"ingesttool": func(l lived, _ *documents.Site) []string {
		l.say(`use ingest_document {"source":"menu.md","text":"# Menu"}`)
		documents.AwaitToldTimes(l.T.(*testing.T), l.Harness, l.id, 1)
		return []string{"menu.md"}
	},
}

// recordKnowledge stores the histories of those threads, of their ingestions, and of an embedding of all documents.
func recordKnowledge(t *testing.T, o harness.Options) {
	t.Helper()
	s := documents.NewSite(t, documents.Sections("first", documents.ManySections))
	vectors := documents.NewEmbeddings(t)
	o = documents.Librarians(o)
	o.Configure = documents.Embeds(t, vectors, "one")
	w := harness.New(t, o)
	for name, live := range knowledgeLives {
		id := w.Open("searcher")
		first := check.CurrentRun(w, id)
		sources := live(lived{w, id}, s)
		check.Settle(w, id)
		storeRuns(t, w, id, first, name)
		n := 0
		for _, source := range sources {
			d := documents.AwaitDocument(w, source, 1)
			for revision := 1; revision <= d.Revision; revision++ {
				n++
				storeEnded(t, w, fmt.Sprintf("%s-ingest%d", name, n), job.IngestWorkflowID(w.TaskQueue, d.ID, revision))
			}
		}
	}
	documents.Works(t, w, documents.Embeds(t, vectors, "two"))
	require.Eventually(t, func() bool {
		index, err := w.Store.KnowledgeIndex(w.Ctx(), w.TaskQueue)
		return err == nil && len(index.Embedders) == 1 && index.Embedders[0] == (store.KnowledgeEmbedder{
			Name: "vectors/two", Dimension: index.Embedders[0].Dimension, Chunks: index.Chunks,
		})
	}, testenv.Patience, testenv.Tick)
	storeEnded(t, w, "embed", job.EmbedWorkflowID(w.TaskQueue))
	recordContexts(t, o)
}

// recordContexts stores the history of an ingestion whose chunks get contexts, in two batches.
func recordContexts(t *testing.T, o harness.Options) {
	t.Helper()
	o.Configure = documents.Writes(t, documents.NewWriter(t), "model")
	w := harness.New(t, o)
	d := documents.Ingested(w, w.Open(), "manual.md", documents.Sections("first", 60))
	storeEnded(t, w, "ingestcontexts", job.IngestWorkflowID(w.TaskQueue, d.ID, 1))
}

// storeEnded stores the history of a workflow when it has ended.
func storeEnded(t *testing.T, w *harness.Harness, name, workflowID string) {
	t.Helper()
	require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), workflowID, "").Get(w.Ctx(), nil))
	events, err := check.RunHistory(w.Ctx(), w.Temporal, workflowID, "")
	require.NoError(t, err)
	write(t, name, events)
}
