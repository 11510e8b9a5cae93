package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

var erasures = []suiteTest{
	{"an erased thread is gone, and the others stay", testErased},
	{"an erased thread stays erased", testErasedStays},
	{"threads of sub-agents have a parent", testSubThreads},
	{"metadata makes no thread that of a sub-agent", testForeignParents},
	{"an erased thread keeps its parent", testErasedParents},
	{"a thread that does not exist can be erased", testErasedMissing},
	{"erasing a thread while others append to it leaves nothing", testErasedWhileAppending},
	{"an erased thread leaves nothing in entities that others mention", testErasedEntities},
	{"threads whose messages have the same id are erased apart", testErasedSameSource},
	{"erased roots of entities leave what was merged into them", testErasedRoots},
	{"many records are erased", testErasedMany},
	{"documents of an erased thread go with it", testErasedDocuments},
	{"documents that others ingested too stay without an erased thread", testErasedShared},
	{"old tool logs are pruned, and no others", testPrunedToolLogs},
}

func contents(t *testing.T, s whole, k store.Key) store.ThreadContents {
	t.Helper()
	c, err := s.ThreadContents(t.Context(), k)
	require.NoError(t, err)
	return c
}

func erase(t *testing.T, s whole, k store.Key) {
	t.Helper()
	require.NoError(t, s.EraseThread(t.Context(), k))
	require.Zero(t, contents(t, s, k))
	require.NoError(t, s.Scrub(t.Context()))
}

// filled is a batch with everything that an append stores.
func filled(id string) store.Batch {
	return store.Batch{
		Records:    []event.Record{record(id), typed(id+".turn", event.TypeMessage)},
		ToolFinish: &store.ToolLog{ToolCallID: "call-" + id, ToolName: "t", Input: json.RawMessage(`{}`), Status: store.ToolSucceeded, StartedAt: start, FinishedAt: &start},
		Extract:    []store.Extraction{{ID: "x-" + id, EventID: id, SourceType: "message", SourceID: id}},
	}
}

func testErased(t *testing.T, s whole) {
	other := store.Key{Namespace: key.Namespace, ThreadID: "t2"}
	elsewhere := store.Key{Namespace: "other", ThreadID: key.ThreadID}
	for i, k := range []store.Key{key, other, elsewhere} {
		add(t, s, k, filled(fmt.Sprint("a", i)))
	}
	full := store.ThreadContents{Records: 2, ToolLogs: 1, Extractions: 1}
	require.Equal(t, full, contents(t, s, key))
	erase(t, s, key)

	_, err := s.Thread(t.Context(), key)
	require.ErrorIs(t, err, store.ErrErased)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Empty(t, query(t, s, key, store.Query{}))
	logs, err := s.ToolLogs(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, logs)
	listed, err := s.Threads(t.Context(), key.Namespace, store.ThreadPage{})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, other.ThreadID, listed[0].ID)
	for _, k := range []store.Key{other, elsewhere} {
		require.Equal(t, full, contents(t, s, k))
		require.EqualValues(t, 2, thread(t, s, k).Head)
	}
}

func testErasedStays(t *testing.T, s whole) {
	add(t, s, key, filled("a"))
	require.NoError(t, s.MarkErased(t.Context(), key))
	require.NotZero(t, contents(t, s, key), "what is there can be counted before it is deleted")
	for _, batch := range []store.Batch{filled("b"), filled("a"), {}, {ToolStart: &store.ToolLog{ToolCallID: "c", ToolName: "t", Input: json.RawMessage(`{}`), Status: store.ToolStarted, StartedAt: start}}} {
		_, err := s.Append(t.Context(), key, batch)
		require.ErrorIs(t, err, store.ErrErased)
	}
	erase(t, s, key)
	_, err := s.Append(t.Context(), key, filled("b"))
	require.ErrorIs(t, err, store.ErrErased)
	err = s.QueueExtraction(t.Context(), key.Namespace, store.Extraction{ID: "late", ThreadID: key.ThreadID, EventID: "a", SourceType: "message", SourceID: "a"})
	require.ErrorIs(t, err, store.ErrErased)
	require.NoError(t, s.MarkErased(t.Context(), key))
	erase(t, s, key)
	require.Zero(t, contents(t, s, key))
}

