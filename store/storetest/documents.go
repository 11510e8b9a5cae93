package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// documents are the tests of [store.Documents].
var documents = []suiteTest{
	{"documents are created, replaced and found", testDocumentRoundTrip},
	{"documents are changed after the version that was read", testDocumentConflict},
	{"documents that are deleted are gone, and their versions go on", testDocumentDeleted},
	{"documents are listed by kind and name", testDocumentList},
	{"documents of namespaces and kinds keep apart", testDocumentNamespaces},
	{"documents that cannot be stored are refused", testDocumentRefused},
	{"documents changed at once are changed once", testDocumentConcurrent},
}

func document(name, content string) store.Document {
	return store.Document{Kind: "note", Name: name, Content: json.RawMessage(content), By: "ann"}
}

func putDocument(t *testing.T, s whole, namespace string, d store.Document, after int) store.Document {
	t.Helper()
	saved, err := s.PutDocument(t.Context(), namespace, d, after)
	require.NoError(t, err)
	return saved
}

func testDocumentRoundTrip(t *testing.T, s whole) {
	_, err := s.Document(t.Context(), ns, "note", "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, name := range []string{"", "a\x00b", "\xff"} {
		_, err = s.Document(t.Context(), ns, "note", name)
		require.ErrorIs(t, err, store.ErrNotFound, "%q", name)
	}

	before := time.Now().Add(-time.Minute)
	given := document("a", "{ \"b\": 1e2,  \"a\": [\"\\u0000\"] }")
	given.Version, given.At = 9, start
	saved := putDocument(t, s, ns, given, 0)
	require.WithinRange(t, saved.At, before, time.Now().Add(time.Minute))
	require.Equal(t, time.UTC, saved.At.Location())
	want := given
	want.Version, want.At = 1, saved.At
	require.Equal(t, want, saved)

	found, err := s.Document(t.Context(), ns, "note", "a")
	require.NoError(t, err)
	require.Equal(t, saved, found)
	_, err = s.Document(t.Context(), ns, "note", "A")
	require.ErrorIs(t, err, store.ErrNotFound, "names are case-sensitive")

	second := document("a", `null`)
	second.By = ""
	saved = putDocument(t, s, ns, second, 1)
	require.Equal(t, 2, saved.Version)
	found, err = s.Document(t.Context(), ns, "note", "a")
	require.NoError(t, err)
	require.Equal(t, saved, found)
	require.Equal(t, 3, putDocument(t, s, ns, second, -1).Version, "any version")
	require.Equal(t, 1, putDocument(t, s, ns, document("b", `1`), -1).Version, "or none")
}

func testDocumentConflict(t *testing.T, s whole) {
	conflict := func(err error, after, newest int) {
		t.Helper()
		var got *store.ConflictError
		require.ErrorAs(t, err, &got)
		require.Equal(t, store.ConflictError{Kind: "note", Name: "a", After: after, Newest: newest}, *got)
		require.ErrorIs(t, err, store.ErrConflict)
	}
	_, err := s.PutDocument(t.Context(), ns, document("a", `1`), 1)
	conflict(err, 1, 0)
	putDocument(t, s, ns, document("a", `1`), 0)
	putDocument(t, s, ns, document("a", `2`), 1)
	for _, after := range []int{0, 1, 3} {
		_, err = s.PutDocument(t.Context(), ns, document("a", `3`), after)
		conflict(err, after, 2)
		conflict(s.DeleteDocument(t.Context(), ns, "note", "a", after), after, 2)
	}
	found, err := s.Document(t.Context(), ns, "note", "a")
	require.NoError(t, err)
	require.JSONEq(t, `2`, string(found.Content))
}

func testDocumentDeleted(t *testing.T, s whole) {
	require.ErrorIs(t, s.DeleteDocument(t.Context(), ns, "note", "a", -1), store.ErrNotFound)
	putDocument(t, s, ns, document("a", `1`), 0)
	require.NoError(t, s.DeleteDocument(t.Context(), ns, "note", "a", 1))
	for _, after := range []int{-1, 1, 2} {
		require.ErrorIs(t, s.DeleteDocument(t.Context(), ns, "note", "a", after), store.ErrNotFound)
	}
	_, err := s.Document(t.Context(), ns, "note", "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	all, err := s.Documents(t.Context(), ns, "note", "", store.MaxLimit)
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = s.PutDocument(t.Context(), ns, document("a", `2`), 1)
	require.ErrorIs(t, err, store.ErrConflict, "of what was deleted no version is current")
	require.Equal(t, 3, putDocument(t, s, ns, document("a", `2`), 0).Version)
	require.NoError(t, s.DeleteDocument(t.Context(), ns, "note", "a", -1))
}

func testDocumentList(t *testing.T, s whole) {
	none, err := s.Documents(t.Context(), ns, "note", "", store.MaxLimit)
	require.NoError(t, err)
	require.Empty(t, none)
	b := putDocument(t, s, ns, document("b", `2`), 0)
	a := putDocument(t, s, ns, document("a", `1`), 0)
	upper := putDocument(t, s, ns, document("C", `3`), 0)
	all, err := s.Documents(t.Context(), ns, "note", "", store.MaxLimit)
	require.NoError(t, err)
	require.Equal(t, []store.Document{upper, a, b}, all, "by bytes")
	for i := range store.MaxLimit {
		putDocument(t, s, ns, document(fmt.Sprintf("n%d", i), `0`), -1)
	}
	all, err = s.Documents(t.Context(), ns, "note", "", store.MaxLimit+1)
	require.NoError(t, err)
	require.Len(t, all, store.MaxLimit)
	next, err := s.Documents(t.Context(), ns, "note", "a", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "n0"}, []string{next[0].Name, next[1].Name})
	none, err = s.Documents(t.Context(), ns, "note", "z", store.MaxLimit)
	require.NoError(t, err)
	require.Empty(t, none)
}

