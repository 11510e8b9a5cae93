package entities_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// model answers with the entities that a text names in braces, as {name|type|description}, and compares as it is told.
type model struct {
	same   string
	answer string
	fails  *llm.Error
	asked  []string
}

func (m *model) Generate(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	text := req.Messages[1].Content
	m.asked = append(m.asked, text)
	switch {
	case m.fails != nil:
		return llm.Response{}, m.fails
	case m.answer != "":
		return llm.Response{Content: m.answer}, nil
	case req.Messages[0].Content == entities.CompareInstructions:
		return llm.Response{Content: m.same}, nil
	}
	found := []map[string]string{}
	for _, part := range strings.Split(text, "{")[1:] {
		fields := strings.Split(strings.Split(part, "}")[0], "|")
		found = append(found, map[string]string{"name": fields[0], "type": fields[1], "description": fields[2]})
	}
	raw, err := json.Marshal(map[string]any{"entities": found})
	return llm.Response{Content: "Here they are:\n```json\n" + string(raw) + "\n```"}, err
}

// vectors have the cosine that a name ends with to that of "Sarah", as in "Sara 0.97".
func vectors(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		cosine := 0.1
		switch {
		case text == "Sarah":
			cosine = 1
		case strings.HasSuffix(text, "995"):
			cosine = 0.995
		case strings.HasSuffix(text, "97"):
			cosine = 0.97
		}
		out[i] = []float32{float32(cosine), float32(math.Sqrt(1 - cosine*cosine))}
	}
	return out, nil
}

type world struct {
	*entities.Entities
	t     *testing.T
	store *sqlite.Store
	model *model
}

func newWorld(t *testing.T) *world {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	m := &model{same: `{"same":true,"reason":"equal"}`}
	return &world{entities.New(entities.Config{
		Store: db, Threads: db, Provider: m, Model: "fake/model", Embed: vectors, Embedder: "fake/embedder",
	}), t, db, m}
}

// says finds entities in a text.
func (w *world) says(id, text string) {
	w.t.Helper()
	require.NoError(w.t, w.store.QueueExtraction(w.t.Context(), "n", store.Extraction{ID: id, ThreadID: "t1", SourceType: "message", SourceID: id, Content: text}))
	done, err := w.Next(w.t.Context(), "n")
	require.NoError(w.t, err)
	require.Equal(w.t, id, done)
}

func (w *world) all() map[string]store.Entity {
	w.t.Helper()
	all, err := w.store.Entities(w.t.Context(), "n", store.EntityPage{})
	require.NoError(w.t, err)
	out := map[string]store.Entity{}
	for _, e := range all {
		out[e.Name] = e
	}
	return out
}