func testSubThreads(t *testing.T, s whole) {
	in := func(id string) store.Key { return store.Key{Namespace: key.Namespace, ThreadID: id} }
	for id, u := range map[string]store.ThreadUpdate{
		"t1": {}, "t1.s2": {Parent: "t1", Number: 1}, "t1.s1": {Parent: "t1", Metadata: json.RawMessage(`{"parentThreadId":"t2"}`)}, "other": {Parent: "t2"},
	} {
		add(t, s, in(id), store.Batch{Thread: &u})
	}
	add(t, s, in("t1.s2"), store.Batch{Thread: &store.ThreadUpdate{Number: 2, Status: store.ThreadClosed}})
	subs, err := s.SubThreads(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, []string{"t1.s1", "t1.s2"}, subs)
	require.Equal(t, "t1", thread(t, s, in("t1.s2")).Parent, "an update without a parent leaves it unchanged")
	listed, err := s.Threads(t.Context(), key.Namespace, store.ThreadPage{})
	require.NoError(t, err)
	for _, row := range listed {
		require.Equal(t, map[string]string{"t1.s1": "t1", "t1.s2": "t1", "other": "t2"}[row.ID], row.Parent, row.ID)
	}
	ids, err := s.ThreadIDs(t.Context(), key.Namespace, "", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"other", "t1", "t1.s1"}, ids)
	ids, err = s.ThreadIDs(t.Context(), key.Namespace, "t1.s1", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"t1.s2"}, ids)
	ids, err = s.ThreadIDs(t.Context(), "other", "", 3)
	require.NoError(t, err)
	require.Empty(t, ids)
	for _, k := range []store.Key{{Namespace: "other", ThreadID: key.ThreadID}, in("")} {
		subs, err = s.SubThreads(t.Context(), k)
		require.NoError(t, err)
		require.Empty(t, subs)
	}
	_, err = s.Append(t.Context(), key, store.Batch{Thread: &store.ThreadUpdate{Parent: "a\x00b"}})
	require.ErrorIs(t, err, store.ErrInvalid)
}

// testForeignParents: metadata comes from clients, and makes no thread the one of a sub-agent.
func testForeignParents(t *testing.T, s whole) {
	random := make([]byte, 4000)
	for i := range random {
		random[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[rand.N(36)]
	}
	for id, metadata := range map[string]string{
		"named": `{"parentThreadId":"t1"}`, "nested": `{"x":{"parentThreadId":"t1"}}`, "number": `{"parentThreadId":7}`, "none": `null`,
		"long": `{"parentThreadId":"` + string(random) + `"}`, "nul": `{"parentThreadId":"t1","x":"\u0000"}`,
		"deep": `{"parentThreadId":"t1","x":` + strings.Repeat("[", 1100) + strings.Repeat("]", 1100) + `}`,
	} {
		k := store.Key{Namespace: key.Namespace, ThreadID: id}
		add(t, s, k, store.Batch{Records: []event.Record{record(id)}, Thread: &store.ThreadUpdate{Metadata: json.RawMessage(metadata)}})
		require.Empty(t, thread(t, s, k).Parent, id)
	}
	subs, err := s.SubThreads(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, subs)
}

// testErasedParents: an erasure that was stopped half way finds the threads of sub-agents that it has marked.
func testErasedParents(t *testing.T, s whole) {
	sub := store.Key{Namespace: key.Namespace, ThreadID: "t1.s1"}
	batch := filled("b")
	batch.Thread = &store.ThreadUpdate{Parent: key.ThreadID}
	add(t, s, key, filled("a"))
	add(t, s, sub, batch)
	for _, k := range []store.Key{key, sub, key, sub} {
		require.NoError(t, s.MarkErased(t.Context(), k))
		subs, err := s.SubThreads(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, []string{sub.ThreadID}, subs)
	}
	require.NotZero(t, contents(t, s, sub))
	erase(t, s, key)
	erase(t, s, sub)
	subs, err := s.SubThreads(t.Context(), sub)
	require.NoError(t, err)
	require.Empty(t, subs)
}

func testErasedMissing(t *testing.T, s whole) {
	erase(t, s, key)
	_, err := s.Append(t.Context(), key, filled("a"))
	require.ErrorIs(t, err, store.ErrErased)
}

func testErasedWhileAppending(t *testing.T, s whole) {
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				_, err := s.Append(context.WithoutCancel(t.Context()), key, filled(fmt.Sprintf("r-%d-%d", w, i)))
				if errors.Is(err, store.ErrErased) {
					return
				}
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
			}
		})
	}
	require.NoError(t, s.MarkErased(t.Context(), key))
	all.Wait()
	erase(t, s, key)
	require.Zero(t, contents(t, s, key))
}

