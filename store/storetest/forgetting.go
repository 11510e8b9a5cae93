package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// forgettings are the tests of what [store.Erasures] does to threads that stay.
var forgettings = []suiteTest{
	{"payloads of records are replaced, and nothing else", testReplacedRecords},
	{"replaced records are found by what they say now", testReplacedSearch},
	{"replaced records stay replaced when an append is retried", testReplacedRetry},
	{"many records are replaced", testReplacedMany},
	{"inputs and outputs of tool logs are replaced, and nothing else", testReplacedToolLogs},
	{"nothing of an erased thread is replaced", testReplacedErased},
	{"forgotten messages leave nothing in entities", testForgottenMessages},
	{"forgotten messages are not searched for entities", testForgottenExtractions},
	{"messages with many mentions are forgotten", testForgottenMany},
	{"entities are forgotten by any of their names", testForgottenEntities},
	{"entities are forgotten on all pages", testForgottenPages},
	{"messages and entities are forgotten while others are found", testForgottenAtOnce},
}

// replaced returns a record with another payload.
func replaced(r event.Record, payload string) event.Record {
	r.Payload = json.RawMessage(payload)
	return r
}

func replaceRecords(t *testing.T, s whole, k store.Key, records ...event.Record) {
	t.Helper()
	require.NoError(t, s.ReplaceRecords(t.Context(), k, records...))
}

func testReplacedRecords(t *testing.T, s whole) {
	other, elsewhere := store.Key{Namespace: key.Namespace, ThreadID: "t2"}, store.Key{Namespace: "other", ThreadID: key.ThreadID}
	for _, k := range []store.Key{key, other, elsewhere} {
		add(t, s, k, store.Batch{Records: records("a", "b", "c", "d")})
	}
	before, row := query(t, s, key, store.Query{}), thread(t, s, key)
	want := slices.Clone(before)
	want[0].Payload, want[2].Payload, want[3].Payload = json.RawMessage(`{"content":  "\u0000 é"}`), json.RawMessage("null"), json.RawMessage("\"\uFFFD\"")
	// Only the id and the payload of what is given matter.
	replaceRecords(t, s, key, event.Record{ID: "a", Seq: 7, Type: "x", TraceID: "x", Payload: want[0].Payload}, event.Record{ID: "missing", Payload: want[0].Payload},
		event.Record{ID: "c"}, event.Record{ID: "d", Payload: json.RawMessage("\"\xff\"")}, event.Record{ID: "\x00"})
	require.Equal(t, want, query(t, s, key, store.Query{}))
	require.Equal(t, row, thread(t, s, key), "the thread was not active")
	require.Equal(t, int64(3), add(t, s, key, store.Batch{}).Replaced)
	require.Zero(t, add(t, s, other, store.Batch{}).Replaced)
	for _, k := range []store.Key{other, elsewhere} {
		require.Equal(t, before, query(t, s, k, store.Query{}))
	}

	err := s.ReplaceRecords(t.Context(), key, replaced(before[0], `{}`), replaced(before[1], `{`))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, `"b"`)
	replaceRecords(t, s, key)
	replaceRecords(t, s, store.Key{Namespace: "\x00", ThreadID: "t"}, before...)
	require.Equal(t, want, query(t, s, key, store.Query{}), "nothing is replaced if one cannot be")
}

func testReplacedSearch(t *testing.T, s whole) {
	said := typed("m", event.TypeMessage)
	// What hooks left of a message is in the record of their decision.
	hook := replaced(typed("m.hook", event.TypeHook), `{"outcome":"replaced","message":{"content":"call Zoe"}}`)
	add(t, s, key, store.Batch{Records: []event.Record{said, hook, replaced(record("n"), `{"content":"ask Zoe"}`)}})
	require.Equal(t, []string{key.ThreadID}, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "zoe"}}))
	replaceRecords(t, s, key, replaced(said, `{"content":"call [erased]"}`), replaced(hook, `{"outcome":"replaced","message":{"content":"call [erased]"}}`))
	require.Equal(t, []string{key.ThreadID}, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "zoe"}}), "in the other message")
	replaceRecords(t, s, key, replaced(record("n"), `{"content":"ask [erased]"}`))
	require.Empty(t, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "zoe"}}))
	require.Equal(t, []string{key.ThreadID}, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "call [erased]"}}))
}

