package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/store"
)

// mention stores entities that a message of a thread mentions, in a namespace.
func (w *world) mention(t *testing.T, namespace, thread string, entities ...store.NewEntity) {
	t.Helper()
	x := store.Extraction{ID: thread, ThreadID: thread, EventID: "e1", SourceType: "message", SourceID: "m-" + thread}
	require.NoError(t, w.store.QueueExtraction(w.ctx, namespace, x))
	found := store.EntitiesFound{New: entities}
	for _, e := range entities {
		found.Mentions = append(found.Mentions, store.Mention{
			EntityID: e.ID, Name: e.Name, ThreadID: thread, SourceType: x.SourceType, SourceID: x.SourceID, Text: e.Name + " was here.", At: time.Unix(1, 0),
		})
	}
	done, err := w.store.EndExtraction(w.ctx, namespace, x.ID, found)
	require.NoError(t, err)
	require.True(t, done)
}

func TestEntities(t *testing.T) {
	w := newWorld(t, withBadges)
	ann, operator := bearer("ann read"), bearer("olga operate")
	w.mention(t, "default", "t1", store.NewEntity{ID: "e-jane", Name: "Jane Doe", Type: "person", Description: "runs the mill"},
		store.NewEntity{ID: "e-jd", Name: "J. Doe", Type: "person"}, store.NewEntity{ID: "e-mill", Name: "The Mill", Type: "place"})
	w.mention(t, "default", "t2", store.NewEntity{ID: "e-jane", Name: "Jane Doe", Type: "person"})
	w.mention(t, "other", "t3", store.NewEntity{ID: "e-secret", Name: "Secret", Type: "person"})

	t.Run("list", func(t *testing.T) {
		page := w.call("GET", "/v1/entities?limit=2", nil, ann...).ok(t, http.StatusOK).body
		first := page["entities"].([]any)
		require.Len(t, first, 2)
		require.Equal(t, "Jane Doe", first[0].(object)["name"], "most mentions first")
		require.EqualValues(t, 2, first[0].(object)["mentions"])
		rest := w.call("GET", "/v1/entities?limit=2&cursor="+page["next"].(string), nil, ann...).ok(t, http.StatusOK).body
		require.Len(t, rest["entities"], 1)
		require.NotContains(t, rest, "next")
		require.NotContains(t, []any{first[0].(object)["id"], first[1].(object)["id"]}, rest["entities"].([]any)[0].(object)["id"])
		for query, count := range map[string]int{"type=place": 1, "search=DOE": 2, "search=secret": 0, "type=person&search=mill": 0} {
			require.Len(t, w.call("GET", "/v1/entities?"+query, nil, ann...).ok(t, http.StatusOK).body["entities"], count, query)
		}
		for _, bad := range []string{"cursor=x", "cursor=" + page["next"].(string) + "AAAA", "limit=0", "limit=201"} {
			w.call("GET", "/v1/entities?"+bad, nil, ann...).problem(t, http.StatusUnprocessableEntity)
		}
	})
	t.Run("mentions", func(t *testing.T) {
		page := w.call("GET", "/v1/entities/e-jane/mentions?limit=1", nil, ann...).ok(t, http.StatusOK).body
		next := w.call("GET", "/v1/entities/e-jane/mentions?limit=1&cursor="+page["next"].(string), nil, ann...).ok(t, http.StatusOK).body
		first, second := page["mentions"].([]any)[0].(object), next["mentions"].([]any)[0].(object)
		require.ElementsMatch(t, []any{"t1", "t2"}, []any{first["thread"], second["thread"]})
		require.Equal(t, "Jane Doe was here.", first["text"])
		w.call("GET", "/v1/entities/e-jane/mentions?cursor=x", nil, ann...).refused(t, http.StatusUnprocessableEntity, "next")
		w.call("GET", "/v1/entities/e-secret/mentions", nil, ann...).refused(t, http.StatusNotFound, `no entity "e-secret"`)
	})
	t.Run("merge and undo", func(t *testing.T) {
		merge := w.call("POST", "/v1/entities/e-jd/merge", object{"into": "e-jane"}, operator...).ok(t, http.StatusOK).body
		require.Equal(t, "olga", merge["by"])
		again := w.call("POST", "/v1/entities/e-jd/merge", object{"into": "e-jane"}, operator...).ok(t, http.StatusOK).body
		require.Equal(t, merge["id"], again["id"], "a request that is repeated changes nothing")
		w.call("POST", "/v1/entities/e-jane/merge", object{"into": "e-jd"}, operator...).refused(t, http.StatusUnprocessableEntity, "name another one")
		w.call("POST", "/v1/entities/e-jane/merge", object{"into": "e-secret"}, operator...).refused(t, http.StatusUnprocessableEntity, `no entity "e-secret"`)
		w.call("DELETE", "/v1/entities/e-jd", nil, operator...).refused(t, http.StatusConflict, "undo the merge")

		jane := w.call("GET", "/v1/entities/e-jd", nil, ann...).ok(t, http.StatusOK).body
		require.Equal(t, "e-jane", jane["id"], "a merged entity is the other one")
		require.Equal(t, []any{"J. Doe"}, jane["aliases"])
		require.EqualValues(t, 3, jane["mentions"])
		require.Equal(t, []any{}, jane["relations"])
		require.Len(t, jane["merges"], 1)

		path := "/v1/entity-merges/" + merge["id"].(string) + "/undo"
		undone := w.call("POST", path, nil, operator...).ok(t, http.StatusOK).body
		require.Equal(t, "olga", undone["undoneBy"])
		require.Equal(t, undone, w.call("POST", path, object{}, operator...).ok(t, http.StatusOK).body, "undoing twice changes nothing")
		require.Equal(t, "J. Doe", w.call("GET", "/v1/entities/e-jd", nil, ann...).ok(t, http.StatusOK).body["name"])
		require.NotEmpty(t, w.call("GET", "/v1/entity-merges", nil, ann...).ok(t, http.StatusOK).body["merges"].([]any)[0].(object)["undoneAt"])
		w.call("POST", "/v1/entity-merges/none/undo", nil, operator...).refused(t, http.StatusNotFound, `no merge "none"`)
		w.call("POST", "/v1/entities/e-jd/merge", object{"into": "e-jane", "by": "bob"}, operator...).refused(t, http.StatusForbidden, "olga")
	})
	t.Run("a merge before the newest 200", func(t *testing.T) {
		for i := range 3 {
			var crowd []store.NewEntity
			for n := range store.MaxFound {
				crowd = append(crowd, store.NewEntity{ID: fmt.Sprintf("c-%d-%d", i, n), Name: fmt.Sprintf("C %d %d", i, n), Type: "person"})
			}
			w.mention(t, "default", fmt.Sprintf("crowd-%d", i), crowd...)
			for _, e := range crowd {
				if e.ID == "c-0-0" {
					continue
				}
				_, err := w.store.MergeEntities(w.ctx, "default", store.EntityMerge{ID: "m-" + e.ID, From: e.ID, Into: "c-0-0", By: "ann", At: time.Unix(int64(i), 0)})
				require.NoError(t, err)
			}
		}
		w.call("POST", "/v1/entities/c-0-1/merge", object{"into": "c-0-0"}, operator...).refused(t, http.StatusConflict, "already")
		w.call("POST", "/v1/entities/c-2-1/merge", object{"into": "c-0-0"}, operator...).ok(t, http.StatusOK)
	})
	t.Run("delete", func(t *testing.T) {
		w.call("DELETE", "/v1/entities/e-mill", nil, operator...).ok(t, http.StatusNoContent)
		w.call("GET", "/v1/entities/e-mill", nil, ann...).problem(t, http.StatusNotFound)
		w.call("DELETE", "/v1/entities/e-mill", nil, operator...).refused(t, http.StatusNotFound, `no entity "e-mill"`)
		w.call("DELETE", "/v1/entities/e-secret", nil, operator...).problem(t, http.StatusNotFound)
		_, err := w.store.Entity(w.ctx, "other", "e-secret")
		require.NoError(t, err, "nothing of another namespace is deleted")
	})
}

// TestEntitiesWithoutKeys: without API keys, clients say who merges.
func TestEntitiesWithoutKeys(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.WithoutEntities = "no model" })
	w.mention(t, "default", "t1", store.NewEntity{ID: "a", Name: "A", Type: "person"}, store.NewEntity{ID: "b", Name: "B", Type: "person"})
	merge := w.call("POST", "/v1/entities/a/merge", object{"into": "b", "by": "bob"}).ok(t, http.StatusOK).body
	require.Equal(t, "bob", merge["by"])
	undone := w.call("POST", fmt.Sprintf("/v1/entity-merges/%s/undo", merge["id"]), object{"by": "eve"}).ok(t, http.StatusOK).body
	require.Equal(t, "eve", undone["undoneBy"])
	require.Equal(t, "no model", w.call("GET", "/v1/knowledge", nil).ok(t, http.StatusOK).body["withoutEntities"])
}
