package knowledge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library/document/documenttest"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// catalogue is the door to the documents of a namespace.
type catalogue struct {
	w *harness.Harness
	*api.Client
}

func openCatalogue(w *harness.Harness, base, namespace string) catalogue {
	w.T.Helper()
	c, err := api.New(api.Config{Base: base, Namespace: namespace})
	require.NoError(w.T, err)
	return catalogue{w, c}
}

// await waits until a document is processed.
func (s catalogue) await(id string) (d store.KnowledgeDocument) {
	s.w.T.Helper()
	require.Eventually(s.w.T, func() bool {
		var err error
		d, err = s.Document(s.w.Ctx(), id)
		return err == nil && d.Status != store.KnowledgeProcessing
	}, testenv.Patience, testenv.Tick, id)
	return d
}

// add adds a document, and waits until it is indexed.
func (s catalogue) add(d api.NewDocument) store.KnowledgeDocument {
	s.w.T.Helper()
	doc, err := s.AddDocument(s.w.Ctx(), d)
	require.NoError(s.w.T, err)
	doc = s.await(doc.ID)
	require.Equal(s.w.T, store.KnowledgeIndexed, doc.Status, doc.Error)
	return doc
}

// upload uploads a file, and waits until it is processed.
func (s catalogue) upload(name, mediaType, content string) store.KnowledgeDocument {
	s.w.T.Helper()
	doc, err := s.UploadDocument(s.w.Ctx(), api.NewDocument{Source: name}, mediaType, []byte(content))
	require.NoError(s.w.T, err)
	return s.await(doc.ID)
}

// search returns the passages for a text.
func (s catalogue) search(text string, collections ...string) []event.Passage {
	s.w.T.Helper()
	found, err := s.SearchKnowledge(s.w.Ctx(), text, collections, 50)
	require.NoError(s.w.T, err)
	require.Empty(s.w.T, found.Warning)
	return found.Passages
}

func embedding(cfg *threadmill.Config) { cfg.Knowledge.Embedder = "openai/stand-in-embedding" }

// TestKnowledgeAPI adds, reads, finds and deletes documents as people do.
func TestKnowledgeAPI(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			o := b.Options
			o.Configure = embedding
			knowledgeAPI(t, documents.Readers(t, o))
		})
	}
}

