package storetest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

func testMergeChain(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 2, "c": 4, "d": 1})
	b := entity(t, e, ns, "b")
	first := merge(t, e, ns, merging("ab", "a", "b", start))
	require.Equal(t, store.EntityMerge{
		ID: "ab", From: "a", FromName: "Name a", Into: "b", IntoName: "Name b", By: "ann", At: stamped(start),
	}, first)
	withA := entity(t, e, ns, "b")
	b.Mentions, b.Aliases, b.Descriptions = 3, []string{"Name a"}, withA.Descriptions
	require.Equal(t, b, withA)
	require.ElementsMatch(t, []string{"about a", "about b"}, withA.Descriptions)
	merge(t, e, ns, merging("bc", "b", "c", minute(1)))
	c := entity(t, e, ns, "c")
	require.Equal(t, "Name c", c.Name)
	require.Equal(t, []string{"Name a", "Name b"}, c.Aliases)
	require.Equal(t, 7, c.Mentions)
	require.Equal(t, minute(4), c.MentionedAt)
	for _, id := range []string{"a", "b"} {
		require.Equal(t, c, entity(t, e, ns, id), "the root of %s", id)
		require.Equal(t, mentionsOf(t, e, ns, "c"), mentionsOf(t, e, ns, id))
	}
	require.ElementsMatch(t, []string{"c-04", "c-03", "c-02", "b-02", "a-01", "b-01", "c-01"}, sources(mentionsOf(t, e, ns, "c")))
	require.Equal(t, "a", mentionsOf(t, e, ns, "c")[4].EntityID, "a mention stays that of its entity")
	require.Equal(t, []string{"c 7", "d 1"}, entityIDs(t, e, ns, store.EntityPage{}))

	undone := undo(t, e, ns, "bc", "bob")
	require.Equal(t, "bob", undone.UndoneBy)
	require.WithinRange(t, undone.UndoneAt, time.Now().Add(-time.Minute), time.Now().Add(time.Minute))
	require.Equal(t, time.UTC, undone.UndoneAt.Location())
	require.Equal(t, withA, entity(t, e, ns, "b"), "b is a root again, with a in it")
	require.Equal(t, withA, entity(t, e, ns, "a"))
	require.Equal(t, []string{"c 4", "b 3", "d 1"}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Len(t, mentionsOf(t, e, ns, "c"), 4)
	require.Equal(t, undone, undo(t, e, ns, "bc", "somebody else"), "it was undone")
	require.Equal(t, undone, mergesOf(t, e, ns, "c")[0])
	require.Equal(t, withA, entity(t, e, ns, "b"))

	undo(t, e, ns, "ab", "bob")
	require.Equal(t, []string{"c 4", "b 2", "a 1", "d 1"}, entityIDs(t, e, ns, store.EntityPage{}))
}

