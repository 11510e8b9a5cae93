package tests

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestBudgetsOfKnowledge: passages cost a thread nothing. A document costs it what an event with a function costs, and the
// announcement what a message costs that nobody answers, whatever the size of the document.
func TestBudgetsOfKnowledge(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	var gates sync.Map // of addresses, each closed when it may answer
	gate := func(path string) chan struct{} {
		g, _ := gates.LoadOrStore(path, make(chan struct{}))
		return g.(chan struct{})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gate(r.URL.Path):
			w.Header().Set("Content-Type", "text/markdown")
			_, _ = w.Write([]byte(documents.Sections("first", documents.ManySections)))
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	w := documents.Readers(t, documents.Librarians(harness.Options{StepsAsActivities: true}))
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, w.Open(), "handbook.md", documents.Handbook).Status)
	for name, words := range map[string]struct {
		says string
		want cost
	}{
		"user message, reply": {"How much vacation?", cost{10, 2}},
		"model, tool, model":  {"use note {}", cost{22, 4}},
	} {
		for _, who := range []string{"other", "reader"} {
			t.Run(name+", "+who, func(t *testing.T) {
				w.T = t
				id := w.Open(who)
				w.Say(id, "warm up")
				added := measure(t, w, id, func() { w.Post(id, words.says) })
				require.Equal(t, words.want, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
			})
		}
	}
	t.Run("a document, and its announcement", func(t *testing.T) {
		w.T = t
		id := w.Open("other")
		var path string
		ask := func() {
			path = "/" + signals.NewID()
			payload, err := json.Marshal(signals.Ingestion{Source: s.URL + path})
			require.NoError(t, err)
			_, err = w.Threads.PostSignal(w.Ctx(), id, signals.Post{ID: signals.NewEventID(), Type: event.TypeRAGIngest, Payload: payload})
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				d, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID(store.DefaultCollection, s.URL+path))
				return err == nil && d.Status == store.KnowledgeProcessing
			}, testenv.Patience, testenv.Tick)
		}
		told := 0
		answer := func() {
			close(gate(path))
			told++
			require.Eventually(t, func() bool { return len(documents.ToldOf(w, id)) == told }, testenv.Patience, testenv.Tick)
		}
		ask() // the rules enter history with the first event
		check.Settle(w, id)
		answer()
		added := measure(t, w, id, func() {
			ask()
			check.Settle(w, id)
			answer()
		})
		require.Equal(t, cost{10 + 5, 2 + 2}, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
	})
}
