package knowledge

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/library/document/documenttest"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// docSite serves contents at paths of this machine.
func docSite(t *testing.T, contents map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, serve := range contents {
		mux.HandleFunc(path, serve)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// content serves a content of a media type.
func content(media string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(body)
	}
}

// TestIngestBombs ingests documents that are made to exhaust their reader: each has a text or has failed with a reason, the memory
// of the processes that read them stays bounded, and the worker reads another document and answers a thread meanwhile. It runs alone, since it
// measures the processes.
func TestIngestBombs(t *testing.T) { //nolint:paralleltest // see above
	contents := map[string]http.HandlerFunc{
		"/image.png":  content("image/png", []byte("\x89PNG\r\n\x1a\n\x00")),
		"/nothing.md": content("text/markdown", nil),
		"/endless.md": func(w http.ResponseWriter, r *http.Request) {
			for line := bytes.Repeat([]byte("word "), 1<<16); r.Context().Err() == nil; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		},
	}
	wants := map[string]string{
		"/image.png": "cannot be read", "/nothing.md": "the document has no text", "/endless.md": "the document has more than 33554432 bytes",
	}
	for name, body := range documenttest.Hostile() {
		contents["/"+strings.ReplaceAll(name, " ", "-")] = content("", body)
	}
	s := docSite(t, contents)
	w := documents.Readers(t, harness.Options{})
	id := w.Open()
	stop := make(chan struct{})
	most := make(chan int)
	go func() { most <- mostMemory(stop) }()
	for path := range contents {
		documents.AskToIngest(w, id, signals.NewEventID(), signals.Ingestion{Source: s.URL + path})
	}
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, id, "handbook.md", documents.Handbook).Status, "another document is read meanwhile")
	w.Say(w.Open(), "hello")
	for path := range contents {
		d := documents.AwaitDocument(w, s.URL+path, 1)
		require.NotEqual(t, store.KnowledgeProcessing, d.Status, path)
		require.Equal(t, d.Status == store.KnowledgeFailed, d.Error != "", path)
		require.NotContains(t, d.Error, "\n", path)
		if want := wants[path]; want != "" {
			require.Contains(t, d.Error, want, path)
		}
	}
	close(stop)
	require.Less(t, <-most, 1<<30, "bytes of the processes that read them")
	require.Len(t, documents.AwaitToldTimes(t, w, id, len(contents)+1), len(contents)+1)
}

// mostMemory returns the most memory that the children of this process had at once, in bytes, until stop is closed.
func mostMemory(stop <-chan struct{}) (most int) {
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return most
		case <-every.C:
			most = max(most, memory())
		}
	}
}

// memory returns the resident memory of the children of this process, in bytes. On systems without /proc it is 0.
func memory() (bytes int) {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range all {
		raw, _ := os.ReadFile(file) // it may have ended
		var parent, kilobytes int
		for line := range strings.Lines(string(raw)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "PPid":
				parent, _ = strconv.Atoi(strings.TrimSpace(value))
			case "VmRSS":
				kilobytes, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			}
		}
		if parent == os.Getpid() {
			bytes += kilobytes << 10
		}
	}
	return bytes
}