func testReplacedRetry(t *testing.T, s whole) {
	batch := filled("a")
	add(t, s, key, batch)
	replaceRecords(t, s, key, replaced(record("a"), `{"content":"[erased]"}`))
	require.NoError(t, s.ReplaceToolLogs(t.Context(), key, store.ToolLog{ToolCallID: "call-a", Input: json.RawMessage(`"[erased]"`)}))
	again := add(t, s, key, batch)
	require.JSONEq(t, `{"content":"[erased]"}`, string(again.Records[0].Payload))
	require.JSONEq(t, `"[erased]"`, string(stored(t, s, "call-a").Input))
	require.Equal(t, again.Records, query(t, s, key, store.Query{}))
}

func testReplacedMany(t *testing.T, s whole) {
	const n = store.EraseBatch + 1
	all := series("r", n)
	add(t, s, key, store.Batch{Records: all})
	for i := range all {
		all[i].Payload = json.RawMessage(`{"content":"[erased]"}`)
	}
	replaceRecords(t, s, key, all...)
	for after := int64(0); after < n; {
		found := query(t, s, key, store.Query{After: after})
		require.NotEmpty(t, found)
		for _, r := range found {
			require.JSONEq(t, `{"content":"[erased]"}`, string(r.Payload), r.ID)
		}
		after = found[len(found)-1].Seq
	}
}

func testReplacedToolLogs(t *testing.T, s whole) {
	other := store.Key{Namespace: key.Namespace, ThreadID: "t2"}
	for _, k := range []store.Key{key, other} {
		for _, id := range []string{"done", "runs", "stays"} {
			begin := toolLog(id)
			add(t, s, k, store.Batch{ToolStart: &begin})
		}
		end := finishOf("done", store.ToolSucceeded, `{"person": "Zoe"}`)
		add(t, s, k, store.Batch{ToolFinish: &end})
	}
	row := thread(t, s, key)
	want := []store.ToolLog{stored(t, s, "done"), stored(t, s, "runs"), stored(t, s, "stays")}
	before := slices.Clone(want)
	want[0].Input, want[0].Output, want[1].Input = json.RawMessage(`{"q":  "[erased]"}`), json.RawMessage(`"not JSON"`), json.RawMessage(`1`)
	require.NoError(t, s.ReplaceToolLogs(t.Context(), key,
		store.ToolLog{ToolCallID: "done", ToolName: "x", Attempt: 9, Input: want[0].Input, Output: json.RawMessage(`not JSON`)},
		store.ToolLog{ToolCallID: "runs", Input: want[1].Input}, store.ToolLog{ToolCallID: "missing", Input: want[1].Input},
		store.ToolLog{ToolCallID: "stays"}, store.ToolLog{ToolCallID: "\x00"},
	))
	logs := func(k store.Key) []store.ToolLog {
		found, err := s.ToolLogPage(t.Context(), k, "", store.MaxLimit)
		require.NoError(t, err)
		return found
	}
	require.Equal(t, want, logs(key))
	require.Equal(t, before, logs(other))
	require.Equal(t, row, thread(t, s, key), "the thread was not active")

	// A call that ends after its log was read keeps its output.
	end := finishOf("runs", store.ToolSucceeded, `"of the call"`)
	add(t, s, key, store.Batch{ToolFinish: &end})
	require.NoError(t, s.ReplaceToolLogs(t.Context(), key, want[1]))
	require.JSONEq(t, `"of the call"`, string(stored(t, s, "runs").Output))
}