func testErasedMany(t *testing.T, s whole) {
	for i := range 3 {
		add(t, s, key, store.Batch{Records: series(fmt.Sprintf("r%d-", i), 1000)})
	}
	require.Equal(t, 3000, contents(t, s, key).Records)
	erase(t, s, key)
}

// foundIn ends an extraction of a thread in which entities were found.
func foundIn(t *testing.T, s whole, threadID string, found store.EntitiesFound) {
	t.Helper()
	id := "found-" + threadID + fmt.Sprint(len(found.New), len(found.Mentions), found.Mentions[0].SourceID)
	require.NoError(t, s.QueueExtraction(t.Context(), ns, store.Extraction{ID: id, ThreadID: threadID, EventID: "e", SourceType: "message", SourceID: id}))
	ended, err := s.EndExtraction(t.Context(), ns, id, found)
	require.NoError(t, err)
	require.True(t, ended)
}

func mentionIn(threadID, entity, name string) store.Mention {
	return store.Mention{EntityID: entity, Name: name, ThreadID: threadID, SourceType: "message", SourceID: threadID + "-" + entity, Text: name + " of " + threadID, At: start}
}

func testErasedEntities(t *testing.T, s whole) {
	gone := store.Key{Namespace: ns, ThreadID: "gone"}
	foundIn(t, s, "gone", store.EntitiesFound{
		New:       []store.NewEntity{{ID: "only", Name: "Only", Type: "person", Description: "secret"}, {ID: "both", Name: "First Name", Type: "person", Description: "secret"}, {ID: "third", Name: "Third", Type: "person"}},
		Mentions:  []store.Mention{mentionIn("gone", "only", "Only"), mentionIn("gone", "both", "First Name"), mentionIn("gone", "third", "Third")},
		Relations: []store.Relation{{From: "only", To: "both", Type: "knows", Reason: "secret", At: start}},
	})
	foundIn(t, s, "stays", store.EntitiesFound{
		New:      []store.NewEntity{{ID: "apart", Name: "Apart", Type: "person", Description: "kept"}},
		Mentions: []store.Mention{mentionIn("stays", "both", "Other Name"), mentionIn("stays", "third", "Third"), mentionIn("stays", "apart", "Apart")},
	})
	require.Equal(t, 3, contents(t, s, gone).Mentions)
	erase(t, s, gone)

	_, err := s.Entity(t.Context(), ns, "only")
	require.ErrorIs(t, err, store.ErrNotFound)
	both := entity(t, s, ns, "both")
	require.Equal(t, "Other Name", both.Name, "its name was that of the erased thread")
	require.Equal(t, 1, both.Mentions)
	require.Empty(t, both.Descriptions)
	related, err := s.Relations(t.Context(), ns, "both")
	require.NoError(t, err)
	require.Empty(t, related)
	require.Equal(t, "Third", entity(t, s, ns, "third").Name)
	require.Equal(t, []string{"kept"}, entity(t, s, ns, "apart").Descriptions)
	named, err := s.EntitiesNamed(t.Context(), ns, []string{"first name", "other name"})
	require.NoError(t, err)
	require.Len(t, named, 1)
	require.Equal(t, "both", named[0].ID)
}

