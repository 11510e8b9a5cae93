package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// agents are the tests of [store.Agents].
var agents = []suiteTest{
	{"S4-108 agents are saved and loaded", testAgentRoundTrip},
	{"agent versions are appended, and stay", testAgentVersions},
	{"agent versions have bounds", testAgentVersionBounds},
	{"agent saved behind another version is a conflict", testAgentConflict},
	{"agent names do not differ by case", testAgentNames},
	{"agent is deleted, and made again", testAgentDeleted},
	{"agents are listed as they are now", testAgentList},
	{"S4-07 agent changes in the order of seq", testAgentChanges},
	{"appends tell the newest agent change", testAgentChangeOfAppends},
	{"agents of namespaces keep apart", testAgentNamespaces},
	{"agent that cannot be stored is refused", testAgentRefused},
	{"agent saved with an ended context is not stored", testAgentEndedContext},
	{"agents of a closed store", testAgentClosed},
	{"agents saved at once leave no gap that a reader sees", func(t *testing.T, s whole) { RunSharedAgents(t, s) }},
}

const ns = "default"

func definition(text string) store.AgentVersion {
	return store.AgentVersion{Name: "clerk", Definition: json.RawMessage(fmt.Sprintf("{\"name\": \"clerk\",\n\t\"instructions\": %q}", text)), By: "ann"}
}

func saveAgent(t *testing.T, s whole, namespace string, v store.AgentVersion, after int) store.AgentVersion {
	t.Helper()
	saved, err := s.SaveAgent(t.Context(), namespace, v, after)
	require.NoError(t, err)
	return saved
}

func changesOf(t *testing.T, s whole, namespace string, after int64, limit int) []store.AgentChange {
	t.Helper()
	changes, err := s.AgentChanges(t.Context(), namespace, after, limit)
	require.NoError(t, err)
	return changes
}

func testAgentRoundTrip(t *testing.T, s whole) {
	_, err := s.Agent(t.Context(), ns, "clerk")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorContains(t, err, "clerk")
	before := time.Now().Add(-time.Minute)

	given := definition("Be brief. \U0001F9F5 \u00e9")
	given.Version, given.Seq, given.At, given.Change = 7, 7, start, store.AgentDeleted
	saved := saveAgent(t, s, ns, given, 0)
	require.Equal(t, "clerk", saved.Name)
	require.Equal(t, 1, saved.Version, "the store counts, whatever it is given")
	require.EqualValues(t, 1, saved.Seq)
	require.Equal(t, store.AgentCreated, saved.Change)
	require.Equal(t, "ann", saved.By)
	require.False(t, saved.Deleted)
	require.Equal(t, string(given.Definition), string(saved.Definition), "to the byte")
	require.Equal(t, time.UTC, saved.At.Location())
	require.WithinRange(t, saved.At, before, time.Now().Add(time.Minute))

	found, err := s.Agent(t.Context(), ns, "clerk")
	require.NoError(t, err)
	require.Equal(t, saved, found, "what a save returns is what is found")
}

func testAgentVersions(t *testing.T, s whole) {
	first := saveAgent(t, s, ns, definition("one"), 0)
	second := saveAgent(t, s, ns, definition("two"), 1)
	third := saveAgent(t, s, ns, definition("three"), -1)
	require.Equal(t, 3, third.Version, "a negative after appends in any case")
	require.Equal(t, store.AgentUpdated, third.Change)
	require.False(t, third.At.Before(second.At))

	all, err := s.AgentVersions(t.Context(), ns, "clerk", 0, 0)
	require.NoError(t, err)
	require.Equal(t, []store.AgentVersion{third, second, first}, all)
	some, err := s.AgentVersions(t.Context(), ns, "clerk", 3, 1)
	require.NoError(t, err)
	require.Equal(t, []store.AgentVersion{second}, some)
	none, err := s.AgentVersions(t.Context(), ns, "clerk", 1, 0)
	require.NoError(t, err)
	require.Empty(t, none)
	none, err = s.AgentVersions(t.Context(), ns, "nobody", 0, 0)
	require.NoError(t, err)
	require.Empty(t, none)
}

