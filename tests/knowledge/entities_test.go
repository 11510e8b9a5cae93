package knowledge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// findsNames is the script of a model that finds Sarah, Acme and Bob in texts, and otherwise says what it is told.
func findsNames(req llm.Request) string {
	if !strings.HasPrefix(req.Messages[0].Content, entities.FindInstructions) {
		return ""
	}
	text, found := req.Messages[len(req.Messages)-1].Content, []map[string]string{}
	for _, e := range []struct{ name, typ, description string }{{"Sarah", "person", "works at Acme"}, {"Acme", "organization", ""}, {"Bob", "person", "is new"}} {
		if strings.Contains(text, e.name) {
			found = append(found, map[string]string{"name": e.name, "type": e.typ, "description": e.description})
		}
	}
	raw, _ := json.Marshal(map[string]any{"entities": found}) // always has a JSON form
	return string(raw)
}

// friends are agents of whom "friend" learns who and what messages mention, and "other" does not.
func friends(o harness.Options) harness.Options {
	o.Agents = []agent.Agent{
		{Name: "friend", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Knowledge: agent.Knowledge{Entities: true}},
		{Name: "other", Model: "openai/stand-in"},
	}
	o.Provider.Script = findsNames
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Knowledge.Embedder, cfg.Knowledge.EntityModel = "openai/stand-in-embedding", "openai/stand-in"
	}
	return o
}

// awaitEntities waits until nothing is queued, and returns the entities of the namespace by name.
func awaitEntities(w *harness.Harness) map[string]store.Entity {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		queued, err := w.Store.Extractions(w.Ctx(), w.TaskQueue, 0)
		return err == nil && len(queued) == 0
	}, testenv.Patience, testenv.Tick)
	all, err := w.Store.Entities(w.Ctx(), w.TaskQueue, store.EntityPage{})
	require.NoError(w.T, err)
	out := map[string]store.Entity{}
	for _, e := range all {
		out[e.Name] = e
	}
	return out
}

// TestEntities learns about people and things.
func TestEntities(t *testing.T) {
	t.Parallel()
	for _, b := range []int{0, 3} { // SQLite, PostgreSQL
		t.Run(check.Backends[b].Name, func(t *testing.T) {
			t.Parallel()
			entitiesOf(t, harness.New(t, friends(check.Backends[b].Options)))
		})
	}
}

func entitiesOf(t *testing.T, w *harness.Harness) {
	t.Run("S2-06 S2-15 S2-71 what a message mentions is found after the reply", func(t *testing.T) {
		w.T = t
		id := w.Open("friend")
		require.Equal(t, signals.TurnCompleted, w.Say(id, "I talked to Sarah from Acme about the deal").Status)
		all := awaitEntities(w)
		require.Len(t, all, 2)
		require.Equal(t, 1, all["Sarah"].Mentions)
		mentions, err := w.Store.Mentions(w.Ctx(), w.TaskQueue, all["Acme"].ID, store.MentionPage{})
		require.NoError(t, err)
		require.Equal(t, id, mentions[0].ThreadID)
	})
	t.Run("S2-72 an agent is told what other threads say", func(t *testing.T) {
		w.T = t
		id := w.Open("friend")
		w.Say(id, "Does Sarah like trains?")
		shown := askedOf(w, "Does Sarah like trains?")
		require.Contains(t, shown, "Sarah (person): works at Acme")
		require.Contains(t, shown, "I talked to Sarah from Acme")
		require.Len(t, retrieved(w, id).Facts, 1)
		require.Equal(t, 2, awaitEntities(w)["Sarah"].Mentions)
	})
	t.Run("other agents learn nothing and are told nothing", func(t *testing.T) {
		w.T = t
		before := awaitEntities(w)
		w.Say(w.Open("other"), "Bob met Sarah")
		require.NotContains(t, askedOf(w, "Bob met Sarah"), "works at Acme")
		require.Equal(t, before, awaitEntities(w))
	})
	t.Run("S2-64 an event asks to find entities", func(t *testing.T) {
		w.T = t
		id := w.Open("friend")
		payload := json.RawMessage(`{"content":"Bob is new","sourceType":"mail","sourceId":"mail-1","namespace":"thread:1"}`)
		_, err := w.Threads.Post(w.Ctx(), id, signals.Post{ID: "x1", Type: event.TypeEntityExtract, Payload: payload})
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, w.Await(id, "x1").Status)
		bob := awaitEntities(w)["Bob"]
		require.Equal(t, 1, bob.Mentions)
		mentions, err := w.Store.Mentions(w.Ctx(), w.TaskQueue, bob.ID, store.MentionPage{})
		require.NoError(t, err)
		require.Equal(t, "mail", mentions[0].SourceType)
		require.Equal(t, "mail-1", mentions[0].SourceID)
	})
}

