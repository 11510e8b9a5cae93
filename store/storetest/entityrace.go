package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// resolvers is how many goroutines change entities at once.
const resolvers = 4

// atOnce runs a step in each of the resolvers at once, and returns their errors.
func atOnce(step func(n int) error) []error {
	errs := make([]error, resolvers)
	var running sync.WaitGroup
	for n := range resolvers {
		running.Go(func() { errs[n] = step(n) })
	}
	running.Wait()
	return errs
}

func isOne(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

func testEndedAtOnce(t *testing.T, e store.Entities) { endAtOnce(t, e, e) }

func endAtOnce(t *testing.T, stores ...store.Entities) {
	e := stores[0]
	for round := range 5 {
		id := fmt.Sprint("x", round)
		queueExtraction(t, e, ns, extraction(id, noon))
		won := make([]bool, resolvers)
		errs := atOnce(func(n int) (err error) {
			own := fmt.Sprint("of", round, "-", n)
			won[n], err = stores[n%len(stores)].EndExtraction(t.Context(), ns, id, store.EntitiesFound{
				New:      []store.NewEntity{newEntity("shared", "Shared"), newEntity(own, own)},
				Mentions: []store.Mention{mention("shared", id, minute(n)), mention(own, id, noon)},
			})
			return err
		})
		require.NoError(t, errors.Join(errs...))
		all := entityIDs(t, e, ns, store.EntityPage{})
		require.Len(t, all, round+2, "one of them has added what it found")
		require.Contains(t, all, fmt.Sprint("shared ", round+1))
		count := 0
		for n, ended := range won {
			if ended {
				count++
				require.Equal(t, 1, entity(t, e, ns, fmt.Sprint("of", round, "-", n)).Mentions)
			}
		}
		require.Equal(t, 1, count)
	}
	require.Empty(t, queued(t, e, ns))
}

func testMentionsAtOnce(t *testing.T, e store.Entities) {
	const each = 10
	meet(t, e, ns, map[string]int{"a": 0, "b": 0})
	merge(t, e, ns, merging("ab", "a", "b", noon))
	errs := atOnce(func(n int) error {
		for i := range each {
			id := fmt.Sprint(n, "-", i)
			if err := e.QueueExtraction(t.Context(), ns, extraction(id, noon)); err != nil {
				return err
			}
			first, second := "a", "b"
			if n%2 == 0 {
				first, second = second, first
			}
			_, err := e.EndExtraction(t.Context(), ns, id, store.EntitiesFound{
				Mentions:  []store.Mention{mention(first, id, minute(i)), mention(second, id, minute(n))},
				Described: map[string]string{"a": fmt.Sprint("text ", n)},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	b := entity(t, e, ns, "b")
	require.Equal(t, 2*each*resolvers, b.Mentions)
	require.Equal(t, []string{fmt.Sprint("b ", 2*each*resolvers)}, entityIDs(t, e, ns, store.EntityPage{}))
	require.Len(t, mentionsOf(t, e, ns, "b"), 2*each*resolvers)
	require.Equal(t, minute(each-1), b.MentionedAt)
	require.Len(t, b.Descriptions, 2+resolvers)
}

func testMergesAtOnce(t *testing.T, e store.Entities) { mergeAtOnce(t, e, e) }

func mergeAtOnce(t *testing.T, stores ...store.Entities) {
	e := stores[0]
	for round := range 10 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		endExtraction(t, e, ns, a, store.EntitiesFound{
			New: []store.NewEntity{newEntity(a, a), newEntity(b, b)}, Mentions: []store.Mention{mention(a, "m", noon), mention(b, "m", noon)},
		})
		errs := atOnce(func(n int) error {
			m := merging(fmt.Sprint(round, "-", n), a, b, noon)
			if n%2 == 1 {
				m.From, m.Into = b, a
			}
			_, err := stores[n%len(stores)].MergeEntities(t.Context(), ns, m)
			return err
		})
		won := slices.Index(errs, nil)
		require.NotEqual(t, -1, won, "%v", errs)
		for n, err := range errs {
			require.True(t, n == won || refused(err), "%d: %v", n, err)
		}
		root := entity(t, e, ns, a)
		require.Equal(t, root, entity(t, e, ns, b))
		require.Equal(t, 2, root.Mentions)
		require.Equal(t, map[int]string{0: b, 1: a}[won%2], root.ID)
		require.Len(t, mergeIDs(t, e, ns, a), 1)
		undo(t, e, ns, fmt.Sprint(round, "-", won), "ann")
		require.Equal(t, 1, entity(t, e, ns, a).Mentions)
		require.Equal(t, 1, entity(t, e, ns, b).Mentions)
		require.NoError(t, e.DeleteEntity(t.Context(), ns, a))
		require.NoError(t, e.DeleteEntity(t.Context(), ns, b))
	}
}

// testChangesAtOnce: whatever happens to a few entities at once, their counts agree in the end, and no merge is left halfway.
func testChangesAtOnce(t *testing.T, e store.Entities) { changeAtOnce(t, e, e) }

// RunSharedEntities changes entities through stores that share their data.
func RunSharedEntities(t *testing.T, stores ...whole) {
	all := make([]store.Entities, len(stores))
	for i, s := range stores {
		all[i] = s
	}
	endAtOnce(t, all...)
	for _, one := range entityIDs(t, all[0], ns, store.EntityPage{}) {
		var id string
		_, err := fmt.Sscan(one, &id)
		require.NoError(t, err)
		require.NoError(t, all[0].DeleteEntity(t.Context(), ns, id))
	}
	mergeAtOnce(t, all...)
	changeAtOnce(t, all...)
}

func changeAtOnce(t *testing.T, stores ...store.Entities) {
	e, names := stores[0], []string{"a", "b", "c", "d"}
	ctx := t.Context()
	errs := atOnce(func(n int) error {
		for i := range 15 {
			if err := changeEntities(ctx, stores[n%len(stores)], names, n, i); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	for _, m := range mergesOf(t, e, ns, "") {
		undo(t, e, ns, m.ID, "ann")
	}
	all, err := e.Entities(ctx, ns, store.EntityPage{})
	require.NoError(t, err)
	for _, one := range all {
		require.Empty(t, one.Aliases)
		found := mentionsOf(t, e, ns, one.ID)
		require.Len(t, found, one.Mentions)
		for _, m := range found {
			require.Equal(t, one.ID, m.EntityID)
		}
	}
	require.True(t, slices.IsSortedFunc(all, func(a, b store.Entity) int { return b.Mentions - a.Mentions }), "the order agrees with the counts")
}

func changeEntities(ctx context.Context, e store.Entities, names []string, n, i int) error {
	one, other, id := names[(n+i)%4], names[(2*n+3*i+1)%4], fmt.Sprint("change", n, "-", i)
	if err := e.QueueExtraction(ctx, ns, extraction(id, noon)); err != nil {
		return err
	}
	_, err := e.EndExtraction(ctx, ns, id, store.EntitiesFound{
		New:       []store.NewEntity{newEntity(one, one), newEntity(other, other)},
		Mentions:  []store.Mention{mention(other, id, minute(i)), mention(one, id, minute(i))},
		Relations: []store.Relation{{From: one, To: other, Type: "knows"}},
	})
	if err != nil {
		return err
	}
	if one != other {
		if _, err := e.MergeEntities(ctx, ns, merging(id, one, other, noon)); err != nil && !refused(err) {
			return err
		}
	}
	switch i % 5 {
	case 1, 3:
		_, err = e.UndoMerge(ctx, ns, fmt.Sprint("change", (n+1)%resolvers, "-", i-1), "ann")
	case 4:
		err = e.DeleteEntity(ctx, ns, other)
	}
	if err != nil && !refused(err) {
		return err
	}
	return nil
}

func testExtractionsAppendedAtOnce(t *testing.T, s whole) {
	texts := make([]store.Extraction, 10)
	for i := range texts {
		texts[i] = extraction(fmt.Sprint("x", i), minute(i))
	}
	errs := atOnce(func(n int) error {
		given := slices.Clone(texts)
		if n%2 == 1 {
			slices.Reverse(given)
		}
		k := store.Key{Namespace: ns, ThreadID: fmt.Sprint("t", n)}
		for i := range 5 {
			batch := store.Batch{Records: records(fmt.Sprint("r", i)), Extract: given}
			if _, err := s.Append(t.Context(), k, batch); err != nil {
				return err
			}
			if _, err := s.EndExtraction(t.Context(), ns, fmt.Sprint("x", i), store.EntitiesFound{}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []string{"x5", "x6", "x7", "x8", "x9"}, queued(t, s, ns))
}
