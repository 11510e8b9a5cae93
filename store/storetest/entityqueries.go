package storetest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

func testEntityPages(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 2, "b": 5, "c": 2, "d": 2, "e": 0, "B": 2, "z": 1})
	want := []string{"b 5", "B 2", "a 2", "c 2", "d 2", "z 1", "e 0"}
	require.Equal(t, want, entityIDs(t, e, ns, store.EntityPage{}))
	for size := 1; size <= len(want); size++ {
		var got []string
		page := store.EntityPage{Limit: size}
		for {
			found, err := e.Entities(t.Context(), ns, page)
			require.NoError(t, err)
			if len(found) == 0 {
				break
			}
			require.LessOrEqual(t, len(found), size)
			got = append(got, counted(found)...)
			last := found[len(found)-1]
			page.AfterMentions, page.AfterID = last.Mentions, last.ID
		}
		require.Equal(t, want, got, "in pages of %d", size)
	}
	merge(t, e, ns, merging("m", "b", "a", noon))
	require.Equal(t, []string{"d 2", "z 1", "e 0"}, entityIDs(t, e, ns, store.EntityPage{AfterMentions: 2, AfterID: "c"}))
	require.Equal(t, []string{"a 7", "B 2"}, entityIDs(t, e, ns, store.EntityPage{Limit: 2}))
	require.Equal(t, []string{"e 0"}, entityIDs(t, e, ns, store.EntityPage{AfterMentions: 0, AfterID: "d"}))
}

func testEntityLimits(t *testing.T, e store.Entities) {
	names := make([]string, 0, store.MaxEntityPage+10)
	for call := range 3 {
		var found store.EntitiesFound
		for i := range 70 {
			id := fmt.Sprintf("e%d-%03d", call, i)
			one := newEntity(id, id)
			one.Embedder, one.Vector = embedder, []float32{1, float32(i)}
			found.New, names = append(found.New, one), append(names, id)
			if i > 0 {
				found.Relations = append(found.Relations, store.Relation{From: "e0-000", To: id, Type: "knows"})
			}
		}
		for i := range 100 {
			found.Mentions = append(found.Mentions, mention("e0-000", fmt.Sprint("m", call, "-", i), minute(i)))
		}
		endExtraction(t, e, ns, fmt.Sprint("x", call), found)
	}
	for limit, want := range map[int]int{0: store.DefaultEntityPage, -1: store.DefaultEntityPage, 3: 3, 1000: store.MaxEntityPage} {
		require.Len(t, entityIDs(t, e, ns, store.EntityPage{Limit: limit}), want)
		found, err := e.Mentions(t.Context(), ns, "e0-000", store.MentionPage{Limit: limit})
		require.NoError(t, err)
		require.Len(t, found, want)
		require.Len(t, similar(t, e, ns, "person", embedder, limit, 1, 1), want)
	}
	require.Len(t, named(t, e, ns, names...), store.MaxEntityPage)
	require.Len(t, relations(t, e, ns, "e0-000"), store.MaxEntityPage)
}