// askedOf returns what a model was shown with a message.
func askedOf(w *harness.Harness, message string) string {
	w.T.Helper()
	for _, r := range w.Provider.Requests() {
		messages := r.Conversation.Messages
		if len(messages) == 0 || messages[len(messages)-1].Content != message || strings.HasPrefix(messages[0].Content, entities.FindInstructions) {
			continue
		}
		var all []string
		for _, m := range messages {
			all = append(all, m.Content)
		}
		return strings.Join(all, "\n---\n")
	}
	w.T.Fatalf("no model was asked %q", message)
	return ""
}

// TestEntitiesLater: turns do not wait while a model finds entities.
func TestEntitiesLater(t *testing.T) {
	t.Parallel()
	held, finding := make(chan struct{}), atomic.Int64{}
	o := friends(harness.Options{})
	o.Provider.Script = func(req llm.Request) string {
		out := findsNames(req)
		if out != "" {
			finding.Add(1)
			<-held
		}
		return out
	}
	w := harness.New(t, o)
	t.Run("S2-15 S2-65 turns go on while entities are found", func(t *testing.T) {
		w.T = t
		for range 5 {
			id := w.Open("friend")
			require.Equal(t, signals.TurnCompleted, w.Say(id, "Sarah again").Status)
			require.Equal(t, signals.TurnCompleted, w.Say(id, "and Bob").Status)
		}
		require.Eventually(t, func() bool { return finding.Load() == 1 }, testenv.Patience, testenv.Tick)
		queued, err := w.Store.Extractions(w.Ctx(), w.TaskQueue, 0)
		require.NoError(t, err)
		require.Len(t, queued, 10)
	})
	close(held)
	require.Equal(t, 5, awaitEntities(w)["Sarah"].Mentions)
}

// TestEntitiesJoined: what joins a turn is searched like the message that began it, once, as hooks leave it.
func TestEntitiesJoined(t *testing.T) {
	t.Parallel()
	held := check.NewGate("held")
	o := friends(harness.Options{Tools: []tool.Tool{held}})
	o.Agents[0].Tools = append(o.Agents[0].Tools, "held")
	configure := o.Configure
	o.Configure = func(cfg *threadmill.Config) {
		configure(cfg)
		cfg.Hooks = []hook.Hook{{Name: "censor", Filter: hook.Filter{Types: []string{event.TypeMessage}}, Func: censor}}
	}
	w := harness.New(t, o)
	t.Run("S2-15 what joins a turn is searched, too", func(t *testing.T) {
		w.T = t
		entitiesJoin(t, w, held)
	})
}

func entitiesJoin(t *testing.T, w *harness.Harness, held *check.Gate) {
	id := w.Open("friend")
	posted := w.Post(id, "use held {}")
	<-held.Reached
	for n, text := range []string{"Sarah called", "Sarah and secret Acme", "refuse Bob"} {
		p := check.Message(id, fmt.Sprintf("joins-%d", n), text)
		p.OnBusy = event.OnBusySteer
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
		_, err = w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err, "posts are idempotent")
	}
	held.Release()
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	check.Settle(w, id)
	w.Say(id, "thanks, Sarah")
	check.Settle(w, id)
	all := awaitEntities(w)
	require.Len(t, all, 1, "what hooks have hidden is not searched")
	require.Equal(t, 3, all["Sarah"].Mentions)
}