func knowledgeAPI(t *testing.T, w *harness.Harness) {
	s := openCatalogue(w, w.API.URL, w.TaskQueue)
	page := documents.NewSite(t, documents.Handbook)
	id := w.Open()
	t.Run("S2-55 a person starts an ingestion through the API", func(t *testing.T) {
		source := page.URL + "/handbook.md"
		d, err := s.AddDocument(w.Ctx(), api.NewDocument{Source: source, Metadata: json.RawMessage(`{"title":"The handbook"}`), Thread: id})
		require.NoError(t, err)
		require.Equal(t, store.KnowledgeProcessing, d.Status)
		d = s.await(d.ID)
		require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
		require.Equal(t, "The handbook", d.Title)
		require.Equal(t, id, d.ThreadID)
		require.Eventually(t, func() bool {
			for _, m := range w.Messages(id) {
				if m.SenderID == signals.RAGSender && strings.Contains(m.Content, "The handbook") {
					return true
				}
			}
			return false
		}, testenv.Patience, testenv.Tick, "the thread is told")
		require.NotEmpty(t, s.search("vacation"))
		before, gets := d.Revision, page.Gets.Load()
		d, err = s.ReindexDocument(w.Ctx(), d.ID)
		require.NoError(t, err)
		d = s.await(d.ID)
		require.Equal(t, before+1, d.Indexed, d.Error)
		require.Equal(t, gets+1, page.Gets.Load(), "it is fetched again")
	})
	t.Run("S2-59 statuses", func(t *testing.T) {
		d := s.add(api.NewDocument{Source: "statuses.md", Text: documents.Handbook})
		require.Positive(t, d.Chunks)
		chunks, _, err := s.Chunks(w.Ctx(), d.ID, 0, 100)
		require.NoError(t, err)
		require.Len(t, chunks, d.Chunks)
		empty := s.upload("empty.md", "text/markdown", " \n")
		require.Equal(t, store.KnowledgeFailed, empty.Status)
		require.Contains(t, empty.Error, "no text")
		require.Zero(t, empty.Chunks)
		require.Equal(t, store.KnowledgeFailed, s.upload("program.bin", "", "\x7fELF\x00\x00").Status)
		failed, err := s.Documents(w.Ctx(), api.DocumentQuery{Status: store.KnowledgeFailed, Limit: 10})
		require.NoError(t, err)
		require.Len(t, failed, 2)
		again := s.upload("empty.md", "text/markdown", "# Now it has text")
		require.Equal(t, store.KnowledgeIndexed, again.Status, "a failed document can be added again")
		require.Empty(t, again.Error)
	})
	t.Run("S2-60 chunks know their successor", func(t *testing.T) {
		var text strings.Builder
		for i := range 105 {
			fmt.Fprintf(&text, "# Part %d\n\n%s\n\n", i, strings.Repeat("many words ", 225)) // most of a chunk
		}
		d := s.add(api.NewDocument{Source: "parts.md", Text: text.String()})
		require.Greater(t, d.Chunks, 100)
		var all []api.Chunk
		for from := 0; ; {
			chunks, next, err := s.Chunks(w.Ctx(), d.ID, from, 40)
			require.NoError(t, err)
			all = append(all, chunks...)
			if from = next; from == 0 {
				break
			}
		}
		require.Len(t, all, d.Chunks)
		for i, c := range all {
			require.Equal(t, i, c.Index)
			require.Positive(t, c.Tokens)
			next := ""
			if i+1 < len(all) {
				next = all[i+1].ID
			}
			require.Equal(t, next, c.Next)
		}
		require.Equal(t, []string{"Part 0"}, all[0].Path)
	})
	t.Run("files of each format", func(t *testing.T) {
		for _, f := range []struct{ name, media, content, format, word string }{
			{"a.md", "", "# Amber\n\nText.", "Markdown", "amber"},
			{"b.html", "text/html; charset=utf-8", "<h1>Bronze</h1><p>Text.</p>", "HTML", "bronze"},
			{"c.pdf", "application/pdf", documenttest.PDF("Title", "BT /F1 12 Tf 72 720 Td (Copper pipes.) Tj ET"), "PDF", "copper"},
			{"d.docx", "application/octet-stream", documenttest.DOCX(`<w:p><w:r><w:t>Diamond rings.</w:t></w:r></w:p>`), "DOCX", "diamond"},
			{"e.csv", "text/csv", "name,colour\nann,emerald\n", "CSV", "emerald"},
			{"f.go", "", "package f\n\n// Flint makes fire.\nfunc Flint() {}\n", "source code", "flint"},
			{"g.txt", "text/plain", "Granite is hard.", "text", "granite"},
		} {
			d := s.upload(f.name, f.media, f.content)
			require.Equal(t, store.KnowledgeIndexed, d.Status, "%s: %s", f.name, d.Error)
			require.Equal(t, f.format, d.Format, f.name)
			require.Equal(t, len(f.content), d.Bytes, f.name)
			found := s.search(f.word)
			require.NotEmpty(t, found, f.name)
			require.Equal(t, f.name, found[0].Source)
			require.Equal(t, 1, found[0].TextRank)
			require.Equal(t, w.Store.HasVectors(), found[0].VectorRank > 0)
		}
		require.Equal(t, 1, s.search("copper")[0].Page)
	})
	t.Run("re-ingestion replaces what was found", func(t *testing.T) {
		d := s.upload("changing.md", "", "The first version says walrus.")
		require.Equal(t, "changing.md", s.search("walrus")[0].Source)
		same, err := s.UploadDocument(w.Ctx(), api.NewDocument{Source: "changing.md"}, "", []byte("The first version says walrus."))
		require.NoError(t, err)
		require.Equal(t, d.Revision, same.Revision, "it has not changed")
		require.Equal(t, store.KnowledgeIndexed, same.Status)
		s.upload("changing.md", "", "The second version says narwhal.")
		require.Equal(t, "changing.md", s.search("narwhal")[0].Source)
		for _, p := range s.search("walrus") {
			require.NotContains(t, p.Text, "walrus")
		}
		d, err = s.ReindexDocument(w.Ctx(), d.ID)
		require.NoError(t, err)
		require.Equal(t, d.Revision, s.await(d.ID).Indexed, "from the content in the store")
		require.Contains(t, s.search("narwhal")[0].Text, "narwhal")
	})
	t.Run("deletion is complete", func(t *testing.T) {
		d := s.upload("secret.md", "", "The password is swordfish.")
		require.Contains(t, s.search("swordfish")[0].Text, "swordfish")
		require.NoError(t, s.DeleteDocument(w.Ctx(), d.ID))
		for _, p := range s.search("swordfish") {
			require.NotEqual(t, d.ID, p.Document, "by vectors neither")
		}
		_, err := s.Document(w.Ctx(), d.ID)
		require.True(t, api.IsNotFound(err), err)
		_, _, err = s.Chunks(w.Ctx(), d.ID, 0, 10)
		require.True(t, api.IsNotFound(err), err)
		require.True(t, api.IsNotFound(s.DeleteDocument(w.Ctx(), d.ID)))
		_, err = w.Store.KnowledgeContent(w.Ctx(), w.TaskQueue, d.Newest())
		require.ErrorIs(t, err, store.ErrNotFound)
	})
	state, err := s.Knowledge(w.Ctx())
	require.NoError(t, err)
	if !w.Store.HasVectors() {
		require.Equal(t, "the store keeps no vectors", state.WithoutVectors)
		return
	}
	require.Equal(t, "openai/stand-in-embedding", state.Embedder)
	require.Equal(t, state.Chunks, state.Embedders[0].Chunks, "all chunks have vectors")
}

