package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// ingestsFake stands in for the workflows of ingestions.
type ingestsFake struct {
	mu      sync.Mutex
	started []store.KnowledgeDocument
	err     error
}

func (f *ingestsFake) start(_ context.Context, _ string, d store.KnowledgeDocument, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, d)
	return f.err
}

const documentsPath = "/v1/knowledge/documents"

// add adds a document with a text, and returns its id.
func (w *world) add(t *testing.T, source, collection, text string) string {
	t.Helper()
	got := w.call("POST", documentsPath, object{"source": source, "collection": collection, "text": text}).ok(t, http.StatusAccepted)
	return got.body["id"].(string)
}

// finish ends the ingestion of a document, with chunks.
func (w *world) finish(t *testing.T, id string, chunks ...string) {
	t.Helper()
	d, err := w.store.KnowledgeDocument(w.ctx, "default", id)
	require.NoError(t, err)
	for i, text := range chunks {
		require.NoError(t, w.store.AddChunks(w.ctx, "default", d.Newest(), []store.KnowledgeChunk{{Index: i, Text: text, Path: []string{"Top"}, Page: 1, Tokens: 3}}))
	}
	_, err = w.store.FinishKnowledge(w.ctx, "default", d.Newest(), store.KnowledgeFinish{Format: "Markdown", Bytes: 1})
	require.NoError(t, err)
}

func TestKnowledgeDocuments(t *testing.T) {
	w := newWorld(t, withBadges)
	ann := bearer("ann admin")
	body := object{"source": "a.md", "text": "# A", "metadata": object{"title": "The A", "of": 1}, "thread": "t1"}
	got := w.call("POST", documentsPath, body, ann...).ok(t, http.StatusAccepted)
	id := got.body["id"].(string)
	require.Equal(t, "processing", got.body["status"])
	require.Equal(t, "The A", got.body["title"])
	require.Equal(t, "ann", got.body["by"])
	require.Equal(t, "t1", got.body["thread"])
	require.Equal(t, "default", got.body["collection"])
	require.Len(t, w.ingests.started, 1)
	require.Empty(t, w.call("GET", documentsPath+"/"+id+"/chunks", nil, ann...).ok(t, http.StatusOK).body["chunks"])

	w.finish(t, id, "one apple", "two", "three")
	again := w.call("POST", documentsPath, body, ann...).ok(t, http.StatusOK)
	require.Equal(t, "indexed", again.body["status"], "it has not changed")
	require.Len(t, w.ingests.started, 1)
	body["forceReindex"] = true
	require.EqualValues(t, 2, w.call("POST", documentsPath, body, ann...).ok(t, http.StatusAccepted).body["revision"])

	t.Run("chunks know their successor", func(t *testing.T) {
		page := w.call("GET", documentsPath+"/"+id+"/chunks?limit=2", nil, ann...).ok(t, http.StatusOK).body
		chunks := page["chunks"].([]any)
		require.Len(t, chunks, 2)
		first, second := chunks[0].(object), chunks[1].(object)
		require.Equal(t, object{"id": id + ".1.0", "index": 0.0, "text": "one apple", "path": []any{"Top"}, "page": 1.0, "tokens": 3.0, "next": id + ".1.1"}, first)
		require.Equal(t, first["next"], second["id"])
		require.EqualValues(t, 2, page["next"])
		rest := w.call("GET", documentsPath+"/"+id+"/chunks?from=2", nil, ann...).ok(t, http.StatusOK).body
		require.NotContains(t, rest, "next")
		require.NotContains(t, rest["chunks"].([]any)[0], "next")
	})
	t.Run("search", func(t *testing.T) {
		found := w.call("GET", "/v1/knowledge/search?q=apples", nil, ann...).ok(t, http.StatusOK).body["passages"].([]any)
		require.Len(t, found, 1)
		require.Equal(t, id+".1.0", found[0].(object)["id"])
		require.EqualValues(t, 1, found[0].(object)["textRank"])
		for query, count := range map[string]int{"&collection=other": 0, "&collection=other&collection=default": 1, "&limit=1": 1} {
			require.Len(t, w.call("GET", "/v1/knowledge/search?q=apple"+query, nil, ann...).ok(t, http.StatusOK).body["passages"], count, query)
		}
	})
	t.Run("reindex", func(t *testing.T) {
		w.finish(t, id, "one apple")
		got := w.call("POST", documentsPath+"/"+id+"/reindex", nil, bearer("bob operate")...).ok(t, http.StatusAccepted)
		require.EqualValues(t, 3, got.body["revision"])
		require.Equal(t, "bob", got.body["by"])
		require.Equal(t, "The A", got.body["title"], "what is known of it stays")
		content, err := w.store.KnowledgeContent(w.ctx, "default", store.KnowledgeRevision{Document: id, Number: 3})
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeContent{Name: "a.md", MediaType: "text/markdown", Bytes: []byte("# A")}, content)
		w.call("POST", documentsPath+"/none/reindex", nil, ann...).refused(t, http.StatusNotFound, `no document "none"`)
	})
	t.Run("delete", func(t *testing.T) {
		require.Equal(t, http.StatusNoContent, w.call("DELETE", documentsPath+"/"+id, nil, ann...).status, "although it is processed")
		for _, path := range []string{"", "/chunks"} {
			w.call("GET", documentsPath+"/"+id+path, nil, ann...).problem(t, http.StatusNotFound)
		}
		w.call("DELETE", documentsPath+"/"+id, nil, ann...).problem(t, http.StatusNotFound)
		require.Empty(t, w.call("GET", "/v1/knowledge/search?q=apple", nil, ann...).ok(t, http.StatusOK).body["passages"])
	})
}