// censor hides words of people, and answers what they should not have said. It also sees replies, so that no reply ends its turn.
func censor(_ context.Context, e event.Event) (hook.Result, error) {
	m, ok := e.(event.MessageEvent)
	switch {
	case ok && strings.HasPrefix(m.Message.Content, "refuse"):
		return hook.Respond(hook.Response{Content: "no", SenderType: event.CreatedBySystem, SenderID: "censor"}), nil
	case ok && strings.Contains(m.Message.Content, "secret"):
		m.Message.Content = strings.ReplaceAll(m.Message.Content, "secret Acme", "…")
		return hook.Replace(m), nil
	}
	return hook.Pass(), nil
}

// TestEntityEvents: an event that asks to find entities does so once, whichever way it comes.
func TestEntityEvents(t *testing.T) {
	t.Parallel()
	o := friends(harness.Options{})
	configure := o.Configure
	o.Configure = func(cfg *threadmill.Config) {
		configure(cfg)
		cfg.Processors = []hook.Processor{hook.Process("mail", func(_ context.Context, in job.EntityExtraction, _ hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{hook.NewProduced(event.TypeEntityExtract, in)}, nil
		})}
	}
	w := harness.New(t, o)
	t.Run("S2-64 by every way in", func(t *testing.T) {
		w.T = t
		entityEvents(t, w)
	})
}

func entityEvents(t *testing.T, w *harness.Harness) {
	payload := func(source string) json.RawMessage {
		return json.RawMessage(`{"content":"Bob is new","sourceType":"mail","sourceId":"` + source + `"}`)
	}
	doors := map[string]func(id string) error{
		"api": func(id string) error {
			status, answer := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/queue", map[string]any{"id": "x1", "type": event.TypeEntityExtract, "payload": payload("api")})
			require.Less(t, status, http.StatusMultipleChoices, answer)
			return nil
		},
		"signal": func(id string) error {
			p := signals.Post{ID: "x1", Type: event.TypeEntityExtract, Payload: payload("signal")}
			return w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalPost, p)
		},
		"processor": func(id string) error {
			_, err := w.Threads.Post(w.Ctx(), id, signals.Post{ID: "x1", Type: "mail", Payload: payload("processor")})
			return err
		},
	}
	for _, door := range slices.Sorted(maps.Keys(doors)) {
		id := w.Open("friend")
		for range 2 {
			require.NoError(t, doors[door](id), door)
			require.Equal(t, signals.TurnCompleted, w.Await(id, "x1").Status, door)
		}
		check.Settle(w, id)
	}
	bob := awaitEntities(w)["Bob"]
	mentions, err := w.Store.Mentions(w.Ctx(), w.TaskQueue, bob.ID, store.MentionPage{})
	require.NoError(t, err)
	var sources []string
	for _, m := range mentions {
		sources = append(sources, m.SourceType+" "+m.SourceID)
	}
	require.ElementsMatch(t, []string{"mail api", "mail signal", "mail processor"}, sources)
	require.Equal(t, 3, bob.Mentions)
}

// TestEntitiesOfAnotherEmbedder: names that were found with another embedder get vectors of the new one, and are compared by them.
func TestEntitiesOfAnotherEmbedder(t *testing.T) {
	t.Parallel()
	for _, b := range []int{0, 3} { // SQLite, PostgreSQL
		t.Run("S2-67 "+check.Backends[b].Name, func(t *testing.T) {
			t.Parallel()
			entitiesOfAnotherEmbedder(t, check.Backends[b].Options)
		})
	}
}