// TestIngestAddresses ingests what addresses answer that have no document, or not yet.
func TestIngestAddresses(t *testing.T) {
	t.Parallel()
	var busy atomic.Int64
	long := "/" + strings.Repeat("a", 1500) + ".md"
	s := docSite(t, map[string]http.HandlerFunc{
		"/gone": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
		"/loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
		"/file": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		},
		"/inner": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"/login": content("text/html", []byte("<title>Sign in</title><form><p>Your name and password, please.</p><input name=p></form>")),
		"/busy.md": func(w http.ResponseWriter, r *http.Request) {
			if busy.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			content("text/markdown", []byte(documents.Handbook))(w, r)
		},
		long: content("text/markdown", []byte(documents.Handbook)),
	})
	w := documents.Readers(t, harness.Options{})
	id := w.Open()
	for path, want := range map[string]string{
		"/gone": "the address answers 410 gone", "/none": "the address answers 404 not found",
		"/loop": "redirects more than 5 times", "/file": "must begin with http:// or https://",
	} {
		t.Run("S2-59 failed: "+path, func(t *testing.T) {
			w.T = t
			documents.AskToIngest(w, id, signals.NewEventID(), signals.Ingestion{Source: s.URL + path})
			d := documents.AwaitDocument(w, s.URL+path, 1)
			require.Equal(t, store.KnowledgeFailed, d.Status)
			require.Contains(t, d.Error, want)
		})
	}
	for path, title := range map[string]string{"/inner": "Sign in", "/busy.md": "Handbook", long: "Handbook"} {
		t.Run("S2-59 indexed: "+path[:6], func(t *testing.T) {
			w.T = t
			documents.AskToIngest(w, id, signals.NewEventID(), signals.Ingestion{Source: s.URL + path})
			d := documents.AwaitDocument(w, s.URL+path, 1)
			require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
			require.Equal(t, title, d.Title)
		})
	}
	require.Equal(t, int64(3), busy.Load())
	t.Run("private addresses are refused", func(t *testing.T) {
		t.Parallel()
		w := harness.New(t, harness.Options{})
		source := s.URL + "/inner"
		documents.AskToIngest(w, w.Open(), "e1", signals.Ingestion{Source: source})
		d := documents.AwaitDocument(w, source, 1)
		require.Equal(t, store.KnowledgeFailed, d.Status)
		require.Contains(t, d.Error, "127.0.0.1 is an address of a private network")
	})
}

// TestIngestBesideTurns: a thread that has asked for many documents, none of which arrives, goes on.
func TestIngestBesideTurns(t *testing.T) {
	t.Parallel()
	const many = 50
	arrive := make(chan struct{})
	s := docSite(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-arrive:
			content("text/markdown", []byte(documents.Handbook))(w, r)
		case <-r.Context().Done():
		}
	}})
	w := documents.Readers(t, documents.Librarians(harness.Options{}))
	id := w.Open("reader")
	source := func(i int) string { return fmt.Sprintf("%s/%d.md", s.URL, i) }
	t.Run("S2-63 turns go on while documents are ingested", func(t *testing.T) {
		w.T = t
		for i := range many {
			documents.AskToIngest(w, id, fmt.Sprintf("e%d", i), signals.Ingestion{Source: source(i)})
		}
		for range 3 {
			out := w.Say(id, "use note {\"text\":\"vacation\"}\nthen\ndone")
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		}
		require.Eventually(t, func() bool {
			processing, err := w.Store.KnowledgeDocuments(w.Ctx(), w.TaskQueue, store.KnowledgePage{Status: store.KnowledgeProcessing, Limit: 200})
			return err == nil && len(processing) == many
		}, testenv.Patience, testenv.Tick)
		close(arrive)
		for i := range many {
			require.Equal(t, store.KnowledgeIndexed, documents.AwaitDocument(w, source(i), 1).Status)
		}
		documents.AwaitToldTimes(t, w, id, many)
	})
	t.Run("S2-58 what is given again has not changed", func(t *testing.T) {
		w.T = t
		first := documents.Ingested(w, id, "menu.md", "# Menu")
		documents.AskToIngest(w, id, "again", signals.Ingestion{Source: "menu.md", Text: "# Menu"})
		require.Equal(t, signals.TurnCompleted, w.Await(id, "again").Status)
		again, err := w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, first.ID)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
	t.Run("S2-62 a document is found in its namespace only", func(t *testing.T) {
		w.T = t
		other := w.TaskQueue + "-" + strings.Repeat("other", 20)
		d, err := w.Store.BeginKnowledge(w.Ctx(), other, store.KnowledgeDocument{Source: "zebra.md"}, store.KnowledgeBegin{})
		require.NoError(t, err)
		require.NoError(t, w.Store.AddChunks(w.Ctx(), other, d.Newest(), []store.KnowledgeChunk{{Text: "A zebra of another tenant."}}))
		_, err = w.Store.FinishKnowledge(w.Ctx(), other, d.Newest(), store.KnowledgeFinish{})
		require.NoError(t, err)
		asks := w.Open("reader")
		w.Say(asks, "zebra?")
		require.Empty(t, retrieved(w, asks).Passages)
	})
}