// testMergeAgain: what is undone within a chain takes along what was merged into it.
func testMergeAgain(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 2, "c": 3, "d": 4})
	merge(t, e, ns, merging("ab", "a", "b", minute(1)))
	merge(t, e, ns, merging("bc", "b", "c", minute(2)))
	merge(t, e, ns, merging("cd", "c", "d", minute(3)))
	require.Equal(t, []string{"d 10"}, entityIDs(t, e, ns, store.EntityPage{}))
	undo(t, e, ns, "bc", "ann")
	require.Equal(t, []string{"d 7", "b 3"}, entityIDs(t, e, ns, store.EntityPage{}), "from within the chain")
	require.Equal(t, "b", entity(t, e, ns, "a").ID)
	require.Equal(t, "d", entity(t, e, ns, "c").ID)

	again := merge(t, e, ns, merging("bc2", "b", "d", minute(4)))
	require.Empty(t, again.UndoneBy)
	require.Equal(t, []string{"d 10"}, entityIDs(t, e, ns, store.EntityPage{}))
	undo(t, e, ns, "bc", "ann")
	require.Equal(t, []string{"d 10"}, entityIDs(t, e, ns, store.EntityPage{}), "it is the other merge that holds")
	undo(t, e, ns, "ab", "ann")
	require.Equal(t, []string{"d 9", "a 1"}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Equal(t, []string{"bc2", "cd", "bc", "ab"}, mergeIDs(t, e, ns, "d"))
	undo(t, e, ns, "cd", "ann")
	undo(t, e, ns, "bc2", "ann")
	require.Equal(t, []string{"d 4", "c 3", "b 2", "a 1"}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Equal(t, "d", merge(t, e, ns, merging("da", "d", "a", minute(5))).From, "the other way round")
	require.Equal(t, "a", entity(t, e, ns, "d").ID)
}

func testMergeRefused(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 2, "c": 3})
	done := merge(t, e, ns, merging("ab", "a", "b", noon))
	for name, test := range map[string]struct {
		merge store.EntityMerge
		want  error
	}{
		"from a merged one":    {merging("x", "a", "c", noon), store.ErrNotFound},
		"into a merged one":    {merging("x", "c", "a", noon), store.ErrNotFound},
		"back":                 {merging("x", "b", "a", noon), store.ErrNotFound},
		"from nothing":         {merging("x", "none", "c", noon), store.ErrNotFound},
		"into nothing":         {merging("x", "c", "none", noon), store.ErrNotFound},
		"into itself":          {merging("x", "c", "c", noon), store.ErrInvalid},
		"nothing into itself":  {merging("x", "none", "none", noon), store.ErrInvalid},
		"without an id":        {merging("", "b", "c", noon), store.ErrInvalid},
		"with an odd id":       {merging("\x00", "b", "c", noon), store.ErrInvalid},
		"with another's id":    {merging("ab", "b", "c", noon), store.ErrInvalid},
		"from an odd entity":   {merging("x", "b\xff", "c", noon), store.ErrInvalid},
		"into an odd entity":   {merging("x", "b", "\x00", noon), store.ErrInvalid},
		"without an entity":    {merging("x", "", "c", noon), store.ErrInvalid},
		"into without a value": {merging("x", "c", "", noon), store.ErrInvalid},
	} {
		got, err := e.MergeEntities(t.Context(), ns, test.merge)
		require.ErrorIs(t, err, test.want, name)
		require.Zero(t, got, name)
	}
	require.Equal(t, []string{"b 3", "c 3"}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Equal(t, []store.EntityMerge{done}, mergesOf(t, e, ns, ""))
	require.Equal(t, done, merge(t, e, ns, merging("ab", "a", "b", minute(9))), "a retry finds what was done")
	_, err := e.UndoMerge(t.Context(), ns, "none", "ann")
	require.ErrorIs(t, err, store.ErrNotFound)
	undone := undo(t, e, ns, "ab", "ann")
	require.Equal(t, undone, merge(t, e, ns, merging("ab", "a", "b", minute(9))), "a retry after it was undone")
	require.Equal(t, []string{"c 3", "b 2", "a 1"}, entityIDs(t, e, ns, store.EntityPage{}))
	odd := merging("nan", "a", "b", noon)
	odd.Similarity = math.NaN()
	require.Zero(t, merge(t, e, ns, odd).Similarity)
}

func testMergeFound(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"old": 2})
	threshold := merging("m1", "new", "old", noon)
	threshold.By, threshold.Similarity = "threshold", 0.75
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New:      []store.NewEntity{newEntity("new", "New"), newEntity("newer", "Newer")},
		Mentions: []store.Mention{mention("new", "m", minute(9)), mention("newer", "m", minute(8))},
		Merges:   []store.EntityMerge{threshold, merging("m2", "newer", "new", noon)},
	})
	old := entity(t, e, ns, "newer")
	require.Equal(t, "old", old.ID, "into what was merged in the same call")
	require.Equal(t, 4, old.Mentions)
	require.Equal(t, minute(9), old.MentionedAt)
	require.Equal(t, []string{"New", "Newer"}, old.Aliases)
	done := mergesOf(t, e, ns, "old")
	require.Equal(t, []string{"m1", "m2"}, mergeIDs(t, e, ns, "old"))
	require.Equal(t, "threshold", done[0].By)
	require.InDelta(t, 0.75, done[0].Similarity, 1e-9)
	require.Equal(t, "old", done[1].Into, "the root of what it names")
	require.Equal(t, []string{"old 4"}, entityIDs(t, e, ns, store.EntityPage{}))
	undo(t, e, ns, "m1", "ann")
	require.Equal(t, []string{"old 3", "new 1"}, entityIDs(t, e, ns, store.EntityPage{}))
}