func entitiesOfAnotherEmbedder(t *testing.T, o harness.Options) {
	vectors, log := documents.NewEmbeddings(t), &check.Logbook{}
	by := func(model string) func(*threadmill.Config) {
		configure := documents.Embeds(t, vectors, model)
		return func(cfg *threadmill.Config) {
			configure(cfg)
			cfg.Knowledge.EntityModel = "openai/stand-in"
		}
	}
	o = friends(o)
	o.Provider.Script = namesOf("Sarah Lee", "Lee Sarah", "Bob")
	o.NoWorker, o.Configure, o.Logger = true, by("one"), slog.New(slog.NewTextHandler(log, nil))
	w := harness.New(t, o)
	stop := w.StartWorker()
	id := w.Open("friend")
	require.Equal(t, signals.TurnCompleted, w.Say(id, "Sarah Lee and Bob called").Status)
	require.Len(t, awaitEntities(w), 2)
	stop()

	similar := func(embedder string) []store.SimilarEntity {
		vector := llmtest.Embedding("Lee Sarah", llmtest.EmbeddingDimension)
		found, err := w.Store.SimilarEntities(w.Ctx(), w.TaskQueue, "person", embedder, vector, 0)
		require.NoError(t, err)
		return found
	}
	require.Len(t, similar("vectors/one"), 2)
	vectors.Reset()
	vectors.Fail(llmtest.Status(http.StatusServiceUnavailable, ""), llmtest.Drop(0))
	documents.Works(t, w, by("two"))
	require.Eventually(t, func() bool { return len(similar("vectors/one")) == 0 }, testenv.Patience, testenv.Tick, "those of before are deleted in the end")
	require.Len(t, similar("vectors/two"), 2)
	require.Equal(t, 3, vectors.Calls(), "names are embedded once, after two failures")
	require.Len(t, log.Lines("the names of entities get vectors of another embedder"), 1)
	done := w.Temporal.GetWorkflow(w.Ctx(), job.EmbedWorkflowID(w.TaskQueue), "")
	require.NoError(t, done.Get(w.Ctx(), nil))

	require.Equal(t, signals.TurnCompleted, w.Say(id, "Lee Sarah wrote").Status)
	all := awaitEntities(w)
	require.Len(t, all, 2)
	require.Equal(t, []string{"Lee Sarah"}, all["Sarah Lee"].Aliases)
	merges, err := w.Store.Merges(w.Ctx(), w.TaskQueue, "")
	require.NoError(t, err)
	require.Len(t, merges, 1)
	require.Equal(t, "threshold", merges[0].By)
}

// namesOf is the script of a model that finds these people in texts, and takes similar ones for the same.
func namesOf(names ...string) func(llm.Request) string {
	return func(req llm.Request) string {
		text, found := req.Messages[len(req.Messages)-1].Content, []map[string]string{}
		switch req.Messages[0].Content {
		case entities.CompareInstructions:
			return `{"same":true,"reason":"so it seems"}`
		case entities.FindInstructions:
		default:
			return ""
		}
		for _, name := range names {
			if strings.Contains(text, name) {
				found = append(found, map[string]string{"name": name, "type": "person"})
			}
		}
		raw, _ := json.Marshal(map[string]any{"entities": found}) // always has a JSON form
		return string(raw)
	}
}

// TestEntitiesWithoutModel: an agent that would learn does everything else.
func TestEntitiesWithoutModel(t *testing.T) {
	t.Parallel()
	log := &check.Logbook{}
	o := friends(harness.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	o.Configure = nil
	w := harness.New(t, o)
	t.Run("S2-73 without a model or an embedder, there is only a warning", func(t *testing.T) {
		w.T = t
		id := w.Open("friend")
		require.Equal(t, signals.TurnCompleted, w.Say(id, "Sarah").Status)
		require.Equal(t, signals.TurnCompleted, w.Say(id, "Bob").Status)
		_, err := w.Threads.Post(w.Ctx(), id, signals.Post{ID: "x1", Type: event.TypeEntityExtract, Payload: json.RawMessage(`{"content":"Bob"}`)})
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, w.Await(id, "x1").Status)
		queued, err := w.Store.Extractions(w.Ctx(), w.TaskQueue, 0)
		require.NoError(t, err)
		require.Empty(t, queued)
		require.Len(t, log.Lines("learns nothing about the people"), 1)
	})
}