func testReplacedErased(t *testing.T, s whole) {
	add(t, s, key, filled("a"))
	erase(t, s, key)
	for _, k := range []store.Key{key, {Namespace: key.Namespace, ThreadID: "missing"}} {
		replaceRecords(t, s, k, record("a"))
		require.NoError(t, s.ReplaceToolLogs(t.Context(), k, toolLog("call-a")))
		require.NoError(t, s.ForgetMessages(t.Context(), k, "a"))
		require.Zero(t, contents(t, s, k))
		_, err := s.Thread(t.Context(), k)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

// mentionOf is a mention of an entity by a message of a thread.
func mentionOf(threadID, message, entity, name string) store.Mention {
	m := mentionIn(threadID, entity, name)
	m.SourceID = message
	return m
}

func testForgottenMessages(t *testing.T, s whole) {
	foundIn(t, s, "t1", store.EntitiesFound{
		New: []store.NewEntity{
			{ID: "only", Name: "Only", Type: "person", Description: "secret", Embedder: "e", Vector: []float32{1, 0}},
			{ID: "both", Name: "First Name", Type: "person", Description: "secret", Embedder: "e", Vector: []float32{0, 1}},
			{ID: "apart", Name: "Apart", Type: "person", Description: "kept"},
			{ID: "top", Name: "Top", Type: "person", Description: "kept"},
			{ID: "low", Name: "Low", Type: "person", Description: "secret"},
		},
		Mentions: []store.Mention{
			mentionOf("t1", "m1", "only", "Only"), mentionOf("t1", "m2", "only", "Only"), mentionOf("t1", "m1", "both", "First Name"),
			mentionOf("t1", "m3", "both", "Other Name"), mentionOf("t1", "m3", "apart", "Apart"),
			mentionOf("t1", "m3", "top", "Top"), mentionOf("t1", "m2", "low", "Low"),
		},
		Relations: []store.Relation{
			{From: "only", To: "both", Type: "knows", Reason: "secret", At: start},
			{From: "apart", To: "both", Type: "knows", Reason: "secret", At: start},
			{From: "apart", To: "top", Type: "knows", Reason: "kept", At: start},
		},
	})
	merge(t, s, ns, merging("m", "top", "low", start))
	// Messages of other threads have the same ids.
	foundIn(t, s, "t2", store.EntitiesFound{
		New:      []store.NewEntity{{ID: "same", Name: "Same", Type: "person", Description: "kept"}},
		Mentions: []store.Mention{mentionOf("t2", "m1", "same", "Same"), mentionOf("t2", "m2", "same", "Same")},
	})
	require.NoError(t, s.ForgetMessages(t.Context(), key))
	require.NoError(t, s.ForgetMessages(t.Context(), key, "missing", "\x00", "m"))
	require.NoError(t, s.ForgetMessages(t.Context(), store.Key{Namespace: "other", ThreadID: "t1"}, "m1", "m2"))
	require.Equal(t, 7, contents(t, s, key).Mentions)

	for range 2 {
		require.NoError(t, s.ForgetMessages(t.Context(), key, "m1", "m2"))
	}
	requireNoEntity(t, s, ns, "only")
	require.Empty(t, similar(t, s, ns, "person", "e", 0, 1, 1), "the vectors were those of forgotten names")
	both := entity(t, s, ns, "both")
	require.Equal(t, "Other Name", both.Name)
	require.Equal(t, 1, both.Mentions)
	require.Empty(t, both.Descriptions)
	require.Empty(t, relations(t, s, ns, "both"))
	require.Equal(t, []string{"kept"}, entity(t, s, ns, "apart").Descriptions)
	require.Equal(t, []string{"apart knows top"}, relations(t, s, ns, "apart"))
	require.Equal(t, []string{"kept"}, entity(t, s, ns, "same").Descriptions)
	require.Equal(t, 2, entity(t, s, ns, "same").Mentions)
	top := entity(t, s, ns, "top")
	require.Equal(t, 1, top.Mentions)
	require.Empty(t, top.Aliases, "the root that was mentioned is gone, and what was merged into it stays")
	require.Equal(t, []string{"kept"}, top.Descriptions)
	require.Empty(t, mergesOf(t, s, ns, ""))
	require.Equal(t, []string{"same 2", "apart 1", "both 1", "top 1"}, entityIDs(t, s, ns, store.EntityPage{}))
	left, err := s.ThreadMentions(t.Context(), key, store.Mention{}, store.MaxLimit)
	require.NoError(t, err)
	require.Equal(t, []string{"m3", "m3", "m3"}, sources(left))
}

func testForgottenExtractions(t *testing.T, s whole) {
	queue := func(threadID, event, source, content string) store.Extraction {
		x := store.Extraction{
			ID: strings.Join([]string{threadID, event, source}, "/"), ThreadID: threadID, EventID: event, SourceType: "message", SourceID: source, Content: content, QueuedAt: minute(len(source)),
		}
		queueExtraction(t, s, ns, x)
		return x
	}
	message := queue("t1", "m1", "m1", "")
	joined := queue("t1", "m1", "m10", "") // of the turn of another message
	mail := queue("t1", "e1", "m100", "about Zoe")
	elsewhere := queue("t2", "m1", "m1000", "")
	require.NoError(t, s.ForgetMessages(t.Context(), key, "m1", "e1"))
	require.Equal(t, []string{joined.ID, elsewhere.ID}, queued(t, s, ns))

	// One that was being searched adds nothing, and a retried step queues none again.
	for _, x := range []store.Extraction{message, mail} {
		ended, err := s.EndExtraction(t.Context(), ns, x.ID, store.EntitiesFound{New: []store.NewEntity{newEntity("zoe", "Zoe")}})
		require.NoError(t, err)
		require.False(t, ended)
		queueExtraction(t, s, ns, x)
	}
	requireNoEntity(t, s, ns, "zoe")
	require.Equal(t, []string{joined.ID, elsewhere.ID}, queued(t, s, ns))
	require.Equal(t, 1, contents(t, s, key).Extractions)
}

func testForgottenMany(t *testing.T, s whole) {
	ids := []string{}
	for i := range store.EraseBatch/store.MaxFound + 2 {
		id := fmt.Sprint("m", i)
		ids = append(ids, id)
		var found store.EntitiesFound
		for n := range store.MaxFound {
			e := fmt.Sprintf("%s-%d", id, n)
			found.New = append(found.New, newEntity(e, e))
			found.Mentions = append(found.Mentions, mentionOf("t1", id, e, e))
		}
		foundIn(t, s, "t1", found)
	}
	require.Greater(t, contents(t, s, key).Mentions, store.EraseBatch)
	// Ids of more than one batch.
	for i := range store.EraseBatch {
		ids = append([]string{fmt.Sprint("missing", i)}, ids...)
	}
	require.NoError(t, s.ForgetMessages(t.Context(), key, ids...))
	require.Zero(t, contents(t, s, key).Mentions)
	require.Empty(t, entityIDs(t, s, ns, store.EntityPage{}))
}

func testForgottenEntities(t *testing.T, s whole) {
	one := []string{"by-name", "by-mention", "root", "alias", "alias-root", "undone-root", "undone", "stays", "related"}
	var found store.EntitiesFound
	for _, id := range one {
		name := map[string]string{"by-name": "Zoe Lee", "alias": "zoe lee", "alias-root": "Zoe Lee", "undone": "ZOE LEE"}[id]
		if name == "" {
			name = "Name " + id
		}
		e := newEntity(id, name)
		e.Embedder, e.Vector = "e", []float32{1, 0}
		found.New = append(found.New, e)
		found.Mentions = append(found.Mentions, mentionOf("t1", "m-"+id, id, name))
	}
	found.Mentions = append(found.Mentions, mentionOf("t1", "m2", "by-mention", "Zoe Lee"), mentionOf("t1", "m3", "by-mention", "Z. Lee"),
		mentionOf("t1", "m4", "by-name", "ZOE LEE"))
	found.Relations = []store.Relation{{From: "related", To: "by-name", Type: "knows", At: start}, {From: "alias", To: "related", Type: "knows", At: start}, {From: "related", To: "stays", Type: "knows", At: start}}
	foundIn(t, s, "t1", found)
	endExtraction(t, s, "other", "x", store.EntitiesFound{New: []store.NewEntity{newEntity("by-name", "Zoe Lee")}})
	merge(t, s, ns, merging("g1", "alias", "root", start))
	merge(t, s, ns, merging("g2", "stays", "undone", start))
	undo(t, s, ns, "g2", "ann")
	merge(t, s, ns, merging("g3", "undone-root", "alias-root", start))
	merge(t, s, ns, merging("g4", "related", "stays", minute(1)))
	undo(t, s, ns, "g4", "ann")

	var asked []string
	forget := func(namespace string) int {
		n, err := s.ForgetEntities(t.Context(), namespace, func(name string) bool {
			asked = append(asked, name)
			return strings.EqualFold(name, "zoe lee")
		})
		require.NoError(t, err)
		return n
	}
	require.Zero(t, forget("nowhere"))
	require.Zero(t, forget("\x00"))
	require.Empty(t, asked)
	require.Equal(t, 5, forget(ns), "by its name, by a mention, by what was merged into it, as a root, and after an undone merge")
	require.Contains(t, asked, "Z. Lee")
	require.Zero(t, forget(ns))
	for _, id := range one[:len(one)-2] {
		requireNoEntity(t, s, ns, id)
	}
	require.Equal(t, []string{"related 1", "stays 1"}, entityIDs(t, s, ns, store.EntityPage{}), "an undone merge does not make them one")
	require.Equal(t, []string{"related knows stays"}, relations(t, s, ns, "related"))
	require.Equal(t, []string{"g4"}, mergeIDs(t, s, ns, ""))
	require.ElementsMatch(t, []string{"related", "stays"}, similarIDs(similar(t, s, ns, "person", "e", 0, 1, 0)))
	require.Equal(t, 2, contents(t, s, key).Mentions)
	require.Equal(t, "Zoe Lee", entity(t, s, "other", "by-name").Name)
}

func testForgottenPages(t *testing.T, s whole) {
	const n = 2*store.MaxEntityPage + 1
	for first := 0; first < n; first += store.MaxFound {
		var found store.EntitiesFound
		for i := first; i < min(first+store.MaxFound, n); i++ {
			found.New = append(found.New, newEntity(fmt.Sprintf("e%04d", i), []string{"Zoe", "Bob"}[i%2]))
		}
		endExtraction(t, s, ns, fmt.Sprint("x", first), found)
	}
	forgotten, err := s.ForgetEntities(t.Context(), ns, func(name string) bool { return name == "Zoe" })
	require.NoError(t, err)
	require.Equal(t, n/2+1, forgotten)
	left, err := s.EntitiesNamed(t.Context(), ns, []string{"Zoe", "Bob"})
	require.NoError(t, err)
	require.Len(t, left, n/2)
	for _, e := range left {
		require.Equal(t, "Bob", e.Name)
	}
}

func testForgottenAtOnce(t *testing.T, s whole) {
	var ids []string
	for n := range resolvers {
		for i := range 10 {
			ids = append(ids, fmt.Sprint("change", n, "-", i))
		}
	}
	errs := atOnce(func(n int) error {
		for i := range 10 {
			if err := changeEntities(t.Context(), s, []string{"a", "b", "c", "d"}, n, i); err != nil {
				return err
			}
			if err := s.ForgetMessages(t.Context(), key, ids[(n*10+i*7)%len(ids)], ids[(n*3+i)%len(ids)]); err != nil {
				return err
			}
			if _, err := s.ForgetEntities(t.Context(), ns, func(name string) bool { return i%5 == 2 && name == "b" }); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	all, err := s.Entities(t.Context(), ns, store.EntityPage{})
	require.NoError(t, err)
	for _, one := range all {
		require.Len(t, mentionsOf(t, s, ns, one.ID), one.Mentions)
	}
	require.NoError(t, s.ForgetMessages(t.Context(), key, ids...))
	require.Zero(t, contents(t, s, key).Mentions)
	require.Zero(t, contents(t, s, key).Extractions)
	_, err = s.ForgetEntities(t.Context(), ns, func(string) bool { return true })
	require.NoError(t, err)
	require.Empty(t, entityIDs(t, s, ns, store.EntityPage{}))
	require.Empty(t, mergesOf(t, s, ns, ""))
}