// TestReindexFetches: what came from an address is fetched again, unless its text was given.
func TestReindexFetches(t *testing.T) {
	w := newWorld(t)
	const fetched, given = "https://example.com/a.md", "https://example.com/b.md"
	id := w.call("POST", documentsPath, object{"source": fetched}).ok(t, http.StatusAccepted).body["id"].(string)
	d, err := w.store.KnowledgeDocument(w.ctx, "default", id)
	require.NoError(t, err)
	require.NoError(t, w.store.PutKnowledgeContent(w.ctx, "default", d.Newest(), "d", store.KnowledgeContent{Name: "/a.md", Bytes: []byte("x")}))
	w.finish(t, id, "x")
	again := w.call("POST", documentsPath+"/"+id+"/reindex", nil).ok(t, http.StatusAccepted)
	require.NotContains(t, again.body, "digest", "its content comes later")
	id = w.add(t, given, "", "text")
	w.finish(t, id, "x")
	require.Contains(t, w.call("POST", documentsPath+"/"+id+"/reindex", nil).ok(t, http.StatusAccepted).body, "digest")
}

func TestKnowledgePages(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.finish(t, w.add(t, fmt.Sprintf("f%d.md", i), "", "text"), "text")
	}
	w.add(t, "last.md", "zoo", "text")
	var got []string
	for cursor := ""; ; {
		page := w.call("GET", documentsPath+"?limit=2&cursor="+cursor, nil).ok(t, http.StatusOK).body
		for _, d := range page["documents"].([]any) {
			got = append(got, d.(object)["source"].(string))
		}
		if cursor, _ = page["next"].(string); cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"f0.md", "f1.md", "f2.md", "f3.md", "f4.md", "last.md"}, got)
	for query, count := range map[string]int{"collection=zoo": 1, "status=processing": 1, "status=indexed": 5, "search=F3": 1, "search=nothing": 0} {
		require.Len(t, w.call("GET", documentsPath+"?"+query, nil).ok(t, http.StatusOK).body["documents"], count, query)
	}
	for _, cursor := range []string{"%25", "YWJj", "YQD_"} { // no Base64, one part, no UTF-8
		require.Equal(t, []string{"query.cursor"}, w.call("GET", documentsPath+"?cursor="+cursor, nil).problem(t, http.StatusUnprocessableEntity), cursor)
	}
}