func testAgentVersionBounds(t *testing.T, s whole) {
	const total = store.MaxAgentVersions + 1
	for i := range total {
		saveAgent(t, s, ns, definition(fmt.Sprint(i)), i)
	}
	for limit, want := range map[int]int{
		0: store.DefaultAgentVersions, -1: store.DefaultAgentVersions, 3: 3, total: store.MaxAgentVersions,
	} {
		page, err := s.AgentVersions(t.Context(), ns, "clerk", 0, limit)
		require.NoError(t, err)
		require.Len(t, page, want, "limit %d", limit)
		require.Equal(t, total, page[0].Version)
	}
	page, err := s.AgentVersions(t.Context(), ns, "clerk", math.MaxInt, 1)
	require.NoError(t, err, "no version is as large as that, which is no mistake")
	require.Len(t, page, 1)
	require.Equal(t, total, page[0].Version)
	require.Len(t, changesOf(t, s, ns, 0, store.MaxLimit+1), total)
}

func testAgentConflict(t *testing.T, s whole) {
	_, err := s.SaveAgent(t.Context(), ns, definition("one"), 1)
	require.ErrorIs(t, err, store.ErrConflict, "there is no version 1")
	saveAgent(t, s, ns, definition("one"), 0)
	for _, after := range []int{0, 2} {
		_, err = s.SaveAgent(t.Context(), ns, definition("two"), after)
		require.ErrorIs(t, err, store.ErrConflict, "after %d", after)
		var conflict *store.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, store.ConflictError{Name: "clerk", After: after, Newest: 1}, *conflict)
	}
	_, err = s.SaveAgent(t.Context(), ns, store.AgentVersion{Name: "clerk", Deleted: true}, 2)
	require.ErrorIs(t, err, store.ErrConflict)
	require.Len(t, changesOf(t, s, ns, 0, 0), 1, "what was refused has left nothing")
}

func testAgentNames(t *testing.T, s whole) {
	first := definition("one")
	first.Name = "Clerk-\u017fk\u00e9"
	saveAgent(t, s, ns, first, 0)
	second := definition("two")
	second.Name = "CLERK-S\u212a\u00c9" // a Kelvin sign, and the capitals of a long s and of é
	saved := saveAgent(t, s, ns, second, 1)
	require.Equal(t, second.Name, saved.Name, "a version has the name as it was given")
	for _, name := range []string{first.Name, second.Name, "clerk-sk\u00e9"} {
		require.True(t, strings.EqualFold(first.Name, name))
		found, err := s.Agent(t.Context(), ns, name)
		require.NoError(t, err, name)
		require.Equal(t, saved, found)
		all, err := s.AgentVersions(t.Context(), ns, name, 0, 0)
		require.NoError(t, err)
		require.Len(t, all, 2)
	}
	for _, name := range []string{"clerk-ske", "clerk", "", "clerk-sk\u00e9\x00", "clerk-sk\xff"} {
		_, err := s.Agent(t.Context(), ns, name)
		require.ErrorIs(t, err, store.ErrNotFound, "%q", name)
		found, err := s.AgentVersions(t.Context(), ns, name, 0, 0)
		require.NoError(t, err)
		require.Empty(t, found)
	}
}