func TestNext(t *testing.T) {
	t.Parallel()
	t.Run("a mention has its sentence", func(t *testing.T) {
		t.Parallel()
		for text, sentence := range map[string]string{
			"It rains. {J. Doe|person|} works at 1.5 places. So it is.": "{J. Doe|person|} works at 1.5 places.",
			"See mill.example for {Bob|person|}":                        "See mill.example for {Bob|person|}",
			"first line\nthen {Ann|person|}!\nlast line":                "then {Ann|person|}!",
		} {
			w := newWorld(t)
			w.says("m1", text)
			for _, e := range w.all() {
				mentions, err := w.store.Mentions(t.Context(), "n", e.ID, store.MentionPage{})
				require.NoError(t, err)
				require.Equal(t, sentence, mentions[0].Text)
			}
		}
	})
	t.Run("S2-66 S2-70 S2-71 two names: two entities, two mentions", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.says("m1", "I talked to {Sarah|person|works at Acme} from {Acme|organization|} about the deal.")
		all := w.all()
		require.Len(t, all, 2)
		require.Equal(t, "person", all["Sarah"].Type)
		require.Equal(t, []string{"works at Acme"}, all["Sarah"].Descriptions)
		require.Equal(t, 1, all["Acme"].Mentions)
		mentions, err := w.store.Mentions(t.Context(), "n", all["Sarah"].ID, store.MentionPage{})
		require.NoError(t, err)
		require.Len(t, mentions, 1)
		require.Equal(t, "m1", mentions[0].SourceID)
	})
	t.Run("S2-72 one entity in two messages: two mentions", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.says("m1", "{Sarah|person|works at Acme}")
		w.says("m2", "{sarah|Person|plays tennis} again")
		all := w.all()
		require.Len(t, all, 1)
		require.Equal(t, 2, all["Sarah"].Mentions)
		require.Equal(t, []string{"works at Acme", "plays tennis"}, all["Sarah"].Descriptions)
	})
	t.Run("S2-67 S2-68 from 0.99 on, names are merged, which can be undone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.says("m1", "{Sarah|person|}")
		w.says("m2", "{Sarah 995|person|}")
		all := w.all()
		require.Len(t, all, 1)
		require.Equal(t, []string{"Sarah 995"}, all["Sarah"].Aliases)
		require.Equal(t, 2, all["Sarah"].Mentions)
		require.Len(t, w.model.asked, 2, "no model compares them")
		merges, err := w.store.Merges(t.Context(), "n", "")
		require.NoError(t, err)
		require.Len(t, merges, 1)
		require.Equal(t, "threshold", merges[0].By)
		require.InDelta(t, 0.995, merges[0].Similarity, 0.001)
		_, err = w.store.UndoMerge(t.Context(), "n", merges[0].ID, "ann")
		require.NoError(t, err)
		require.Len(t, w.all(), 2)
		w.says("m3", "{Sarah 995|person|}")
		require.Equal(t, 2, w.all()["Sarah 995"].Mentions, "it stays undone")
	})
	t.Run("S2-68 from 0.95 on, a model decides", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.says("m1", "{Sarah|person|works at Acme}")
		w.says("m2", "{Sara 97|person|}")
		require.Len(t, w.all(), 1)
		require.Contains(t, w.model.asked[2], "works at Acme")
		merges, err := w.store.Merges(t.Context(), "n", "")
		require.NoError(t, err)
		require.Equal(t, "fake/model", merges[0].By)
	})
	t.Run("S2-69 entities that a model keeps apart are related", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.model.same = `{"same":false,"reason":"different employers"}`
		w.says("m1", "{Sarah|person|}")
		w.says("m2", "{Sara 97|person|}")
		all := w.all()
		require.Len(t, all, 2)
		relations, err := w.store.Relations(t.Context(), "n", all["Sarah"].ID)
		require.NoError(t, err)
		require.Len(t, relations, 1)
		require.Equal(t, store.RelatedTo, relations[0].Type)
		require.Equal(t, "different employers", relations[0].Reason)
	})
	t.Run("S2-67 entities of other types and namespaces are not compared", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.says("m1", "{Sarah|person|}")
		w.says("m2", "{Sarah 995|product|} and {Sarah|product|}")
		require.Len(t, w.model.asked, 2)
		all, err := w.store.Entities(t.Context(), "n", store.EntityPage{})
		require.NoError(t, err)
		require.Len(t, all, 3)
		done, err := w.Next(t.Context(), "other")
		require.NoError(t, err)
		require.Empty(t, done)
	})
	t.Run("S2-67 names that have no vectors of the embedder get some first", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.says("m1", "{Sarah|person|}")
		calls := 0
		other := *w
		other.Entities = entities.New(entities.Config{
			Store: w.store, Threads: w.store, Provider: w.model, Model: "fake/model", Embedder: "fake/other",
			Embed: func(ctx context.Context, texts []string) ([][]float32, error) {
				if calls++; calls == 1 {
					return nil, errors.New("down")
				}
				return vectors(ctx, texts)
			},
		})
		require.NoError(t, w.store.QueueExtraction(t.Context(), "n", store.Extraction{ID: "m2", ThreadID: "t1", SourceType: "message", SourceID: "m2", Content: "{Sarah 995|person|}"}))
		_, err := other.Next(t.Context(), "n")
		require.ErrorContains(t, err, "down")
		done, err := other.Next(t.Context(), "n")
		require.NoError(t, err)
		require.Equal(t, "m2", done)
		require.Equal(t, []string{"Sarah 995"}, w.all()["Sarah"].Aliases)
		other.says("m3", "{Sarah|person|}")
		require.Equal(t, 4, calls, "they are looked for once")
		similar := func(embedder string) []store.SimilarEntity {
			found, err := w.store.SimilarEntities(t.Context(), "n", "person", embedder, []float32{1, 0}, 0)
			require.NoError(t, err)
			return found
		}
		require.Len(t, similar("fake/embedder"), 1, "another worker may still use them")
		require.Len(t, similar("fake/other"), 2)
		added, err := other.Renew(t.Context(), "n")
		require.NoError(t, err)
		require.Zero(t, added)
		require.Empty(t, similar("fake/embedder"))
	})
	t.Run("what is no answer finds nothing, and is done", func(t *testing.T) {
		t.Parallel()
		for _, answer := range []string{"I cannot do that.", "{", `{"entities":"none"}`, `{"entities":[{"name":""},{"type":"person"}]}`} {
			w := newWorld(t)
			w.model.answer = answer
			w.says("m1", "Sarah")
			require.Empty(t, w.all(), answer)
		}
	})
	t.Run("a text that a model refuses finds nothing, and others do not wait for it", func(t *testing.T) {
		t.Parallel()
		for name, failed := range map[string]*llm.Error{
			"refused": {Code: llm.CodeRefusal}, "too much": {Code: llm.CodeReplyTooLarge}, "too long": {ContextOverflow: true},
		} {
			w := newWorld(t)
			w.model.fails = failed
			w.says("m1", "{Sarah|person|}")
			w.model.fails = nil
			w.says("m2", "{Bob|person|}")
			require.Len(t, w.all(), 1, name)
		}
	})
	t.Run("a model that fails otherwise is asked again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.model.fails = &llm.Error{StatusCode: 401, Message: "wrong key"}
		require.NoError(t, w.store.QueueExtraction(t.Context(), "n", store.Extraction{ID: "m1", ThreadID: "t1", SourceType: "message", SourceID: "m1", Content: "{Sarah|person|}"}))
		_, err := w.Next(t.Context(), "n")
		require.ErrorContains(t, err, "wrong key")
		w.model.fails = nil
		done, err := w.Next(t.Context(), "n")
		require.NoError(t, err)
		require.Equal(t, "m1", done)
		require.Len(t, w.all(), 1)
	})
	t.Run("S2-73 without a model or an embedder, nothing is done", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, cfg := range []entities.Config{
			{Store: w.store, Threads: w.store, Embed: vectors, Embedder: "fake/embedder"},
			{Store: w.store, Threads: w.store, Provider: w.model, Model: "fake/model"},
		} {
			require.NotEmpty(t, entities.New(cfg).Lacks())
			done, err := entities.New(cfg).Next(t.Context(), "n")
			require.NoError(t, err)
			require.Empty(t, done)
		}
	})
}

func TestFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.says("m1", "I met {Sarah|person|works at Acme}. She likes trains.")
	w.says("m2", "{Sarah 995|person|speaks French}")
	w.says("m3", "{Ann Lee|person|leads sales}")
	facts := func(thread, text string) []event.Fact {
		found, err := w.Facts(t.Context(), "n", thread, text)
		require.NoError(t, err)
		return found
	}
	found := facts("t2", "What does SARAH's boss think of Ann Lee?")
	require.Len(t, found, 2)
	require.Equal(t, "Sarah", found[0].Name)
	for _, said := range []string{"works at Acme", "speaks French", "also called Sarah 995", "I met {Sarah"} {
		require.Contains(t, found[0].Text, said)
	}
	require.Contains(t, found[1].Text, "leads sales")
	require.NotContains(t, facts("t1", "Sarah?")[0].Text, "I met", "what this thread said, its context has")
	require.Empty(t, facts("t2", "Lee and Ann"))
	other, err := w.Facts(t.Context(), "other", "t2", "Sarah?")
	require.NoError(t, err)
	require.Empty(t, other)
	require.Empty(t, facts("t2", strings.Repeat("word ", 100_000)+" \x00 {}"))
	require.WithinDuration(t, time.Now(), w.all()["Sarah"].MentionedAt, time.Minute)
}
