package knowledge

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/job/jobclient"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestEmbedderFailsAnIngestion has embedders fail in every way while a document is ingested.
func TestEmbedderFailsAnIngestion(t *testing.T) {
	t.Parallel()
	s := documents.NewEmbeddings(t)
	w := harness.New(t, harness.Options{Configure: documents.Embeds(t, s, "stand-in")})
	id := w.Open()
	t.Run("S2-59 an embedder that was down: the document is indexed when it is back", func(t *testing.T) {
		w.T = t
		gate := s.Block(0)
		defer gate.Release()
		s.Fail(llmtest.Status(http.StatusServiceUnavailable, ""), llmtest.Drop(0), llmtest.Malformed(0))
		documents.AskToIngest(w, id, "down", signals.Ingestion{Source: "down.md", Text: documents.Handbook})
		require.Eventually(t, func() bool { return s.Calls() >= 2 }, testenv.Patience, testenv.Tick)
		d, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID(store.DefaultCollection, "down.md"))
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeProcessing, d.Status)
		require.Zero(t, d.Indexed)
		d = documents.AwaitDocument(w, "down.md", 1)
		require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
		require.Equal(t, 4, s.Calls())
		documents.AwaitToldTimes(t, w, id, 1)
	})
	t.Run("an embedder that names a time is called no sooner", func(t *testing.T) {
		w.T = t
		s.Reset()
		s.Fail(llmtest.Status(http.StatusTooManyRequests, "3"))
		require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, id, "busy.md", documents.Handbook).Status)
		calls := s.Requests()
		require.Len(t, calls, 2)
		require.GreaterOrEqual(t, calls[1].At.Sub(calls[0].At), 3*time.Second)
		documents.AwaitToldTimes(t, w, id, 2)
	})
	for name, c := range map[string]struct {
		fault llmtest.Fault
		want  string
	}{
		"a wrong key":            {llmtest.Status(http.StatusUnauthorized, "").WithError("", "Incorrect API key"), "the embedder vectors/stand-in failed: "},
		"a text that it rejects": {llmtest.Status(http.StatusBadRequest, "").WithError("", "too long"), "too long"},
		"vectors of another dimension than its others": {llmtest.Dimension(llmtest.EmbeddingDimension / 2), "the vectors of the embedder vectors/stand-in cannot be kept"},
	} {
		t.Run("S2-59 the document has failed: "+name, func(t *testing.T) {
			w.T = t
			s.Reset()
			source := strings.ReplaceAll(name, " ", "-") + ".md"
			told := len(documents.ToldOf(w, id))
			s.Fail(c.fault)
			d := documents.Ingested(w, id, source, documents.Handbook)
			require.Equal(t, store.KnowledgeFailed, d.Status)
			require.Contains(t, d.Error, c.want)
			require.Contains(t, d.Error, "the embedder vectors/stand-in")
			require.Equal(t, 1, s.Calls())
			require.Contains(t, documents.AwaitToldTimes(t, w, id, told+1)[told].Content, d.Error)
			hits, err := w.Store.SearchText(w.Ctx(), w.TaskQueue, "vacation", store.KnowledgeScope{})
			require.NoError(t, err)
			for _, h := range hits {
				require.NotEqual(t, source, h.Source)
			}
			documents.AskToIngest(w, id, "again-"+signals.NewID(), signals.Ingestion{Source: source, Text: documents.Handbook})
			require.Equal(t, store.KnowledgeIndexed, documents.AwaitDocument(w, source, 2).Status, "it can be ingested again")
			documents.AwaitToldTimes(t, w, id, told+2)
		})
	}
}

// TestEmbedderFailsASearch has embedders fail in every way while passages are searched: a turn completes with those that words
// find, and its record says why.
func TestEmbedderFailsASearch(t *testing.T) {
	t.Parallel()
	s := documents.NewEmbeddings(t)
	o := documents.Librarians(harness.Options{})
	o.Configure = documents.Embeds(t, s, "stand-in")
	w := harness.New(t, o)
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, w.Open(), "handbook.md", documents.Handbook).Status)
	for name, c := range map[string]struct {
		fault llmtest.Fault
		want  string
	}{
		"down":                {llmtest.Status(http.StatusInternalServerError, ""), "the embedder vectors/stand-in failed: "},
		"busy":                {llmtest.Status(http.StatusTooManyRequests, "3600"), "the embedder vectors/stand-in failed: "},
		"a wrong key":         {llmtest.Status(http.StatusUnauthorized, ""), "the embedder vectors/stand-in failed: "},
		"a lost connection":   {llmtest.Drop(0), "the embedder vectors/stand-in failed: "},
		"nonsense":            {llmtest.Malformed(0), "the embedder vectors/stand-in failed: "},
		"another dimension":   {llmtest.Dimension(8), "of dimension 8, and those of the documents have 64"},
		"no answer, for ever": {llmtest.Hang(0), "the embedder vectors/stand-in did not answer within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			s.Reset()
			s.Fail(c.fault)
			id := w.Open("reader")
			out := w.Say(id, "vacation days?")
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			found := retrieved(w, id)
			require.Contains(t, found.Warning, c.want)
			require.NotEmpty(t, found.Passages)
			require.Zero(t, found.Passages[0].VectorRank)
			require.Equal(t, 1, s.Calls())
			require.Len(t, check.OfType(w, id, event.TypeLLMCall), 1)
		})
	}
}