func testAgentDeleted(t *testing.T, s whole) {
	remove := store.AgentVersion{Name: "CLERK", Deleted: true, By: "bob"}
	_, err := s.SaveAgent(t.Context(), ns, remove, -1)
	require.ErrorIs(t, err, store.ErrNotFound)

	saveAgent(t, s, ns, definition("one"), 0)
	gone := saveAgent(t, s, ns, remove, 1)
	require.Equal(t, 2, gone.Version)
	require.Equal(t, "clerk", gone.Name, "it has the name that it had")
	require.Equal(t, store.AgentDeleted, gone.Change)
	require.True(t, gone.Deleted)
	require.Nil(t, gone.Definition)
	found, err := s.Agent(t.Context(), ns, "clerk")
	require.NoError(t, err)
	require.Equal(t, gone, found)
	_, err = s.SaveAgent(t.Context(), ns, remove, 2)
	require.ErrorIs(t, err, store.ErrNotFound, "it is deleted once")

	_, err = s.SaveAgent(t.Context(), ns, definition("again"), 0)
	require.ErrorIs(t, err, store.ErrConflict, "versions are counted on")
	again := saveAgent(t, s, ns, definition("again"), 2)
	require.Equal(t, 3, again.Version)
	require.Equal(t, store.AgentCreated, again.Change)
	all, err := s.AgentVersions(t.Context(), ns, "clerk", 0, 0)
	require.NoError(t, err)
	require.Len(t, all, 3, "the history stays")
	require.Equal(t, gone, all[1])
}

func testAgentList(t *testing.T, s whole) {
	none, err := s.Agents(t.Context(), ns, "", 0)
	require.NoError(t, err)
	require.Empty(t, none)
	var want []store.AgentVersion
	for _, name := range []string{"writer", "Critic", "planner", "zoe"} {
		v := definition(name)
		v.Name = name
		saveAgent(t, s, ns, v, 0)
		want = append(want, saveAgent(t, s, ns, v, 1))
	}
	saveAgent(t, s, ns, store.AgentVersion{Name: "planner", Deleted: true}, 2)
	all, err := s.Agents(t.Context(), ns, "", 0)
	require.NoError(t, err)
	require.Equal(t, []store.AgentVersion{want[1], want[0], want[3]}, all)

	var paged []store.AgentVersion
	for after := ""; ; after = strings.ToUpper(paged[len(paged)-1].Name) {
		page, err := s.Agents(t.Context(), ns, after, 2)
		require.NoError(t, err)
		paged = append(paged, page...)
		if len(page) < 2 {
			break
		}
	}
	require.Equal(t, all, paged)
	for i := range store.MaxAgents {
		v := definition("one of many")
		v.Name = fmt.Sprint("many", i)
		saveAgent(t, s, ns, v, 0)
	}
	all, err = s.Agents(t.Context(), ns, "", store.MaxAgents+1)
	require.NoError(t, err)
	require.Len(t, all, store.MaxAgents)
}

func testAgentChanges(t *testing.T, s whole) {
	require.Empty(t, changesOf(t, s, ns, 0, 0))
	made := saveAgent(t, s, ns, definition("one"), 0)
	saveAgent(t, s, ns, definition("two"), 1)
	other := definition("other")
	other.Name, other.By = "other", "carl"
	saveAgent(t, s, ns, other, 0)
	saveAgent(t, s, ns, store.AgentVersion{Name: "Clerk", Deleted: true, By: "bob"}, 2)
	back := saveAgent(t, s, ns, definition("back"), 3)

	all := changesOf(t, s, ns, 0, 0)
	for i := range all {
		require.False(t, i > 0 && all[i].At.Before(all[i-1].At), "time goes on")
	}
	require.Equal(t, []store.AgentChange{
		{Seq: 1, Type: store.AgentCreated, Name: "clerk", Version: 1, By: "ann", At: made.At},
		{Seq: 2, Type: store.AgentUpdated, Name: "clerk", Version: 2, By: "ann", At: all[1].At},
		{Seq: 3, Type: store.AgentCreated, Name: "other", Version: 1, By: "carl", At: all[2].At},
		{Seq: 4, Type: store.AgentDeleted, Name: "clerk", Version: 3, By: "bob", At: all[3].At},
		{Seq: 5, Type: store.AgentCreated, Name: "clerk", Version: 4, By: "ann", At: back.At},
	}, all)
	require.Equal(t, all[1:3], changesOf(t, s, ns, 1, 2))
	require.Empty(t, changesOf(t, s, ns, 5, 0))
	require.Empty(t, changesOf(t, s, "other", 0, 0))
}