func testEntitySearch(t *testing.T, e store.Entities) {
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New: []store.NewEntity{
			{ID: "1", Name: "Acme Corp", Type: "Organization"},
			{ID: "2", Name: "Ann", Type: "person"},
			{ID: "3", Name: "50%_a\\b", Type: "thing"},
			{ID: "4", Name: "ACME Limited", Type: "organization"},
		},
		Mentions: []store.Mention{mention("4", "m", noon)},
	})
	for search, want := range map[string][]string{
		"acme": {"4 1", "1 0"}, "ACME": {"4 1", "1 0"}, "corp": {"1 0"}, "n": {"2 0"}, "": {"4 1", "1 0", "2 0", "3 0"},
		"%": {"3 0"}, "_": {"3 0"}, "\\": {"3 0"}, "0%_a\\b": {"3 0"}, "none": {}, "\x00": {}, "\xff": {}, "acme corporation": {},
	} {
		require.Equal(t, want, entityIDs(t, e, ns, store.EntityPage{Search: search}), "%q", search)
	}
	require.Equal(t, []string{"4 1", "1 0"}, entityIDs(t, e, ns, store.EntityPage{Type: "ORGANIZATION "}))
	require.Equal(t, []string{"1 0"}, entityIDs(t, e, ns, store.EntityPage{Type: "organization", Search: "corp"}))
	require.Equal(t, []string{"1 0"}, entityIDs(t, e, ns, store.EntityPage{Type: "organization", AfterMentions: 1, AfterID: "4"}))
	require.Empty(t, entityIDs(t, e, ns, store.EntityPage{Type: "person", Search: "corp"}))
	require.Empty(t, entityIDs(t, e, ns, store.EntityPage{Type: "org"}))

	merge(t, e, ns, merging("m", "1", "4", noon))
	require.Equal(t, []string{"4 1"}, entityIDs(t, e, ns, store.EntityPage{Search: "corp"}), "by an alias")
	require.Equal(t, []string{"4 1"}, entityIDs(t, e, ns, store.EntityPage{Search: "acme"}), "once")
	merge(t, e, ns, merging("m2", "2", "4", noon))
	require.Empty(t, entityIDs(t, e, ns, store.EntityPage{Type: "person"}), "the type is that of the root")
}

func testEntitiesNamed(t *testing.T, e store.Entities) {
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New: []store.NewEntity{
			{ID: "1", Name: "ΣΊΣΥΦΟΣ", Type: "person"},
			{ID: "2", Name: "Ann", Type: "person"},
			{ID: "3", Name: "ANN", Type: "company"},
			{ID: "4", Name: "Kelvin", Type: "unit"},
			{ID: "5", Name: "Anne", Type: "person"},
		},
		Mentions: []store.Mention{mention("3", "m", noon)},
	})
	require.Equal(t, []string{"3 1", "2 0"}, named(t, e, ns, "ann"), "those with the most mentions first")
	require.Equal(t, []string{"3 1", "2 0"}, named(t, e, ns, " aNN ", "ANN"))
	require.Equal(t, []string{"1 0"}, named(t, e, ns, "σίσυφος"))
	require.Equal(t, []string{"4 0"}, named(t, e, ns, "\u212Aelvin"), "the sign of kelvin is a k")
	require.Equal(t, []string{"1 0", "4 0", "5 0"}, named(t, e, ns, "none", "anne", "ΣΊΣΥΦΟς", "KELVIN"))
	for _, names := range [][]string{nil, {""}, {"an"}, {"ann%"}, {"\x00", "\xff"}} {
		require.Empty(t, named(t, e, ns, names...))
	}
	merge(t, e, ns, merging("m", "2", "5", noon))
	require.Equal(t, []string{"3 1", "5 0"}, named(t, e, ns, "ann"), "by an alias")
	require.Equal(t, []string{"5 0"}, named(t, e, ns, "anne"))
	merge(t, e, ns, merging("m2", "3", "5", noon))
	require.Equal(t, []string{"5 1"}, named(t, e, ns, "ann", "anne"), "once")
	found := entity(t, e, ns, "5")
	require.Equal(t, []string{"Ann", "ANN"}, found.Aliases)
	endExtraction(t, e, ns, "y", store.EntitiesFound{
		New:    []store.NewEntity{newEntity("6", "Anne"), newEntity("7", "Ann")},
		Merges: []store.EntityMerge{merging("m3", "6", "5", noon), merging("m4", "7", "5", noon)},
	})
	require.Equal(t, []string{"Ann", "ANN"}, entity(t, e, ns, "5").Aliases, "names that differ, each once")
}