// awaitEmbedder waits until all chunks of a namespace have vectors of an embedder, and none of another one.
func awaitEmbedder(t *testing.T, w *harness.Harness, namespace, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		index, err := w.Store.KnowledgeIndex(w.Ctx(), namespace)
		return err == nil && index.Chunks > 0 && len(index.Embedders) == 1 &&
			index.Embedders[0].Name == name && index.Embedders[0].Chunks == index.Chunks
	}, testenv.Patience, testenv.Tick, "%s in %s", name, namespace)
}

// TestEmbedderChanges gives workers other embedders while those of before still run.
func TestEmbedderChanges(t *testing.T) {
	t.Parallel()
	s := documents.NewEmbeddings(t)
	o := documents.Librarians(harness.Options{NoWorker: true})
	none, one, two := documents.Embeds(t, s, ""), documents.Embeds(t, s, "one"), documents.Embeds(t, s, "two")
	o.Configure = none
	w := harness.New(t, o)
	other := w.TaskQueue + "-other"
	stopNone := w.StartWorker()
	desk := w.Open()
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, desk, "manual.md", documents.Sections("first", documents.ManySections)).Status)
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, desk, "handbook.md", documents.Handbook).Status)
	d, err := w.Store.BeginKnowledge(w.Ctx(), other, store.KnowledgeDocument{Source: "other.md"}, store.KnowledgeBegin{})
	require.NoError(t, err)
	require.NoError(t, w.Store.AddChunks(w.Ctx(), other, d.Newest(), []store.KnowledgeChunk{{Text: "Another tenant's."}}))
	_, err = w.Store.FinishKnowledge(w.Ctx(), other, d.Newest(), store.KnowledgeFinish{})
	require.NoError(t, err)

	// Either runtime may answer the question.
	asks := func(t *testing.T) event.Retrieval {
		t.Helper()
		id := w.Open("reader")
		require.Equal(t, signals.TurnCompleted, w.Say(id, "How many days of vacation?").Status)
		return retrieved(w, id)
	}
	outer := t
	var stopOne func()
	t.Run("from none to one, beside a worker with none", func(t *testing.T) {
		w.T = t
		stopOne = documents.Works(outer, w, one)
		awaitEmbedder(t, w, w.TaskQueue, "vectors/one")
		awaitEmbedder(t, w, other, "vectors/one")
		stopNone()
		found := asks(t)
		require.Empty(t, found.Warning)
		require.Positive(t, found.Passages[0].VectorRank)
	})
	var stopTwo func()
	t.Run("from one to another: the vectors of before serve until all have new ones", func(t *testing.T) {
		w.T = t
		s.Reset()
		s.Fail(llmtest.Status(http.StatusServiceUnavailable, "1"))
		stopTwo = documents.Works(outer, w, two)
		require.Eventually(t, func() bool { return s.Calls() >= 1 }, testenv.Patience, testenv.Tick)
		found := asks(t)
		require.Empty(t, found.Warning)
		require.Positive(t, found.Passages[0].VectorRank)
		awaitEmbedder(t, w, w.TaskQueue, "vectors/two")
		awaitEmbedder(t, w, other, "vectors/two")
		found = asks(t)
		require.Empty(t, found.Warning)
		require.Positive(t, found.Passages[0].VectorRank)
	})
	t.Run("two workers with different embedders do not fight", func(t *testing.T) {
		w.T = t
		run, err := w.Temporal.DescribeWorkflow(w.Ctx(), job.EmbedWorkflowID(w.TaskQueue), "")
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, desk, "menu.md", "# Menu\n\nSoup on Mondays.").Status)
		again, err := w.Temporal.DescribeWorkflow(w.Ctx(), job.EmbedWorkflowID(w.TaskQueue), "")
		require.NoError(t, err)
		require.Equal(t, run.WorkflowExecution.RunID, again.WorkflowExecution.RunID, "nothing starts a workflow but a worker that starts")
	})
	t.Run("to none: documents are found by their words, and keep their vectors", func(t *testing.T) {
		w.T = t
		stopOne()
		stopTwo()
		before, err := w.Store.KnowledgeIndex(w.Ctx(), w.TaskQueue)
		require.NoError(t, err)
		stop := documents.Works(t, w, none)
		defer stop()
		found := asks(t)
		require.NotEmpty(t, found.Passages)
		require.Zero(t, found.Passages[0].VectorRank)
		after, err := w.Store.KnowledgeIndex(w.Ctx(), w.TaskQueue)
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

// TestEmbedderReplaced: a worker that starts replaces the work for an embedder that nobody has any more.
func TestEmbedderReplaced(t *testing.T) {
	t.Parallel()
	s := documents.NewEmbeddings(t)
	w := harness.New(t, harness.Options{NoWorker: true, Configure: documents.Embeds(t, s, "one")})
	stop := w.StartWorker()
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, w.Open(), "handbook.md", documents.Handbook).Status)
	stop()
	jobs := jobclient.Client{Temporal: w.Temporal, TaskQueue: w.TaskQueue}
	require.NoError(t, jobs.Embed(w.Ctx(), w.TaskQueue, "vectors/gone"))
	stuck, err := w.Temporal.DescribeWorkflow(w.Ctx(), job.EmbedWorkflowID(w.TaskQueue), "")
	require.NoError(t, err)
	require.NoError(t, jobs.Embed(w.Ctx(), w.TaskQueue, "vectors/gone"))
	same, err := w.Temporal.DescribeWorkflow(w.Ctx(), job.EmbedWorkflowID(w.TaskQueue), "")
	require.NoError(t, err)
	require.Equal(t, stuck.WorkflowExecution.RunID, same.WorkflowExecution.RunID, "it runs already")
	documents.Works(t, w, documents.Embeds(t, s, "two"))
	awaitEmbedder(t, w, w.TaskQueue, "vectors/two")
}
