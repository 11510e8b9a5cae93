package knowledge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// contextsOf returns the contexts of the newest revision of a document, one for each chunk.
func contextsOf(w *harness.Harness, d store.KnowledgeDocument) (all []string) {
	w.T.Helper()
	chunks, err := w.Store.Chunks(w.Ctx(), w.TaskQueue, d.Newest(), 0, 0)
	require.NoError(w.T, err)
	for _, c := range chunks {
		all = append(all, c.Context)
	}
	return all
}

// TestContexts gives chunks contexts, by which they are found.
func TestContexts(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			contexts(t, b.Options)
		})
	}
}

func contexts(t *testing.T, o harness.Options) {
	s := documents.NewWriter(t)
	o = documents.Librarians(o)
	o.Configure, o.NoWorker = documents.Writes(t, s, ""), true
	w := harness.New(t, o)
	stop := documents.Works(t, w, documents.Writes(t, s, ""))
	desk := w.Open()
	before := documents.Ingested(w, desk, "manual.md", documents.Sections("first", 3))
	require.Equal(t, store.KnowledgeIndexed, before.Status, before.Error)
	require.Equal(t, []string{"", "", ""}, contextsOf(w, before))
	require.Zero(t, s.Calls(), "without a model, there is no step")
	stop()

	documents.Works(t, w, documents.Writes(t, s, "model"))
	documents.AskToIngest(w, desk, "again", signals.Ingestion{Source: "manual.md", Text: documents.Sections("first", 3), ForceReindex: true})
	d := documents.AwaitDocument(w, "manual.md", 2)
	require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
	require.Equal(t, []string{"Walnuts of part 0", "Walnuts of part 1", "Walnuts of part 2"}, contextsOf(w, d))
	require.Equal(t, 3, s.Calls())

	t.Run("its step can be watched", func(t *testing.T) {
		events, err := check.RunHistory(w.Ctx(), w.Temporal, job.IngestWorkflowID(w.TaskQueue, d.ID, 2), "")
		require.NoError(t, err)
		summaries := map[string]string{}
		for _, e := range events {
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
				summaries[a.GetActivityType().GetName()] = string(e.GetUserMetadata().GetSummary().GetData())
			}
		}
		require.Equal(t, `"contexts, 0 of 3"`, summaries[job.ActivityContextualizeChunks])
	})
	t.Run("a chunk is found by words that only its context has, which are not its text", func(t *testing.T) {
		w.T = t
		id := w.Open("reader")
		require.Equal(t, signals.TurnCompleted, w.Say(id, "Are there walnuts?").Status)
		found := retrieved(w, id)
		require.Len(t, found.Passages, 2)
		for _, p := range found.Passages {
			require.Positive(t, p.TextRank)
			require.Equal(t, fmt.Sprintf("Walnuts of part %d", p.Index), p.Context)
			require.NotContains(t, p.Text, "Walnuts")
		}
		shown := asked(w)
		require.Contains(t, shown, `context="Walnuts of part `)
		require.Contains(t, shown, "was written by a model and is no part of its document")
	})
	t.Run("the API shows it beside the text", func(t *testing.T) {
		res, err := http.Get(w.API.URL + "/v1/knowledge/documents/" + d.ID + "/chunks?limit=1") //nolint:noctx // of a test
		require.NoError(t, err)
		defer res.Body.Close()
		var body struct{ Chunks []map[string]any }
		require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
		require.Equal(t, "Walnuts of part 0", body.Chunks[0]["context"])
		require.NotContains(t, body.Chunks[0]["text"], "Walnuts")
	})
}

// TestContextModelFails has the model fail in every way in the middle of a document.
func TestContextModelFails(t *testing.T) {
	t.Parallel()
	s := documents.NewWriter(t)
	o := harness.Options{Configure: documents.Writes(t, s, "model")}
	w := harness.New(t, o)
	id := w.Open()
	ok := llmtest.Fault{}
	t.Run("an outage: the step goes on with what is missing", func(t *testing.T) {
		w.T = t
		s.Fail(ok, ok, llmtest.Status(http.StatusServiceUnavailable, ""), llmtest.Drop(0), llmtest.Malformed(0))
		d := documents.Ingested(w, id, "outage.md", documents.Sections("first", 12))
		require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
		require.NotContains(t, contextsOf(w, d), "")
		require.Equal(t, 12+3, s.Calls(), "each failure costs one more call")
	})
	t.Run("a chunk that is too long for the model stays without", func(t *testing.T) {
		w.T = t
		s.Reset()
		s.Fail(ok, llmtest.Status(http.StatusBadRequest, "").WithError("context_length_exceeded", "too long"))
		d := documents.Ingested(w, id, "long.md", documents.Sections("first", 6))
		require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
		without := 0
		for _, c := range contextsOf(w, d) {
			if c == "" {
				without++
			}
		}
		require.Equal(t, 1, without)
		require.Equal(t, 6, s.Calls())
	})
	for name, fault := range map[string]llmtest.Fault{
		"a wrong key":   llmtest.Status(http.StatusUnauthorized, "").WithError("invalid_api_key", "Incorrect API key"),
		"a wrong model": llmtest.Status(http.StatusNotFound, "").WithError("model_not_found", "The model does not exist"),
	} {
		t.Run(name+" fails the document", func(t *testing.T) {
			w.T = t
			s.Reset()
			s.Fail(ok, fault)
			d := documents.Ingested(w, id, strings.ReplaceAll(name, " ", "-")+".md", documents.Sections("first", 20))
			require.Equal(t, store.KnowledgeFailed, d.Status)
			require.Contains(t, d.Error, "the context model writer/model failed: ")
			require.LessOrEqual(t, s.Calls(), 1+4, "no other chunk is asked for")
		})
	}
}