func testMentionPages(t *testing.T, e store.Entities) {
	document := mention("a", "m2", minute(2))
	document.SourceType = "document"
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New: []store.NewEntity{newEntity("a", "A"), newEntity("b", "B"), newEntity("c", "C")},
		Mentions: []store.Mention{
			mention("a", "m1", minute(1)), mention("a", "m2", minute(2)), document, mention("a", "m3", minute(2)),
			mention("b", "m2", minute(2)), mention("b", "m4", minute(3)), mention("c", "m5", minute(9)),
		},
		Merges: []store.EntityMerge{merging("m", "a", "b", noon)},
	})
	all := mentionsOf(t, e, ns, "b")
	require.Equal(t, []string{"m4", "m2", "m2", "m2", "m3", "m1"}, sources(all))
	require.Equal(t, document, all[1], "of one time, in the order of source types, sources and entities")
	require.Equal(t, "a", all[2].EntityID)
	require.Equal(t, "b", all[3].EntityID)
	for size := 1; size <= len(all); size++ {
		var got []store.Mention
		page := store.MentionPage{Limit: size}
		for {
			found, err := e.Mentions(t.Context(), ns, "a", page)
			require.NoError(t, err)
			if len(found) == 0 {
				break
			}
			require.LessOrEqual(t, len(found), size)
			got = append(got, found...)
			last := found[len(found)-1]
			page.BeforeAt, page.BeforeSourceType = last.At, last.SourceType
			page.BeforeSourceID, page.BeforeEntity, page.BeforeThread = last.SourceID, last.EntityID, last.ThreadID
		}
		require.Equal(t, all, got, "in pages of %d", size)
	}
	require.Empty(t, mentionsOf(t, e, ns, "none"))
	older, err := e.Mentions(t.Context(), ns, "b", store.MentionPage{BeforeAt: minute(2), BeforeSourceType: "\x00", BeforeSourceID: "\xff"})
	require.NoError(t, err)
	require.LessOrEqual(t, len(older), len(all))
}

func testRelations(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1})
	at := func(from, typ, to string, n int) store.Relation {
		return store.Relation{From: from, To: to, Type: typ, Reason: from + to, At: minute(n)}
	}
	endExtraction(t, e, ns, "x", store.EntitiesFound{Relations: []store.Relation{
		at("a", "knows", "b", 1), at("b", "knows", "a", 2), at("a", "likes", "c", 3), at("d", "likes", "a", 4), at("b", "knows", "c", 5),
	}})
	require.Equal(t, []string{"d likes a", "a likes c", "b knows a", "a knows b"}, relations(t, e, ns, "a"), "the newest first")
	require.Equal(t, []string{"d likes a"}, relations(t, e, ns, "d"))
	merge(t, e, ns, merging("ab", "a", "b", noon))
	require.Equal(t, []string{"b knows c", "d likes b", "b likes c"}, relations(t, e, ns, "b"), "of roots, and not to itself")
	require.Equal(t, relations(t, e, ns, "b"), relations(t, e, ns, "a"))
	found, err := e.Relations(t.Context(), ns, "c")
	require.NoError(t, err)
	require.Equal(t, store.Relation{
		From: "b", FromName: "Name b", To: "c", ToName: "Name c", Type: "likes", Reason: "ac", At: minute(3),
	}, found[1])
	merge(t, e, ns, merging("cd", "c", "d", noon))
	merge(t, e, ns, merging("bd", "b", "d", noon))
	require.Empty(t, relations(t, e, ns, "d"))
	undo(t, e, ns, "bd", "ann")
	undo(t, e, ns, "cd", "ann")
	undo(t, e, ns, "ab", "ann")
	require.Len(t, relations(t, e, ns, "a"), 4)
	require.Empty(t, relations(t, e, ns, "none"))
}

func vectorEntity(id, typ, embedder string, vector ...float32) store.NewEntity {
	return store.NewEntity{ID: id, Name: "Name " + id, Type: typ, Description: "about " + id, Embedder: embedder, Vector: vector}
}