func testMergeFoundLate(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 2, "c": 3})
	merge(t, e, ns, merging("ab", "a", "b", noon))
	endExtraction(t, e, ns, "x", store.EntitiesFound{New: []store.NewEntity{newEntity("n", "N")}, Merges: []store.EntityMerge{
		merging("1", "a", "c", noon),  // a is no root any more
		merging("2", "b", "a", noon),  // they have the same root
		merging("3", "n", "a", noon),  // the root of a is b
		merging("4", "n", "c", noon),  // n is no root any more
		merging("ab", "c", "b", noon), // the id exists
	}})
	require.Equal(t, []string{"b 3", "c 3"}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Equal(t, []string{"3", "ab"}, mergeIDs(t, e, ns, ""))
	require.Equal(t, "b", mergesOf(t, e, ns, "b")[0].Into)
}

func testMergeList(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 2, "c": 3, "d": 4})
	merge(t, e, ns, merging("ab", "a", "b", minute(1)))
	merge(t, e, ns, merging("cd", "c", "d", minute(2)))
	merge(t, e, ns, merging("bd", "b", "d", minute(3)))
	require.Equal(t, []string{"bd", "cd", "ab"}, mergeIDs(t, e, ns, ""), "the newest first")
	require.Equal(t, []string{"bd", "cd", "ab"}, mergeIDs(t, e, ns, "d"))
	require.Equal(t, []string{"bd", "cd", "ab"}, mergeIDs(t, e, ns, "a"), "those of its root")
	undo(t, e, ns, "bd", "ann")
	require.Equal(t, []string{"bd", "cd"}, mergeIDs(t, e, ns, "d"), "undone ones too")
	require.Equal(t, []string{"bd", "ab"}, mergeIDs(t, e, ns, "b"))
	require.Equal(t, []string{"bd", "cd", "ab"}, mergeIDs(t, e, ns, ""))
	require.Empty(t, mergeIDs(t, e, ns, "none"))
	for i := range store.MaxEntityPage + 5 {
		id := "again" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		merge(t, e, ns, merging(id, "b", "d", minute(10)))
		undo(t, e, ns, id, "ann")
	}
	require.Len(t, mergeIDs(t, e, ns, ""), store.MaxEntityPage)
	require.Len(t, mergeIDs(t, e, ns, "d"), store.MaxEntityPage)
	require.True(t, slices.IsSorted(mergeIDs(t, e, ns, "")), "those of one time are in the order of their ids")
}

func testMergeMentions(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 1})
	merge(t, e, ns, merging("ab", "a", "b", noon))
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		Mentions:  []store.Mention{mention("a", "m", minute(7)), mention("b", "m", minute(6)), mention("a", "a-01", minute(9))},
		Described: map[string]string{"a": "more of a", "b": "more of b"},
	})
	b := entity(t, e, ns, "b")
	require.Equal(t, 4, b.Mentions, "each entity has a mention of its own")
	require.Equal(t, minute(7), b.MentionedAt)
	require.ElementsMatch(t, []string{"about a", "about b", "more of a", "more of b"}, b.Descriptions)
	require.Equal(t, []string{"b 4"}, entityIDs(t, e, ns, store.EntityPage{}))
	undo(t, e, ns, "ab", "ann")
	require.Equal(t, []string{"a 2", "b 2"}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Equal(t, minute(6), entity(t, e, ns, "b").MentionedAt)
	require.Equal(t, []string{"about a", "more of a"}, entity(t, e, ns, "a").Descriptions)
}