func TestKnowledgeRefusals(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 3000)
	for name, c := range map[string]struct {
		body     object
		location string
		why      string
	}{
		"no source":          {object{"source": " "}, "body.source", "is required"},
		"no address":         {object{"source": "a.md"}, "body.source", "give the content"},
		"a scheme":           {object{"source": "file:///etc/passwd"}, "body.source", ""},
		"a long source":      {object{"source": long, "text": "x"}, "body.source", "2048"},
		"a collection":       {object{"source": "a", "text": "x", "collection": "a b"}, "body.collection", "letters"},
		"metadata":           {object{"source": "a", "text": "x", "metadata": []int{1}}, "body.metadata", "object"},
		"long metadata":      {object{"source": "a", "text": "x", "metadata": object{"x": strings.Repeat(long, 10)}}, "body.metadata", "16384"},
		"a title":            {object{"source": "a", "text": "x", "title": long}, "body.title", "500"},
		"a thread":           {object{"source": "a", "text": "x", "thread": "a/b"}, "body.thread", "letters"},
		"a NUL in a source":  {object{"source": "a\x00", "text": "x"}, "body.source", "NUL"},
		"an unknown field":   {object{"source": "a", "text": "x", "namespace": "n"}, "", "namespace"},
		"a document of many": {object{"source": "a", "text": "x", "status": "indexed"}, "", "status"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.call("POST", documentsPath, c.body)
			at := got.problem(t, http.StatusUnprocessableEntity)
			if c.location != "" {
				require.Equal(t, []string{c.location}, at, got.text)
			}
			require.Contains(t, got.text, c.why)
			if text, ok := c.body["text"]; ok && c.location != "" && c.location != "body.metadata" {
				query := url.Values{}
				for field, value := range c.body {
					if field != "text" {
						query.Set(field, value.(string))
					}
				}
				got := w.call("POST", "/v1/knowledge/files?"+query.Encode(), text)
				require.Equal(t, []string{strings.Replace(c.location, "body", "query", 1)}, got.problem(t, http.StatusUnprocessableEntity), got.text)
			}
		})
	}
	require.Empty(t, w.ingests.started)
	w.call("GET", "/v1/knowledge/search", nil).problem(t, http.StatusUnprocessableEntity)
	w.call("GET", "/v1/knowledge/search?q=a%00", nil).problem(t, http.StatusUnprocessableEntity)
	w.call("GET", "/v1/knowledge/search?q=a&limit=51", nil).problem(t, http.StatusUnprocessableEntity)

	t.Run("Temporal does not answer", func(t *testing.T) {
		w.ingests.err = context.DeadlineExceeded
		got := w.call("POST", documentsPath, object{"source": "a", "text": "x"})
		got.refused(t, http.StatusServiceUnavailable, "send the request again")
		require.NotEmpty(t, got.header.Get("Retry-After"))
		w.ingests.err = nil
		before := len(w.ingests.started)
		w.add(t, "a", "", "x")
		require.Len(t, w.ingests.started, before+1, "it is started although it waits already")
	})
	t.Run("another error", func(t *testing.T) {
		w.ingests.err = errors.New("a secret")
		require.NotContains(t, w.call("POST", documentsPath, object{"source": "b", "text": "x"}).ok(t, http.StatusInternalServerError).text, "secret")
	})
}