func testSimilar(t *testing.T, e store.Entities) {
	endExtraction(t, e, ns, "x", store.EntitiesFound{New: []store.NewEntity{
		vectorEntity("same", "person", embedder, 2, 0), vectorEntity("near", "person", embedder, 1, 1), vectorEntity("far", "person", embedder, -1, 0),
		vectorEntity("across", "person", embedder, 0, 1), vectorEntity("also", "person", embedder, 1, 1),
		vectorEntity("typed", "thing", embedder, 1, 0), vectorEntity("model", "person", "other/model", 1, 0),
		vectorEntity("long", "person", embedder, 1, 0, 0), newEntity("none", "None"),
	}})
	found := similar(t, e, ns, "Person", embedder, 10, 5, 0)
	require.Equal(t, []string{"same", "also", "near", "across", "far"}, similarIDs(found))
	for i, want := range []float64{1, math.Sqrt2 / 2, math.Sqrt2 / 2, 0, -1} {
		require.InDelta(t, want, found[i].Similarity, 1e-6)
	}
	found[0].Similarity = 1
	require.Equal(t, store.SimilarEntity{
		ID: "same", Name: "Name same", Root: "same", RootName: "Name same", Descriptions: []string{"about same"}, Similarity: 1,
	}, found[0])
	require.Equal(t, []string{"same", "also"}, similarIDs(similar(t, e, ns, "person", embedder, 2, 5, 0)))
	require.Equal(t, []string{"far"}, similarIDs(similar(t, e, ns, "person", embedder, 1, -1, 0.1)))
	require.Equal(t, []string{"typed"}, similarIDs(similar(t, e, ns, "thing", embedder, 10, 1, 0)))
	require.Equal(t, []string{"model"}, similarIDs(similar(t, e, ns, "person", "other/model", 10, 1, 0)))
	require.Equal(t, []string{"long"}, similarIDs(similar(t, e, ns, "person", embedder, 10, 1, 0, 0)), "of its dimension")
	require.Empty(t, similar(t, e, ns, "person", "none", 10, 1, 0))
	require.Empty(t, similar(t, e, ns, "none", embedder, 10, 1, 0))
	require.Empty(t, similar(t, e, ns, "person", embedder, 10, 1, 0, 0, 0))
}

func testSimilarRoots(t *testing.T, e store.Entities) {
	endExtraction(t, e, ns, "x", store.EntitiesFound{New: []store.NewEntity{
		vectorEntity("a", "person", embedder, 1, 0), vectorEntity("b", "person", embedder, 0, 1), vectorEntity("c", "thing", embedder, 1, 1),
	}})
	merge(t, e, ns, merging("ab", "a", "b", noon))
	merge(t, e, ns, merging("bc", "b", "c", noon))
	found := similar(t, e, ns, "person", embedder, 1, 1, 0)
	require.Len(t, found, 1)
	require.Equal(t, entity(t, e, ns, "c").Descriptions, found[0].Descriptions)
	found[0].Descriptions = nil
	require.Equal(t, store.SimilarEntity{ID: "a", Name: "Name a", Root: "c", RootName: "Name c", Similarity: 1}, found[0])
	undo(t, e, ns, "bc", "ann")
	found = similar(t, e, ns, "person", embedder, 5, 0, 1)
	require.Equal(t, []string{"b", "a"}, similarIDs(found))
	require.Equal(t, "b", found[1].Root)
}

func testSimilarVectors(t *testing.T, e store.Entities) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	endExtraction(t, e, ns, "x", store.EntitiesFound{New: []store.NewEntity{
		vectorEntity("zero", "person", embedder, 0, 0), vectorEntity("nan", "person", embedder, nan, 1), vectorEntity("inf", "person", embedder, inf, 1),
		vectorEntity("large", "person", embedder, math.MaxFloat32, 0), vectorEntity("small", "person", embedder, 0, math.SmallestNonzeroFloat32),
	}})
	require.Equal(t, "Name zero", entity(t, e, ns, "zero").Name, "it is stored without a vector")
	found := similar(t, e, ns, "person", embedder, 9, 1e-30, 0)
	require.Equal(t, []string{"large", "small"}, similarIDs(found))
	require.InDelta(t, 1, found[0].Similarity, 1e-6)
	require.InDelta(t, 0, found[1].Similarity, 1e-6)
	for _, vector := range [][]float32{nil, {0, 0}, {nan, 1}, {inf, 0}} {
		require.Empty(t, similar(t, e, ns, "person", embedder, 9, vector...))
	}
}