// TestDeletedWhileProcessed: a document that is deleted while it is processed stays deleted.
func TestDeletedWhileProcessed(t *testing.T) {
	t.Parallel()
	w := documents.Readers(t, harness.Options{})
	s := openCatalogue(w, w.API.URL, w.TaskQueue)
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = rw.Write([]byte("late text"))
	}))
	defer slow.Close()
	d, err := s.AddDocument(w.Ctx(), api.NewDocument{Source: slow.URL + "/late.txt"})
	require.NoError(t, err)
	<-asked
	require.NoError(t, s.DeleteDocument(w.Ctx(), d.ID))
	close(answer)
	var out job.IngestResult
	require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), job.IngestWorkflowID(w.TaskQueue, d.ID, d.Revision), "").Get(w.Ctx(), &out))
	require.Equal(t, job.IngestSuperseded, out.Status)
	_, err = s.Document(w.Ctx(), d.ID)
	require.True(t, api.IsNotFound(err), err)
	require.Empty(t, s.search("late"))
}

// TestKnowledgeNamespaces: through no door, a document of one namespace is found in another, or one of another collection
// in those that a search names.
func TestKnowledgeNamespaces(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			o := b.Options
			o.Configure = embedding
			knowledgeNamespaces(t, documents.Readers(t, o))
		})
	}
}