// testErasedSameSource: two threads have a message of the same id. Each has its mention, so that what came from it is known.
func testErasedSameSource(t *testing.T, s whole) {
	said := func(threadID, entity string) store.Mention {
		m := mentionIn(threadID, entity, "Name in "+threadID)
		m.SourceID = "m1"
		return m
	}
	for _, id := range []string{"first", "second"} {
		foundIn(t, s, id, store.EntitiesFound{
			New:       []store.NewEntity{{ID: "both", Name: "Name in " + id, Type: "person", Description: "of " + id}, {ID: "of-" + id, Name: "Only " + id, Type: "person"}},
			Described: map[string]string{"both": "described by " + id},
			Mentions:  []store.Mention{said(id, "both"), said(id, "of-"+id)},
			Relations: []store.Relation{{From: "both", To: "of-" + id, Type: "knows", Reason: "of " + id, At: start}},
		})
	}
	require.Equal(t, 2, entity(t, s, ns, "both").Mentions)
	for _, size := range []int{1, 2} {
		var threads []string
		for page := (store.MentionPage{Limit: size}); ; {
			found, err := s.Mentions(t.Context(), ns, "both", page)
			require.NoError(t, err)
			if len(found) == 0 {
				break
			}
			for _, m := range found {
				threads = append(threads, m.ThreadID)
				page.BeforeAt, page.BeforeSourceType, page.BeforeSourceID = m.At, m.SourceType, m.SourceID
				page.BeforeEntity, page.BeforeThread = m.EntityID, m.ThreadID
			}
		}
		require.Equal(t, []string{"first", "second"}, threads, "in pages of %d", size)
	}

	second := store.Key{Namespace: ns, ThreadID: "second"}
	require.Equal(t, 2, contents(t, s, second).Mentions)
	erase(t, s, second)
	both := entity(t, s, ns, "both")
	require.Equal(t, "Name in first", both.Name)
	require.Equal(t, 1, both.Mentions)
	require.NotContains(t, fmt.Sprint(both), "second")
	related, err := s.Relations(t.Context(), ns, "both")
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(related), "second")
	erase(t, s, store.Key{Namespace: ns, ThreadID: "first"})
	_, err = s.Entity(t.Context(), ns, "both")
	require.ErrorIs(t, err, store.ErrNotFound)

	// The thread whose mention came first is erased first.
	third, fourth := said("third", "x"), said("fourth", "x")
	foundIn(t, s, "third", store.EntitiesFound{New: []store.NewEntity{{ID: "x", Name: "X", Type: "person"}}, Mentions: []store.Mention{third}})
	foundIn(t, s, "fourth", store.EntitiesFound{Mentions: []store.Mention{fourth}})
	erase(t, s, store.Key{Namespace: ns, ThreadID: "third"})
	require.Equal(t, "Name in fourth", entity(t, s, ns, "x").Name, "the fourth mentions it")
}