// without are the ids of entities whose names have no vector of an embedder.
func without(t *testing.T, e store.Entities, namespace, embedder, after string, limit int) []string {
	t.Helper()
	found, err := e.EntitiesWithout(t.Context(), namespace, embedder, after, limit)
	require.NoError(t, err)
	ids := []string{}
	for _, v := range found {
		require.Equal(t, store.EntityVector{ID: v.ID, Name: "Name " + v.ID}, v)
		ids = append(ids, v.ID)
	}
	return ids
}

func testEntityVectors(t *testing.T, e store.Entities) {
	endExtraction(t, e, ns, "x", store.EntitiesFound{New: []store.NewEntity{
		vectorEntity("a", "person", embedder, 1, 0), vectorEntity("b", "person", embedder, 0, 1), vectorEntity("c", "thing", ""),
		vectorEntity("d", "person", embedder, 0, 0),
	}})
	endExtraction(t, e, "n2", "x", store.EntitiesFound{New: []store.NewEntity{vectorEntity("a", "person", embedder, 1, 0)}})
	merge(t, e, ns, merging("ab", "a", "b", noon))
	in, err := e.EntityNamespaces(t.Context())
	require.NoError(t, err)
	require.Subset(t, in, []string{ns, "n2"})
	require.IsIncreasing(t, in)

	const newer = "newer/model"
	require.Equal(t, []string{"c"}, without(t, e, ns, embedder, "", 0), "one without a direction counts")
	require.Equal(t, []string{"a", "b", "c", "d"}, without(t, e, ns, newer, "", 0), "merged ones too")
	require.Equal(t, []string{"b", "c"}, without(t, e, ns, newer, "a", 2))
	add := func(vectors ...store.EntityVector) {
		t.Helper()
		require.NoError(t, e.AddEntityVectors(t.Context(), ns, newer, vectors))
	}
	add()
	add(store.EntityVector{ID: "a", Vector: []float32{0, 0, 3}}, store.EntityVector{ID: "none", Vector: []float32{1}}, store.EntityVector{ID: "d", Vector: []float32{0}})
	require.Equal(t, []string{"b", "c"}, without(t, e, ns, newer, "", 0))
	require.Equal(t, []string{"a"}, similarIDs(similar(t, e, ns, "person", newer, 9, 0, 0, 1)))
	require.Equal(t, []string{"a", "b"}, similarIDs(similar(t, e, ns, "person", embedder, 9, 1, 0)), "those of before serve")
	add(store.EntityVector{ID: "a", Vector: []float32{1, 0, 0}}, store.EntityVector{ID: "b", Vector: []float32{1, 0, 0}}, store.EntityVector{ID: "c", Vector: []float32{1, 0, 0}})
	require.InDelta(t, 0, similar(t, e, ns, "person", newer, 9, 1, 0, 0)[1].Similarity, 1e-6, "the first one stays")
	require.Empty(t, without(t, e, ns, newer, "", 0))

	for range 2 {
		require.NoError(t, e.DropEntityVectors(t.Context(), ns, newer))
	}
	require.Empty(t, similar(t, e, ns, "person", embedder, 9, 1, 0))
	require.Equal(t, []string{"b", "a"}, similarIDs(similar(t, e, ns, "person", newer, 9, 1, 0, 0)))
	require.Equal(t, []string{"c"}, similarIDs(similar(t, e, ns, "thing", newer, 9, 1, 0, 0)))
	require.Equal(t, []string{"a"}, similarIDs(similar(t, e, "n2", "person", embedder, 9, 1, 0)), "namespaces keep apart")
	require.NoError(t, e.DeleteEntity(t.Context(), ns, "b"))
	require.Empty(t, similar(t, e, ns, "person", newer, 9, 1, 0, 0))
	require.Equal(t, []string{"c", "d"}, without(t, e, ns, embedder, "", 0))
}

