package knowledge

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestEntitiesCorrected: people see what was found, merge and undo by API and CLI, and agents are told what follows from it.
func TestEntitiesCorrected(t *testing.T) {
	t.Parallel()
	for _, b := range []int{0, 3} { // SQLite, PostgreSQL
		t.Run(check.Backends[b].Name, func(t *testing.T) {
			t.Parallel()
			entitiesCorrected(t, harness.New(t, friends(check.Backends[b].Options)))
		})
	}
}

func entitiesCorrected(t *testing.T, w *harness.Harness) {
	starterAt := func(url, namespace string, args ...string) (code int, out, errs string) {
		var stdout, stderr strings.Builder
		code = cli.Run(w.Ctx(), append(args, "--api", url, "--namespace", namespace), strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	starter := func(t *testing.T, args ...string) string {
		t.Helper()
		code, out, errs := starterAt(w.API.URL, w.TaskQueue, args...)
		require.Zero(t, code, errs)
		return out
	}
	client, err := api.New(api.Config{Base: w.API.URL})
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, w.Say(w.Open("friend"), "I talked to Sarah from Acme").Status)
	require.Equal(t, signals.TurnCompleted, w.Say(w.Open("friend"), "Bob is new").Status)
	all := awaitEntities(w)
	sarah, bob := all["Sarah"], all["Bob"]

	t.Run("S2-66 what was found is listed and shown", func(t *testing.T) {
		require.Regexp(t, `(?s)NAME +TYPE +MENTIONS.*Acme +organization +1`, starter(t, "entities", "list"))
		people := starter(t, "entities", "list", "--type", "person")
		require.Contains(t, people, "Sarah")
		require.NotContains(t, people, "Acme")
		shown := starter(t, "entities", "show", "sarah")
		require.Contains(t, shown, "works at Acme")
		require.Contains(t, shown, "I talked to Sarah from Acme")
		code, _, errs := starterAt(w.API.URL, w.TaskQueue, "entities", "show", "nobody")
		require.NotZero(t, code)
		require.Contains(t, errs, `there is no entity "nobody"`)
	})
	t.Run("a merge by a person is recorded, undone, and counts on the next turn", func(t *testing.T) {
		var merge store.EntityMerge
		require.NoError(t, json.Unmarshal([]byte(starter(t, "entities", "merge", "Bob", sarah.ID, "--by", "ann", "--json")), &merge))
		require.Equal(t, "ann", merge.By)
		require.Contains(t, starter(t, "entities", "show", "Bob"), "name      Sarah")
		for _, merged := range []string{"Bob", bob.ID} {
			code, _, errs := starterAt(w.API.URL, w.TaskQueue, "entities", "remove", merged)
			require.NotZero(t, code)
			require.Contains(t, errs, "was merged into Sarah", "whoever removes a name removes no other one")
		}
		require.Regexp(t, `Bob +Sarah .*ann`, starter(t, "entities", "merges"))
		w.T = t
		w.Say(w.Open("friend"), "Where is Bob?")
		require.Contains(t, askedOf(w, "Where is Bob?"), "works at Acme", "the next turn is told what is known of both")

		require.Contains(t, starter(t, "entities", "undo", merge.ID, "--by", "eve"), "the merge of Bob into Sarah is undone")
		require.Contains(t, starter(t, "entities", "merges"), "by eve")
		awaitEntities(w)
		w.Say(w.Open("friend"), "Is Bob in?")
		require.NotContains(t, askedOf(w, "Is Bob in?"), "works at Acme")
		again, err := client.UndoMerge(w.Ctx(), merge.ID, "joe")
		require.NoError(t, err)
		require.Equal(t, "eve", again.UndoneBy, "undoing twice changes nothing")
		_, err = client.MergeEntity(w.Ctx(), bob.ID, bob.ID, "ann")
		require.ErrorContains(t, err, "body.into: is the entity itself")
		require.Equal(t, 1, strings.Count(err.Error(), "body.into"), "a problem is told once")
		require.Contains(t, starter(t, "entities", "merge", "bob", bob.ID, "--by", "ann"), "one entity already")
		code, _, errs := starterAt(w.API.URL, w.TaskQueue, "entities", "undo", "none")
		require.NotZero(t, code)
		require.Contains(t, errs, `there is no merge "none"`)
	})
	t.Run("S2-62 another namespace sees and changes nothing", func(t *testing.T) {
		other := w.TaskQueue + "-other"
		beside := httptest.NewServer(harness.API(t, w.Beside(func(cfg *threadmill.Config) { cfg.Namespace = other })))
		defer beside.Close()
		foreign, err := api.New(api.Config{Base: beside.URL})
		require.NoError(t, err)
		list, err := foreign.Entities(w.Ctx(), api.EntityQuery{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list)
		merges, err := foreign.EntityMerges(w.Ctx())
		require.NoError(t, err)
		require.Empty(t, merges)
		known, err := client.EntityMerges(w.Ctx())
		require.NoError(t, err)
		for _, try := range []func() error{
			func() error { _, err := foreign.Entity(w.Ctx(), sarah.ID); return err },
			func() error { _, err := foreign.Mentions(w.Ctx(), sarah.ID, 10); return err },
			func() error { _, err := foreign.MergeEntity(w.Ctx(), bob.ID, sarah.ID, "eve"); return err },
			func() error { _, err := foreign.UndoMerge(w.Ctx(), known[0].ID, "eve"); return err },
			func() error { return foreign.DeleteEntity(w.Ctx(), sarah.ID) },
		} {
			err := try()
			require.True(t, api.IsNotFound(err), err)
		}
	})
	t.Run("a name that too many others contain is asked for by its id", func(t *testing.T) {
		for i := range 3 {
			x := store.Extraction{ID: fmt.Sprint("crowd", i), ThreadID: "crowd", EventID: "e", SourceType: "mail", SourceID: fmt.Sprint(i)}
			var found store.EntitiesFound
			for n := range store.MaxFound {
				found.New = append(found.New, store.NewEntity{ID: fmt.Sprintf("crowd-%d-%d", i, n), Name: fmt.Sprintf("Crowd %d %d", i, n), Type: "person"})
			}
			require.NoError(t, w.Store.QueueExtraction(w.Ctx(), w.TaskQueue, x))
			_, err := w.Store.EndExtraction(w.Ctx(), w.TaskQueue, x.ID, found)
			require.NoError(t, err)
		}
		code, _, errs := starterAt(w.API.URL, w.TaskQueue, "entities", "show", "crowd")
		require.NotZero(t, code)
		require.Contains(t, errs, "use the id")
	})
	t.Run("what is removed is found anew", func(t *testing.T) {
		awaitEntities(w) // what was asked of Bob before is one of his mentions, too
		require.Contains(t, starter(t, "entities", "remove", "Bob"), "Bob removed")
		code, _, _ := starterAt(w.API.URL, w.TaskQueue, "entities", "show", "Bob")
		require.NotZero(t, code)
		w.T = t
		w.Say(w.Open("friend"), "Bob is back")
		require.Equal(t, 1, awaitEntities(w)["Bob"].Mentions)
	})
}