func testAgentChangeOfAppends(t *testing.T, s whole) {
	deleted := store.AgentVersion{Name: "clerk", Deleted: true}
	for n, change := range []func() store.AgentVersion{
		func() store.AgentVersion { return store.AgentVersion{} },
		func() store.AgentVersion { return saveAgent(t, s, key.Namespace, definition("one"), -1) },
		func() store.AgentVersion { return saveAgent(t, s, key.Namespace, definition("two"), -1) },
		func() store.AgentVersion { return saveAgent(t, s, key.Namespace, deleted, -1) },
	} {
		want := change().Seq
		require.Equal(t, want, int64(n))
		saveAgent(t, s, "other", definition("other"), -1)
		thread := store.Key{Namespace: key.Namespace, ThreadID: fmt.Sprint("t", n)}
		log := toolLog("call")
		for _, batch := range []store.Batch{{}, {}, {Records: records("a")}, {Records: records("a")}, {ToolStart: &log}} {
			require.Equal(t, want, add(t, s, thread, batch).AgentChange)
		}
	}
}

func testAgentNamespaces(t *testing.T, s whole) {
	saveAgent(t, s, "here", definition("one"), 0)
	saveAgent(t, s, "here", definition("two"), 1)
	_, err := s.Agent(t.Context(), "there", "clerk")
	require.ErrorIs(t, err, store.ErrNotFound)
	all, err := s.Agents(t.Context(), "there", "", 0)
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = s.SaveAgent(t.Context(), "there", store.AgentVersion{Name: "clerk", Deleted: true}, -1)
	require.ErrorIs(t, err, store.ErrNotFound)

	v := saveAgent(t, s, "there", definition("another"), 0)
	require.Equal(t, 1, v.Version)
	require.EqualValues(t, 1, v.Seq, "each namespace counts for itself")
	require.Len(t, changesOf(t, s, "here", 0, 0), 2)
	found, err := s.Agent(t.Context(), "here", "clerk")
	require.NoError(t, err)
	require.Contains(t, string(found.Definition), "two")
	for _, unstorable := range []string{"a\x00", "\xff"} {
		_, err = s.Agent(t.Context(), unstorable, "clerk")
		require.ErrorIs(t, err, store.ErrNotFound)
		for _, place := range [][2]string{{unstorable, ""}, {"here", unstorable}} {
			all, err = s.Agents(t.Context(), place[0], place[1], 0)
			require.NoError(t, err)
			require.Empty(t, all)
		}
		require.Empty(t, changesOf(t, s, unstorable, 0, 0))
	}
}

func testAgentRefused(t *testing.T, s whole) {
	with := func(change func(v *store.AgentVersion)) store.AgentVersion {
		v := definition("one")
		change(&v)
		return v
	}
	large := strings.Repeat("x", store.MaxAgentDefinition-2)
	for name, test := range map[string]struct {
		namespace string
		v         store.AgentVersion
		want      string
	}{
		"no namespace":       {"", definition("one"), "namespace"},
		"no name":            {ns, with(func(v *store.AgentVersion) { v.Name = "" }), "name"},
		"name with NUL":      {ns, with(func(v *store.AgentVersion) { v.Name = "a\x00" }), "name"},
		"by not text":        {ns, with(func(v *store.AgentVersion) { v.By = "\xff" }), "by"},
		"no definition":      {ns, with(func(v *store.AgentVersion) { v.Definition = nil }), "definition"},
		"not JSON":           {ns, with(func(v *store.AgentVersion) { v.Definition = json.RawMessage("{") }), "definition"},
		"too large":          {ns, with(func(v *store.AgentVersion) { v.Definition = json.RawMessage(`"` + large + `x"`) }), "at most 262144"},
		"deleted, but there": {ns, with(func(v *store.AgentVersion) { v.Deleted = true }), "definition"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.SaveAgent(t.Context(), test.namespace, test.v, -1)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, test.want)
			require.Empty(t, changesOf(t, s, ns, 0, 0))
		})
	}
	largest := with(func(v *store.AgentVersion) { v.Definition = json.RawMessage(`"` + large + `"`) })
	require.Len(t, saveAgent(t, s, ns, largest, 0).Definition, store.MaxAgentDefinition)
}