func testDocumentNamespaces(t *testing.T, s whole) {
	other := document("a", `4`)
	other.Kind = "other"
	saved := []store.Document{
		putDocument(t, s, ns, document("a", `1`), 0), putDocument(t, s, "else", document("a", `2`), 0),
		putDocument(t, s, "", document("a", `3`), 0), putDocument(t, s, ns, other, 0),
	}
	for i, at := range []struct{ namespace, kind string }{{ns, "note"}, {"else", "note"}, {"", "note"}, {ns, "other"}} {
		all, err := s.Documents(t.Context(), at.namespace, at.kind, "", store.MaxLimit)
		require.NoError(t, err)
		require.Equal(t, []store.Document{saved[i]}, all)
		found, err := s.Document(t.Context(), at.namespace, at.kind, "a")
		require.NoError(t, err)
		require.Equal(t, saved[i], found)
	}
	in, err := s.DocumentNamespaces(t.Context(), "note")
	require.NoError(t, err)
	require.Equal(t, []string{"", ns, "else"}, in)
	require.NoError(t, s.DeleteDocument(t.Context(), "else", "note", "a", -1))
	in, err = s.DocumentNamespaces(t.Context(), "note")
	require.NoError(t, err)
	require.Equal(t, []string{"", ns}, in)
	found, err := s.Document(t.Context(), ns, "note", "a")
	require.NoError(t, err)
	require.Equal(t, saved[0], found)
	for _, namespace := range []string{"\x00", "\xff"} {
		all, err := s.Documents(t.Context(), namespace, "note", "", store.MaxLimit)
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

func testDocumentRefused(t *testing.T, s whole) {
	large := `"` + strings.Repeat("x", store.MaxDocument-2) + `"`
	for name, change := range map[string]func(*store.Document){
		"no kind":    func(d *store.Document) { d.Kind = "" },
		"no name":    func(d *store.Document) { d.Name = "" },
		"bad name":   func(d *store.Document) { d.Name = "a\x00" },
		"bad author": func(d *store.Document) { d.By = "\xff" },
		"no content": func(d *store.Document) { d.Content = nil },
		"no JSON":    func(d *store.Document) { d.Content = json.RawMessage(`{`) },
		"too large":  func(d *store.Document) { d.Content = json.RawMessage(large + " ") },
	} {
		d := document("a", `1`)
		change(&d)
		_, err := s.PutDocument(t.Context(), ns, d, 0)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	_, err := s.PutDocument(t.Context(), "\x00", document("a", `1`), 0)
	require.ErrorIs(t, err, store.ErrInvalid)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.PutDocument(ended, ns, document("a", `1`), 0)
	require.Error(t, err)
	all, err := s.Documents(t.Context(), ns, "note", "", store.MaxLimit)
	require.NoError(t, err)
	require.Empty(t, all, "nothing was stored")
	require.Equal(t, large, string(putDocument(t, s, ns, document("a", large), 0).Content))
}

func testDocumentConcurrent(t *testing.T, s whole) {
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() { // counts to writers*each, together with the others
			for done := 0; done < each; {
				count, version := 0, 0
				if d, err := s.Document(t.Context(), ns, "note", "a"); err == nil {
					count, version = len(d.Content)-2, d.Version
				}
				_, err := s.PutDocument(t.Context(), ns, document("a", `"`+strings.Repeat("x", count+1)+`"`), version)
				switch {
				case err == nil:
					done++
				case !assertConflict(t, err):
					return
				}
			}
		})
	}
	wg.Wait()
	d, err := s.Document(t.Context(), ns, "note", "a")
	require.NoError(t, err)
	require.Equal(t, writers*each, d.Version)
	require.Len(t, d.Content, writers*each+2)
}

func assertConflict(t *testing.T, err error) bool {
	t.Helper()
	return assert.ErrorIs(t, err, store.ErrConflict)
}