func knowledgeNamespaces(t *testing.T, w *harness.Harness) {
	other := w.TaskQueue + "-other"
	beside := httptest.NewServer(harness.API(t, w.Beside(func(cfg *threadmill.Config) { cfg.Namespace = other })))
	defer beside.Close()
	type side struct {
		catalogue
		url, namespace, word string
	}
	sides := []side{
		{openCatalogue(w, w.API.URL, w.TaskQueue), w.API.URL, w.TaskQueue, "alphaword"},
		{openCatalogue(w, beside.URL, other), beside.URL, other, "betaword"},
	}
	for _, s := range sides {
		s.add(api.NewDocument{Source: "same.md", Text: "This text says " + s.word + "."})
		s.add(api.NewDocument{Source: "same.md", Collection: "guides", Text: "This guide says " + s.word + "."})
	}
	starter := func(s side, args ...string) string {
		var out, errs strings.Builder
		code := cli.Run(w.Ctx(), append(args, "--api", s.url, "--namespace", s.namespace), strings.NewReader(""), &out, &errs)
		require.Zero(t, code, errs.String())
		return out.String() + errs.String()
	}
	for i, s := range sides {
		foreign := sides[1-i]
		t.Run("S2-62 found in its namespace only: "+s.word, func(t *testing.T) {
			require.Len(t, s.search(s.word), 2)
			for name, found := range map[string][]event.Passage{
				"its own word": s.search(s.word), "the other's word, by vectors": s.search(foreign.word), "both words": s.search(s.word + " " + foreign.word),
				"the other's name as a collection": s.search(s.word, foreign.namespace, "default", "guides"),
			} {
				for _, p := range found {
					require.NotContains(t, p.Text, foreign.word, name)
					require.Contains(t, p.Text, s.word, name)
				}
			}
			for _, args := range [][]string{
				{"knowledge", "search", foreign.word + " text", "--full"},
				{"knowledge", "search", foreign.word, "--json"},
				{"knowledge", "list"},
				{"knowledge", "show", "same.md"},
			} {
				require.NotContains(t, starter(s, args...), "says "+foreign.word, args)
			}
			require.Contains(t, starter(s, "knowledge", "search", s.word), s.word)
			list, err := s.Documents(w.Ctx(), api.DocumentQuery{Limit: 100})
			require.NoError(t, err)
			require.Len(t, list, 2)
			chunks, _, err := s.Chunks(w.Ctx(), store.KnowledgeID("default", "same.md"), 0, 10)
			require.NoError(t, err)
			require.Len(t, chunks, 1)
			require.Contains(t, chunks[0].Text, s.word, "although the ids are the same")
			state, err := s.Knowledge(w.Ctx())
			require.NoError(t, err)
			require.Equal(t, 2, state.Documents)
		})
		t.Run("S2-62 found in its collection only: "+s.word, func(t *testing.T) {
			for _, collection := range []string{"default", "guides"} {
				found := s.search(s.word, collection)
				require.Len(t, found, 1)
				require.Equal(t, collection, found[0].Collection)
				printed := starter(s, "knowledge", "search", s.word, "--collection", collection, "--json")
				require.Equal(t, 1, strings.Count(printed, `"collection": "`+collection+`"`))
				require.Equal(t, 1, strings.Count(printed, `"collection": `))
			}
			require.Len(t, s.search(s.word, "default", "guides"), 2)
			require.Empty(t, s.search(s.word, "nothing"))
		})
	}
	t.Run("S2-62 deletion in one namespace leaves the other", func(t *testing.T) {
		id := store.KnowledgeID("default", "same.md")
		require.NoError(t, sides[0].DeleteDocument(w.Ctx(), id))
		require.Len(t, sides[0].search(sides[0].word), 1)
		require.Len(t, sides[1].search(sides[1].word), 2)
		_, err := sides[1].Document(w.Ctx(), id)
		require.NoError(t, err)
	})
}