func testErasedRoots(t *testing.T, s whole) {
	gone := store.Key{Namespace: ns, ThreadID: "gone"}
	foundIn(t, s, "stays", store.EntitiesFound{
		New:      []store.NewEntity{{ID: "a", Name: "A", Type: "person"}, {ID: "b", Name: "B", Type: "person"}, {ID: "d", Name: "D", Type: "person"}},
		Mentions: []store.Mention{mentionIn("stays", "a", "A"), mentionIn("stays", "b", "B"), mentionIn("stays", "d", "D")},
	})
	foundIn(t, s, "gone", store.EntitiesFound{
		New:      []store.NewEntity{{ID: "m", Name: "M", Type: "person"}, {ID: "r", Name: "R", Type: "person"}},
		Mentions: []store.Mention{mentionIn("gone", "m", "M"), mentionIn("gone", "r", "R")},
	})
	merge(t, s, ns, merging("am", "a", "m", start))
	merge(t, s, ns, merging("mr", "m", "r", minute(1)))
	merge(t, s, ns, merging("br", "b", "r", minute(2)))
	merge(t, s, ns, merging("rd", "r", "d", minute(3)))
	undo(t, s, ns, "rd", "ann")
	require.Equal(t, 4, entity(t, s, ns, "a").Mentions)
	erase(t, s, gone)

	root := entity(t, s, ns, "a")
	require.Equal(t, root, entity(t, s, ns, "b"), "they stay together")
	require.Equal(t, 2, root.Mentions)
	require.NotContains(t, append(root.Aliases, root.Name), "R")
	require.NotContains(t, append(root.Aliases, root.Name), "M")
	require.Empty(t, mergesOf(t, s, ns, "d"))
	require.Equal(t, 1, entity(t, s, ns, "d").Mentions)
	require.Equal(t, []string{root.ID + " 2", "d 1"}, entityIDs(t, s, ns, store.EntityPage{}))
}

func testErasedDocuments(t *testing.T, s whole) {
	begin := func(source, threadID string) (string, error) {
		d, err := s.BeginKnowledge(t.Context(), key.Namespace, store.KnowledgeDocument{Collection: "c", Source: source, ThreadID: threadID},
			store.KnowledgeBegin{Digest: "d" + threadID, Content: &store.KnowledgeContent{Name: source, MediaType: "text/plain", Bytes: []byte("text")}})
		return d.ID, err
	}
	one, err := begin("one", key.ThreadID)
	require.NoError(t, err)
	two, err := begin("two", "another")
	require.NoError(t, err)
	three, err := begin("three", "")
	require.NoError(t, err)
	require.Equal(t, 1, contents(t, s, key).Documents)
	of, err := s.ThreadDocuments(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, []string{one}, of)
	erase(t, s, key)
	_, err = s.KnowledgeDocument(t.Context(), key.Namespace, one)
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, id := range []string{two, three} {
		_, err := s.KnowledgeDocument(t.Context(), key.Namespace, id)
		require.NoError(t, err)
	}
	for _, source := range []string{"late", "two"} {
		_, err := begin(source, key.ThreadID)
		require.ErrorIs(t, err, store.ErrErased)
	}
}