func testEntityVectorsRefused(t *testing.T, e store.Entities) {
	endExtraction(t, e, ns, "x", store.EntitiesFound{New: []store.NewEntity{vectorEntity("a", "person", "")}})
	good := store.EntityVector{ID: "a", Vector: []float32{1}}
	for name, add := range map[string]func() error{
		"without an embedder": func() error { return e.AddEntityVectors(t.Context(), ns, "", []store.EntityVector{good}) },
		"an odd embedder":     func() error { return e.AddEntityVectors(t.Context(), ns, "a\x00", []store.EntityVector{good}) },
		"an odd namespace":    func() error { return e.AddEntityVectors(t.Context(), "a\xff", embedder, []store.EntityVector{good}) },
		"an odd id": func() error {
			return e.AddEntityVectors(t.Context(), ns, embedder, []store.EntityVector{good, {ID: "a\x00"}})
		},
		"too long": func() error {
			return e.AddEntityVectors(t.Context(), ns, embedder, []store.EntityVector{good, {ID: "b", Vector: make([]float32, store.MaxKnowledgeDimension+1)}})
		},
		"too many": func() error {
			return e.AddEntityVectors(t.Context(), ns, embedder, make([]store.EntityVector, store.MaxEntityPage+1))
		},
	} {
		require.ErrorIs(t, add(), store.ErrInvalid, name)
	}
	require.Equal(t, []string{"a"}, without(t, e, ns, embedder, "", 0))
	for _, odd := range []string{"a\x00", "\xff"} {
		require.Empty(t, without(t, e, odd, embedder, "", 0))
		require.NoError(t, e.DropEntityVectors(t.Context(), odd, embedder))
	}
}

// populate stores two entities, one of them merged, with mentions, relations and merges; and queues an extraction.
func populate(t *testing.T, e store.Entities, namespace string) {
	t.Helper()
	endExtraction(t, e, namespace, "done", store.EntitiesFound{
		New: []store.NewEntity{
			vectorEntity("a", "person", embedder, 1, 0), vectorEntity("b", "person", embedder, 1, 1), vectorEntity("c", "person", embedder, 0, 1),
		},
		Mentions:  []store.Mention{mention("a", "m", noon), mention("b", "m", noon), mention("c", "m", noon)},
		Relations: []store.Relation{{From: "a", To: "c", Type: "knows", At: noon}, {From: "c", To: "b", Type: "knows", At: noon}},
		Merges:    []store.EntityMerge{merging("ab", "a", "b", noon)},
	})
	merge(t, e, namespace, merging("cb", "c", "b", noon))
	undo(t, e, namespace, "cb", "ann")
	queueExtraction(t, e, namespace, extraction("open", noon))
}

// requireEntityless checks that a namespace has no entity with one of these ids, and nothing of them.
func requireEntityless(t *testing.T, e store.Entities, namespace string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		requireNoEntity(t, e, namespace, id)
		require.Empty(t, mentionsOf(t, e, namespace, id))
		require.Empty(t, relations(t, e, namespace, id))
		if id != "" {
			require.Empty(t, mergeIDs(t, e, namespace, id))
		}
		require.ErrorIs(t, e.DeleteEntity(t.Context(), namespace, id), store.ErrNotFound)
		_, err := e.MergeEntities(t.Context(), namespace, merging("new", id, "x", noon))
		require.True(t, refused(err), "%v", err)
		require.NotContains(t, named(t, e, namespace, "Name "+id), id)
	}
}

func refused(err error) bool { return isOne(err, store.ErrNotFound, store.ErrInvalid) }