// TestKnowledgeCLI adds, lists, searches and removes documents on the command line.
func TestKnowledgeCLI(t *testing.T) {
	t.Parallel()
	w := documents.Readers(t, harness.Options{})
	page := documents.NewSite(t, documents.Handbook)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"index.md": "# Index\n\nWhere pelicans live.", "guide/a.txt": "About penguins.", "guide/deep/b.go": "package b\n\n// Parrot speaks.\nfunc Parrot() {}\n",
		".hidden.md": "hidden", ".git/config": "git", "node_modules/x/readme.md": "module", "photo.png": "\x89PNG", "guide/empty.md": "",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	run := func(want int, args ...string) string {
		t.Helper()
		printed, code, problem := w.Starter(append([]string{"knowledge"}, args...)...)
		require.Equal(t, want, code, "%s\n%s", printed, problem)
		return printed + problem
	}
	t.Run("S2-55 a person starts an ingestion on the command line", func(t *testing.T) {
		printed := run(0, "add", dir, page.URL+"/handbook.md")
		for _, name := range []string{"index.md", "guide/a.txt", "guide/deep/b.go", page.URL + "/handbook.md"} {
			require.Contains(t, printed, name+": indexed, ")
		}
		require.Contains(t, printed, "[4/4]")
		require.Contains(t, printed, "skipped: 1 empty, 1 node_modules, 1 of an unknown kind, 2 hidden")
		require.Contains(t, run(0, "add", filepath.Join(dir, "index.md"), page.URL+"/handbook.md"), "index.md: has not changed")
		require.Equal(t, 1, strings.Count(run(0, "add", page.URL+"/handbook.md", "--force"), "indexed, "))
	})
	t.Run("S2-59 a failure has a reason", func(t *testing.T) {
		blank := filepath.Join(dir, "guide", "empty.md")
		printed := run(1, "add", blank, filepath.Join(dir, "index.md"), page.URL+"/gone.md")
		require.Contains(t, printed, "empty.md: failed: the document has no text")
		require.Contains(t, printed, "gone.md: failed: ")
		require.Contains(t, printed, "2 of 3 documents failed")
		var out struct {
			Results []struct{ Source, Error string }
		}
		text, code, _ := w.Starter("knowledge", "add", blank, "--json")
		require.Equal(t, 1, code)
		require.NoError(t, json.Unmarshal([]byte(text), &out), text)
		require.Contains(t, out.Results[0].Error, "no text")
		require.Contains(t, run(0, "list", "--status", "failed"), "the document has no text")
	})
	t.Run("S2-59 list and show", func(t *testing.T) {
		list := run(0, "list")
		require.Contains(t, list, "SOURCE")
		require.Regexp(t, `guide/a\.txt +\S* *indexed +1 `, list)
		shown := run(0, "show", "index.md")
		require.Contains(t, shown, "Where pelicans live.")
		require.Contains(t, run(0, "show", store.KnowledgeID("default", "index.md")), "pelicans", "by its id")
		require.Contains(t, run(1, "show", "nothing.md"), `there is no document "nothing.md" in the collection "default"`)
	})
	t.Run("search", func(t *testing.T) {
		printed := run(0, "search", "where", "do", "pelicans", "live?")
		require.Contains(t, printed, "1. Index (index.md), Index\n   rank 1 by words\n   ")
		require.Contains(t, run(0, "search", "zyxxyz"), "nothing is found")
	})
	t.Run("collections", func(t *testing.T) {
		run(0, "add", filepath.Join(dir, "index.md"), "--collection", "birds", "--title", "Birds", "--thread", w.Open())
		require.Contains(t, run(0, "list", "--collection", "birds"), "Birds")
		require.Contains(t, run(0, "remove", "index.md", "--collection", "birds"), "removed")
		require.Contains(t, run(0, "list", "--collection", "birds"), "there are no such documents")
		require.Contains(t, run(0, "show", "index.md"), "pelicans")
	})
	t.Run("reindex and remove", func(t *testing.T) {
		require.Contains(t, run(0, "reindex", "index.md"), "index.md: indexed, ")
		run(0, "remove", "index.md")
		require.NotContains(t, run(0, "search", "pelicans"), "pelicans live")
		run(1, "remove", "index.md")
	})
	t.Run("wrong arguments", func(t *testing.T) {
		require.Contains(t, run(2, "add", "nothing-here.md"), "neither a file")
		require.Contains(t, run(2, "add", dir, "--title", "T"), "--title is for one document")
		require.Contains(t, run(2, "add", dir, dir), "different collections")
		require.Contains(t, run(2, "search"), "missing <text>")
		require.Contains(t, run(1, "add", page.URL+"/handbook.md", "--collection", "a b"), "collection")
		require.Contains(t, run(1, "add", page.URL+"/handbook.md", "--thread", "a/b"), "thread")
	})
}

// TestKnowledgeWithoutEmbedder: the words find documents while the embedder fails, and the search says so.
func TestKnowledgeWithoutEmbedder(t *testing.T) {
	t.Parallel()
	w := documents.Readers(t, harness.Options{Configure: embedding})
	s := openCatalogue(w, w.API.URL, w.TaskQueue)
	s.add(api.NewDocument{Source: "a.md", Text: documents.Handbook})
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, "down"))
	found, err := s.SearchKnowledge(w.Ctx(), "vacation", nil, 5)
	require.NoError(t, err)
	require.NotEmpty(t, found.Passages)
	require.Contains(t, found.Warning, "openai/stand-in-embedding failed")
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, "down"))
	_, _, problem := w.Starter("knowledge", "search", "vacation")
	require.Contains(t, problem, "warning: ")
	require.Equal(t, http.StatusUnprocessableEntity, statusOf(w, "/v1/knowledge/search?q="+url.QueryEscape("")))
}

func statusOf(w *harness.Harness, path string) int {
	w.T.Helper()
	status, _ := check.Request(w.T.(*testing.T), w, http.MethodGet, path, nil)
	return status
}