func TestKnowledgeUploads(t *testing.T) {
	const limit = 64 << 10
	w := newWorld(t, func(c *server.Config) { c.MaxUpload = limit })
	const path = "/v1/knowledge/files"
	got := w.call("POST", path+"?source=docs/a.md&collection=guides&title=A&thread=t1", "# A", "Content-Type", "text/markdown; charset=utf-8").ok(t, http.StatusAccepted)
	require.Equal(t, "docs/a.md", got.body["source"])
	require.Equal(t, "guides", got.body["collection"])
	require.Equal(t, "api", got.body["by"])
	d, err := w.store.KnowledgeDocument(w.ctx, "default", got.body["id"].(string))
	require.NoError(t, err)
	content, err := w.store.KnowledgeContent(w.ctx, "default", d.Newest())
	require.NoError(t, err)
	require.Equal(t, store.KnowledgeContent{Name: "docs/a.md", MediaType: "text/markdown; charset=utf-8", Bytes: []byte("# A")}, content)
	w.call("POST", path+"?source=whole.txt", strings.Repeat("x", limit)).ok(t, http.StatusAccepted)
	w.call("POST", path, "x").problem(t, http.StatusUnprocessableEntity)

	t.Run("too large", func(t *testing.T) {
		got := w.call("POST", path+"?source=large.txt", strings.Repeat("x", limit+1))
		require.Equal(t, []string{"body"}, got.problem(t, http.StatusRequestEntityTooLarge))
		require.Contains(t, got.body["detail"], "at most 65536 bytes")
		require.Contains(t, got.body["detail"], "split it")
	})
	send := func(t *testing.T, head, body string, ends bool) *http.Response {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s?source=raw.txt HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", path, head, body)
		require.NoError(t, err)
		if ends { // a server takes a client that sends no more for gone
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	t.Run("of unknown length", func(t *testing.T) {
		part := fmt.Sprintf("%x\r\n%s\r\n", limit, strings.Repeat("x", limit))
		require.Equal(t, http.StatusAccepted, send(t, "Transfer-Encoding: chunked", part+"0\r\n\r\n", false).StatusCode)
		require.Equal(t, http.StatusRequestEntityTooLarge, send(t, "Transfer-Encoding: chunked", part+"1\r\nx\r\n0\r\n\r\n", false).StatusCode)
	})
	t.Run("that ends early", func(t *testing.T) {
		require.GreaterOrEqual(t, send(t, "Content-Length: 100", "x", true).StatusCode, 400)
	})
}

// embedder makes vectors that all have the same direction.
type embedder struct{}

func (embedder) Embed(_ context.Context, r llm.EmbedRequest) (llm.Embeddings, error) {
	return llm.Embeddings{Vectors: make([][]float32, len(r.Texts))}, nil
}

func TestKnowledgeIndex(t *testing.T) {
	w := newWorld(t)
	w.finish(t, w.add(t, "a.md", "", "text"), "one", "two")
	require.Equal(t, object{"embedder": "", "withoutVectors": "no embedder is configured", "collections": []any{"default"}, "documents": 1.0, "chunks": 2.0, "embedders": []any{}},
		w.call("GET", "/v1/knowledge", nil).ok(t, http.StatusOK).body)
	w = newWorld(t, func(c *server.Config) {
		c.Library = library.New(library.Config{Store: teststore.Of(c.Store), Embedder: embedder{}, Model: "p/m", Dimension: 8})
	})
	got := w.call("GET", "/v1/knowledge", nil).ok(t, http.StatusOK).body
	require.Equal(t, "p/m@8", got["embedder"])
	require.NotContains(t, got, "withoutVectors")
}

// TestKnowledgeIsOfItsNamespace: no route shows a document of another namespace.
func TestKnowledgeIsOfItsNamespace(t *testing.T) {
	w := newWorld(t)
	d, err := w.store.BeginKnowledge(w.ctx, "other", store.KnowledgeDocument{Source: "a.md"}, store.KnowledgeBegin{Digest: "d", Content: library.Given("a.md", "", []byte("apple"))})
	require.NoError(t, err)
	require.NoError(t, w.store.AddChunks(w.ctx, "other", d.Newest(), []store.KnowledgeChunk{{Text: "apple"}}))
	_, err = w.store.FinishKnowledge(w.ctx, "other", d.Newest(), store.KnowledgeFinish{})
	require.NoError(t, err)
	one := documentsPath + "/" + d.ID
	for _, c := range [][2]string{{"GET", one}, {"GET", one + "/chunks"}, {"POST", one + "/reindex"}, {"DELETE", one}} {
		w.call(c[0], c[1], nil).problem(t, http.StatusNotFound)
	}
	for _, path := range []string{documentsPath, "/v1/knowledge/search?q=apple", "/v1/knowledge/search?q=apple&collection=other&collection=default"} {
		raw, err := json.Marshal(w.call("GET", path, nil).ok(t, http.StatusOK).body)
		require.NoError(t, err)
		require.NotContains(t, string(raw), d.ID)
	}
	require.EqualValues(t, 0, w.call("GET", "/v1/knowledge", nil).body["documents"])
	_, err = w.store.KnowledgeDocument(w.ctx, "other", d.ID)
	require.NoError(t, err)
}