// testErasedShared: of a document with revisions of several threads, those of the others stay, and nothing of the erased
// one is found.
func testErasedShared(t *testing.T, s whole) {
	type step struct {
		thread, text string

		// Of the ends "indexed", "failed" and "unchanged", "" leaves the revision processing.
		end string
	}
	const kept, gone = "kept", "gone"
	for name, test := range map[string]struct {
		steps []step

		// found are the texts that are found after gone was erased.
		found  []string
		status store.KnowledgeStatus
		thread string
	}{
		"ingested again":                 {[]step{{kept, "apple", "indexed"}, {gone, "secret", "indexed"}}, nil, "", ""},
		"ingested again by the other":    {[]step{{gone, "secret", "indexed"}, {kept, "apple", "indexed"}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"the same again":                 {[]step{{kept, "apple", "indexed"}, {gone, "apple", "indexed"}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"the same again by the other":    {[]step{{gone, "apple", "indexed"}, {kept, "apple", "indexed"}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"being ingested again":           {[]step{{kept, "apple", "indexed"}, {gone, "secret", ""}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"being ingested by the other":    {[]step{{gone, "secret", "indexed"}, {kept, "apple", ""}}, nil, store.KnowledgeProcessing, kept},
		"failed":                         {[]step{{kept, "apple", "indexed"}, {gone, "secret", "failed"}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"failed of the other":            {[]step{{gone, "secret", "indexed"}, {kept, "apple", "failed"}}, nil, store.KnowledgeFailed, kept},
		"found unchanged":                {[]step{{kept, "apple", "indexed"}, {gone, "apple", "unchanged"}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"found unchanged by the other":   {[]step{{gone, "apple", "indexed"}, {kept, "apple", "unchanged"}}, []string{"apple"}, store.KnowledgeIndexed, kept},
		"a document of nobody":           {[]step{{"", "apple", "indexed"}, {gone, "secret", ""}}, []string{"apple"}, store.KnowledgeIndexed, ""},
		"a document of nobody unchanged": {[]step{{"", "apple", "indexed"}, {gone, "apple", "unchanged"}}, []string{"apple"}, store.KnowledgeIndexed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := "ns-" + strings.ReplaceAll(name, " ", "-")
			begin := func(threadID, text string) store.KnowledgeDocument {
				given := store.KnowledgeDocument{Collection: "c", Source: "s", ThreadID: threadID, By: "by " + threadID}
				if threadID == gone {
					given.Title, given.Metadata = "secret title", json.RawMessage(`{"secret":1}`)
				}
				d, err := s.BeginKnowledge(t.Context(), in, given,
					store.KnowledgeBegin{Digest: "d" + text, Force: true, Content: &store.KnowledgeContent{Name: "s", MediaType: "text/plain", Bytes: []byte(text)}})
				require.NoError(t, err)
				return d
			}
			search := func(words ...string) (found []string) {
				for _, word := range words {
					hits, err := s.SearchText(t.Context(), in, word, store.KnowledgeScope{})
					require.NoError(t, err)
					for _, hit := range hits {
						found = append(found, hit.Text)
					}
				}
				return found
			}
			var d store.KnowledgeDocument
			for _, step := range test.steps {
				d = begin(step.thread, step.text)
				chunks := []store.KnowledgeChunk{{Text: step.text}}
				if step.end != "unchanged" {
					require.NoError(t, s.AddChunks(t.Context(), in, d.Newest(), chunks))
				}
				if step.end != "" {
					_, err := s.FinishKnowledge(t.Context(), in, d.Newest(), store.KnowledgeFinish{
						Error: map[string]string{"failed": "no"}[step.end], Unchanged: step.end == "unchanged",
					})
					require.NoError(t, err)
				}
			}
			key := store.Key{Namespace: in, ThreadID: gone}
			of, err := s.ThreadDocuments(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, []string{d.ID}, of)
			require.Equal(t, 1, contents(t, s, key).Documents)
			erase(t, s, key)
			erase(t, s, key)
			require.Equal(t, test.found, search("secret", "apple"))
			left, err := s.KnowledgeDocument(t.Context(), in, d.ID)
			if test.status == "" {
				require.ErrorIs(t, err, store.ErrNotFound)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.status, left.Status)
			require.Equal(t, test.thread, left.ThreadID)
			require.Empty(t, left.Title, "it was given by the erased thread")
			require.Empty(t, left.Metadata)
			require.NotEqual(t, "by gone", left.By)
			index, err := s.KnowledgeIndex(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, len(test.found), index.Chunks)
			for _, r := range []int{1, 2} {
				if c, err := s.KnowledgeContent(t.Context(), in, store.KnowledgeRevision{Document: d.ID, Number: r}); err == nil {
					require.NotContains(t, string(c.Bytes), "secret")
				}
			}
			if last := test.steps[len(test.steps)-1]; last.thread == gone {
				err := s.AddChunks(t.Context(), in, d.Newest(), []store.KnowledgeChunk{{Index: 1, Text: "secret"}})
				require.ErrorIs(t, err, store.ErrSuperseded, "steps of the erased thread")
			}

			// What is left can go on, and goes with its own thread.
			next := begin("later", "pear")
			require.Greater(t, next.Revision, d.Revision)
			require.NoError(t, s.AddChunks(t.Context(), in, next.Newest(), []store.KnowledgeChunk{{Text: "pear"}}))
			_, err = s.FinishKnowledge(t.Context(), in, next.Newest(), store.KnowledgeFinish{})
			require.NoError(t, err)
			require.Equal(t, []string{"pear"}, search("secret", "apple", "pear"))
			erase(t, s, store.Key{Namespace: in, ThreadID: kept})
			require.Equal(t, []string{"pear"}, search("pear"))
			erase(t, s, store.Key{Namespace: in, ThreadID: "later"})
			_, err = s.KnowledgeDocument(t.Context(), in, d.ID)
			require.ErrorIs(t, err, store.ErrNotFound)
		})
	}

	// Threads that are erased at the same time: neither waits for the other.
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		in := fmt.Sprint("both", i)
		var d store.KnowledgeDocument
		for _, step := range []step{{"a", "apple", "indexed"}, {"b", "pear", ""}} {
			var err error
			d, err = s.BeginKnowledge(t.Context(), in, store.KnowledgeDocument{Source: "s", ThreadID: step.thread}, store.KnowledgeBegin{Digest: step.text})
			require.NoError(t, err)
			require.NoError(t, s.AddChunks(t.Context(), in, d.Newest(), []store.KnowledgeChunk{{Text: step.text}}))
			if step.end != "" {
				_, err = s.FinishKnowledge(t.Context(), in, d.Newest(), store.KnowledgeFinish{})
				require.NoError(t, err)
			}
		}
		for _, id := range order {
			require.NoError(t, s.MarkErased(t.Context(), store.Key{Namespace: in, ThreadID: id}))
		}
		for _, id := range order {
			erase(t, s, store.Key{Namespace: in, ThreadID: id})
		}
		_, err := s.KnowledgeDocument(t.Context(), in, d.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

func testPrunedToolLogs(t *testing.T, s whole) {
	k, other := store.Key{Namespace: "pruned", ThreadID: "t"}, store.Key{Namespace: "elsewhere", ThreadID: "t"}
	now := time.Now().UTC().Truncate(time.Microsecond)
	log := func(k store.Key, id string, status store.ToolStatus, age time.Duration) {
		ended := now.Add(-age)
		one := store.ToolLog{ToolCallID: id, ToolName: "t", Agent: "a", TraceID: "x", Input: json.RawMessage("{}"), Output: json.RawMessage("{}"), Status: status, Attempt: 1, StartedAt: ended, FinishedAt: &ended}
		_, err := s.Append(t.Context(), k, store.Batch{ToolFinish: &one})
		require.NoError(t, err)
	}
	log(k, "old", store.ToolSucceeded, 2*time.Hour)
	log(k, "failed", store.ToolFailed, 3*time.Hour)
	log(k, "pending", store.ToolPending, 4*time.Hour)
	log(k, "waiting", store.ToolWaiting, 4*time.Hour)
	log(k, "new", store.ToolSucceeded, time.Minute)
	log(other, "old", store.ToolSucceeded, 2*time.Hour)
	before := now.Add(-time.Hour)
	n, err := s.OldToolLogs(t.Context(), k.Namespace, before)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for _, want := range []int{2, 0} {
		n, err = s.PruneToolLogs(t.Context(), k.Namespace, before)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	left, err := s.ToolLogs(t.Context(), k)
	require.NoError(t, err)
	var ids []string
	for _, l := range left {
		ids = append(ids, l.ToolCallID)
	}
	require.ElementsMatch(t, []string{"pending", "waiting", "new"}, ids)
	left, err = s.ToolLogs(t.Context(), other)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