func testEntityDeleted(t *testing.T, e store.Entities) {
	populate(t, e, "other")
	populate(t, e, ns)
	require.Equal(t, []string{"b 2", "c 1"}, entityIDs(t, e, ns, store.EntityPage{}))
	c := entity(t, e, ns, "c")
	require.ErrorIs(t, e.DeleteEntity(t.Context(), ns, "a"), store.ErrNotFound, "it is no root")
	require.ErrorIs(t, e.DeleteEntity(t.Context(), ns, "none"), store.ErrNotFound)
	require.NoError(t, e.DeleteEntity(t.Context(), ns, "b"))
	requireEntityless(t, e, ns, "a", "b")
	require.Empty(t, mergeIDs(t, e, ns, ""), "undone merges too")
	require.Equal(t, c, entity(t, e, ns, "c"))
	require.Empty(t, relations(t, e, ns, "c"))
	require.Equal(t, []string{"c"}, similarIDs(similar(t, e, ns, "person", embedder, 9, 1, 0)))
	_, err := e.UndoMerge(t.Context(), ns, "ab", "ann")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, []string{"open"}, queued(t, e, ns))
	queueExtraction(t, e, ns, extraction("done", noon))
	require.Equal(t, []string{"open"}, queued(t, e, ns), "the ids of ended extractions stay")
	require.Equal(t, []string{"b 2", "c 1"}, entityIDs(t, e, "other", store.EntityPage{}))
	require.Len(t, mergeIDs(t, e, "other", "b"), 2)

	endExtraction(t, e, ns, "again", store.EntitiesFound{New: []store.NewEntity{newEntity("a", "A"), newEntity("b", "B")}})
	require.Zero(t, entity(t, e, ns, "a").Mentions, "it begins anew")
	require.Empty(t, entity(t, e, ns, "b").Aliases)
	require.Empty(t, mergeIDs(t, e, ns, ""), "nothing was left that would belong to it")
	for _, id := range []string{"a", "b"} {
		require.Empty(t, relations(t, e, ns, id))
		require.Empty(t, mentionsOf(t, e, ns, id))
	}
}

