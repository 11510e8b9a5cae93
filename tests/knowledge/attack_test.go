package knowledge

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

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

// zippedSpaces is a DOCX file of a few hundred kilobytes whose text unpacks to n bytes.
func zippedSpaces(t *testing.T, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	f, err := z.Create("word/document.xml")
	require.NoError(t, err)
	_, err = f.Write([]byte("<d>" + strings.Repeat(" ", n) + "</d>"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

// emptyPages is a PDF of n pages.
func emptyPages(n int) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(offsets)}, args...)...)
	}
	out.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	kids := make([]string, n)
	for i := range kids {
		kids[i] = fmt.Sprintf("%d 0 R", 3+i)
	}
	object("<< /Type /Pages /Count %d /Kids [%s] >>", n, strings.Join(kids, " "))
	for range n {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>")
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return out.Bytes()
}

// TestIngestBombs ingests documents that are made to exhaust their reader: each has failed with a reason, the memory of the
// process stays bounded, and the worker goes on. It runs alone, since it measures the process.
func TestIngestBombs(t *testing.T) { //nolint:paralleltest // see above
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever the others run with
	bombs := map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"/bomb.docx":   {content("", zippedSpaces(t, 100<<20)), "unpacks to more than"},
		"/deep.html":   {content("text/html", []byte(strings.Repeat("<div>", 1<<18))), "the document is no valid HTML"},
		"/million.csv": {content("text/csv", bytes.Repeat([]byte("1,2,3,4,5,6,7,8,9,10\n"), 100_000)), "more than 500000 cells"},
		"/pages.pdf":   {content("application/pdf", emptyPages(10_000)), "the document has 10000 pages"},
		"/image.png":   {content("image/png", []byte("\x89PNG\r\n\x1a\n\x00")), "cannot be read"},
		"/nothing.md":  {content("text/markdown", nil), "the document has no text"},
		"/endless.md": {func(w http.ResponseWriter, r *http.Request) {
			for line := bytes.Repeat([]byte("word "), 1<<16); r.Context().Err() == nil; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, "the document has more than 33554432 bytes"},
	}
	contents := map[string]http.HandlerFunc{}
	for path, bomb := range bombs {
		contents[path] = bomb.serve
	}
	s := docSite(t, contents)
	w := documents.Readers(t, harness.Options{})
	id := w.Open()
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Sys
	}
	before := memory()
	for path := range bombs {
		documents.AskToIngest(w, id, signals.NewEventID(), signals.Ingestion{Source: s.URL + path})
	}
	for path, bomb := range bombs {
		d := documents.AwaitDocument(w, s.URL+path, 1)
		require.Equal(t, store.KnowledgeFailed, d.Status, path)
		require.Contains(t, d.Error, bomb.want, path)
		require.Zero(t, d.Indexed)
	}
	text := strings.Repeat("> ", 1<<15) + "deep"
	require.Contains(t, documents.Ingested(w, id, "text.md", text).Error, "nested more than 100 deep")
	require.Less(t, memory()-min(before, memory()), uint64(1<<30))
	require.Len(t, documents.AwaitToldTimes(t, w, id, len(bombs)+1), len(bombs)+1)
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(w, id, "handbook.md", documents.Handbook).Status, "the worker lives")
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