func testAgentEndedContext(t *testing.T, s whole) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.SaveAgent(ctx, ns, definition("one"), 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Agent(t.Context(), ns, "clerk")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func testAgentClosed(t *testing.T, s whole) {
	saveAgent(t, s, ns, definition("one"), 0)
	require.NoError(t, s.Close())
	_, err := s.SaveAgent(t.Context(), ns, definition("two"), 1)
	require.ErrorContains(t, err, "clerk")
	_, err = s.Agent(t.Context(), ns, "clerk")
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound, "it may well be there")
	_, err = s.Agents(t.Context(), ns, "", 0)
	require.ErrorContains(t, err, ns)
	_, err = s.AgentVersions(t.Context(), ns, "clerk", 0, 0)
	require.ErrorContains(t, err, "clerk")
	_, err = s.AgentChanges(t.Context(), ns, 0, 0)
	require.ErrorContains(t, err, ns)
}

// RunSharedAgents saves agents from many goroutines through all of stores, which share their data.
// Of concurrent changes of one version one succeeds, and readers of the changes see no gap.
func RunSharedAgents(t *testing.T, stores ...whole) {
	const total = appenders * rounds
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, appenders+len(stores))
	var running sync.WaitGroup
	for n := range appenders {
		running.Go(func() { errs <- saveRounds(ctx, stores[n%len(stores)], n) })
	}
	seen := make([][]store.AgentChange, len(stores))
	for n, s := range stores {
		running.Go(func() {
			var err error
			seen[n], err = followAgents(ctx, s, total)
			errs <- err
		})
	}
	for range appenders + len(stores) {
		if err := <-errs; err != nil {
			cancel()
			running.Wait()
			require.NoError(t, err)
		}
	}
	all := changesOf(t, stores[0], ns, 0, 0)
	require.Len(t, all, total)
	for _, changes := range seen {
		require.Equal(t, all, changes, "a reader that follows has seen exactly what is there")
	}
	versions := map[string][]int{}
	for _, c := range all {
		versions[c.Name] = append(versions[c.Name], c.Version)
	}
	require.Len(t, versions, 2)
	for name, counted := range versions {
		require.Len(t, counted, total/2, name)
		require.True(t, slices.IsSorted(counted), "%s: versions follow each other: %v", name, counted)
		require.Equal(t, total/2, counted[len(counted)-1], name)
	}
}

// saveRounds reads and changes one of two agents, n times.
func saveRounds(ctx context.Context, s whole, n int) error {
	name := []string{"even", "odd"}[n%2]
	for done := 0; done < rounds; {
		newest, err := s.Agent(ctx, ns, name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		v := store.AgentVersion{Name: name, Definition: json.RawMessage(fmt.Sprint(n)), By: "worker"}
		_, err = s.SaveAgent(ctx, ns, v, newest.Version)
		switch {
		case err == nil:
			done++
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	return nil
}

// followAgents reads changes until it has total.
func followAgents(ctx context.Context, s whole, total int) ([]store.AgentChange, error) {
	var all []store.AgentChange
	for len(all) < total {
		next, err := s.AgentChanges(ctx, ns, int64(len(all)), 7)
		if err != nil {
			return nil, err
		}
		for _, c := range next {
			all = append(all, c)
			if c.Seq != int64(len(all)) {
				return nil, fmt.Errorf("seq %d comes at place %d", c.Seq, len(all))
			}
		}
	}
	return all, nil
}