func testEntityNamespaces(t *testing.T, e store.Entities) {
	populate(t, e, ns)
	want := []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")}
	for _, other := range []string{"other", "Default", "defaul", "default ", "%"} {
		requireEntityless(t, e, other, "a", "b", "c")
		require.Empty(t, entityIDs(t, e, other, store.EntityPage{}))
		require.Empty(t, similar(t, e, other, "person", embedder, 9, 1, 0))
		require.Empty(t, mergeIDs(t, e, other, ""))
		require.Empty(t, queued(t, e, other))
		ended, err := e.EndExtraction(t.Context(), other, "open", store.EntitiesFound{})
		require.NoError(t, err)
		require.False(t, ended)
		for _, id := range []string{"ab", "cb"} {
			_, err = e.UndoMerge(t.Context(), other, id, "ann")
			require.ErrorIs(t, err, store.ErrNotFound)
		}
		queueExtraction(t, e, other, extraction("done", noon))
		require.Equal(t, []string{"done"}, queued(t, e, other), "ids are unique in a namespace")
		ended, err = e.EndExtraction(t.Context(), other, "done", store.EntitiesFound{
			New:       []store.NewEntity{newEntity("x", "X")},
			Mentions:  []store.Mention{mention("a", "m2", noon)},
			Relations: []store.Relation{{From: "a", To: "x", Type: "knows"}, {From: "x", To: "b", Type: "knows"}},
			Merges:    []store.EntityMerge{merging("1", "x", "b", noon), merging("2", "b", "x", noon)},
			Described: map[string]string{"a": "more"},
		})
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, []string{"x 0"}, entityIDs(t, e, other, store.EntityPage{}))
		require.Empty(t, relations(t, e, other, "x"))
		require.Empty(t, mergeIDs(t, e, other, ""))
		require.NoError(t, e.DeleteEntity(t.Context(), other, "x"))
	}
	require.Equal(t, want, []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")})
	require.Equal(t, []string{"ab", "cb"}, mergeIDs(t, e, ns, "b"))
	require.Len(t, relations(t, e, ns, "c"), 2)
	require.Equal(t, []string{"open"}, queued(t, e, ns))
	require.Equal(t, []string{ns}, extractionNamespaces(t, e))

	populate(t, e, "same ids")
	merge(t, e, "same ids", merging("bc", "b", "c", noon))
	require.NoError(t, e.DeleteEntity(t.Context(), "same ids", "c"))
	require.Equal(t, want, []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")})
	require.Len(t, mentionsOf(t, e, ns, "b"), 2)
}

func testEntityOddNames(t *testing.T, e store.Entities) {
	populate(t, e, ns)
	want := []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")}
	for _, odd := range []string{"", "\x00", "\xff", "a\x00", "b\xff", "a' OR '1'='1", "%"} {
		requireEntityless(t, e, ns, odd)
		requireEntityless(t, e, odd, "a", "b")
		require.Empty(t, entityIDs(t, e, odd, store.EntityPage{}))
		require.Empty(t, mergeIDs(t, e, odd, ""))
		require.Empty(t, similar(t, e, odd, "person", embedder, 9, 1, 0))
		require.Empty(t, similar(t, e, ns, odd, embedder, 9, 1, 0))
		require.Empty(t, similar(t, e, ns, "person", odd, 9, 1, 0))
		require.Empty(t, queued(t, e, odd))
		_, err := e.UndoMerge(t.Context(), ns, odd, "ann")
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = e.UndoMerge(t.Context(), odd, "ab", "ann")
		require.ErrorIs(t, err, store.ErrNotFound)
		for _, at := range [][2]string{{odd, "open"}, {ns, odd}} {
			ended, err := e.EndExtraction(t.Context(), at[0], at[1], store.EntitiesFound{New: []store.NewEntity{newEntity("x", "X")}})
			require.False(t, ended)
			require.True(t, err == nil || refused(err), "%v", err)
		}
		if odd != "" {
			_, err = e.Entities(t.Context(), ns, store.EntityPage{AfterID: odd})
			require.NoError(t, err)
			require.Empty(t, entityIDs(t, e, ns, store.EntityPage{Type: odd}))
		}
		if !store.Storable(odd) || odd == "" {
			x := extraction("x", noon)
			require.ErrorIs(t, e.QueueExtraction(t.Context(), odd, x), store.ErrInvalid)
			x.ID = odd
			require.ErrorIs(t, e.QueueExtraction(t.Context(), ns, x), store.ErrInvalid)
		}
	}
	undo(t, e, ns, "cb", "\x00\xff")
	require.Equal(t, "ann", mergesOf(t, e, ns, "c")[0].UndoneBy)
	undo(t, e, ns, "ab", "\x00\xff")
	require.Equal(t, "\uFFFD\uFFFD", mergesOf(t, e, ns, "a")[0].UndoneBy)
	merge(t, e, ns, merging("again", "a", "b", noon))
	require.Equal(t, want, []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")})
	require.Equal(t, []string{"open"}, queued(t, e, ns))
}

func testEntityEndedContext(t *testing.T, e store.Entities) {
	populate(t, e, ns)
	want := []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.EndExtraction(ended, ns, "open", store.EntitiesFound{Mentions: []store.Mention{mention("a", "m9", noon)}})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, e.QueueExtraction(ended, ns, extraction("late", noon)), context.Canceled)
	_, err = e.MergeEntities(ended, ns, merging("late", "c", "b", noon))
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.UndoMerge(ended, ns, "ab", "ann")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, e.DeleteEntity(ended, ns, "c"), context.Canceled)
	_, err = e.Entity(ended, ns, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Entities(ended, ns, store.EntityPage{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.EntitiesNamed(ended, ns, []string{"Name a"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.SimilarEntities(ended, ns, "person", embedder, []float32{1, 0}, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Mentions(ended, ns, "a", store.MentionPage{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Relations(ended, ns, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Merges(ended, ns, "")
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Extractions(ended, ns, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.ExtractionNamespaces(ended)
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.EntityNamespaces(ended)
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.EntitiesWithout(ended, ns, "other/model", "", 0)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, e.AddEntityVectors(ended, ns, embedder, []store.EntityVector{{ID: "a", Vector: []float32{1, 0}}}), context.Canceled)
	require.ErrorIs(t, e.DropEntityVectors(ended, ns, "other/model"), context.Canceled)
	require.Equal(t, want, []store.Entity{entity(t, e, ns, "a"), entity(t, e, ns, "c")})
	require.Equal(t, []string{"open"}, queued(t, e, ns))
}
