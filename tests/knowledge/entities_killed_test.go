package knowledge

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// killed is a world whose workers a test kills.
type killed struct{ *killing.World }

// learner finds and compares names by a model, whose calls it reports, and embeds them itself.
type learner struct {
	llm.Provider
	worker killing.Worker
}

// nameCosines are names with the cosines of their vectors to that of Sarah: Sally is so similar that she is merged, of Sadie a model
// decides.
var nameCosines = map[string]float64{"Sarah": 1, "Sally": 0.995, "Sadie": 0.97, "Bob": 0.1}

// learns is a kind of worker: it learns about people, reports how, and merges them by hand as events ask.
func learns(w killing.Worker, cfg *threadmill.Config) error {
	cfg.Models["names"] = learner{cfg.Models["openai"], w}
	cfg.Knowledge = threadmill.Knowledge{Embedder: "names/cosines", EntityModel: "names/stand-in"}
	cfg.Agents = []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Knowledge: agent.Knowledge{Entities: true}}}
	cfg.StaleAfter = killing.StaleAfter
	cfg.Store = &gatedStore{Store: teststore.Of(cfg.Store), worker: w, batches: map[string]int{}}
	byHand := hook.Process("merge", func(ctx context.Context, m store.EntityMerge, _ hook.Deps) (_ []hook.Produced, err error) {
		if m.From == "" {
			_, err = teststore.Of(cfg.Store).UndoMerge(ctx, w.Queue, m.ID, m.By)
		} else {
			_, err = teststore.Of(cfg.Store).MergeEntities(ctx, w.Queue, m)
		}
		return nil, err
	})
	cfg.Processors = append(cfg.Processors, byHand)
	return nil
}

// Append reports appends that queue texts in which entities are to be found.
func (s *gatedStore) Append(ctx context.Context, key store.Key, b store.Batch) (out store.Appended, err error) {
	if len(b.Extract) == 0 {
		return s.Store.Append(ctx, key, b)
	}
	err = s.gate(ctx, "queue", "", func() error { out, err = s.Store.Append(ctx, key, b); return err })
	return out, err
}

func (s *gatedStore) EndExtraction(ctx context.Context, namespace, id string, found store.EntitiesFound) (ended bool, err error) {
	err = s.gate(ctx, "end", "", func() error { ended, err = s.Store.EndExtraction(ctx, namespace, id, found); return err })
	return ended, err
}

func (s *gatedStore) MergeEntities(ctx context.Context, namespace string, m store.EntityMerge) (out store.EntityMerge, err error) {
	err = s.gate(ctx, "merge", "", func() error { out, err = s.Store.MergeEntities(ctx, namespace, m); return err })
	return out, err
}

func (s *gatedStore) UndoMerge(ctx context.Context, namespace, id, by string) (out store.EntityMerge, err error) {
	err = s.gate(ctx, "undo", "", func() error { out, err = s.Store.UndoMerge(ctx, namespace, id, by); return err })
	return out, err
}

func (l learner) Generate(ctx context.Context, req llm.Request, show func(llm.Delta)) (llm.Response, error) {
	what := "find"
	if req.Messages[0].Content == entities.CompareInstructions {
		what = "compare"
	}
	if err := l.worker.Tell(ctx, what, ""); err != nil {
		return llm.Response{}, err
	}
	out, err := l.Provider.Generate(ctx, req, show)
	if err == nil {
		err = l.worker.Tell(ctx, "done "+what, "")
	}
	return out, err
}

// Embed returns vectors with the cosines of nameCosines to that of "Sarah".
func (l learner) Embed(_ context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	var out llm.Embeddings
	for _, text := range req.Texts {
		cosine := nameCosines[text]
		out.Vectors = append(out.Vectors, []float32{float32(cosine), float32(math.Sqrt(1 - cosine*cosine))})
	}
	return out, nil
}

// stall makes a change of a table stall in its transaction until it is released. stalls reports whether one does.
func (k killed) stall(t *testing.T, change string) (stalls func() bool, release func()) {
	t.Helper()
	if k.Worker.Schema != "" {
		return k.stallPostgres(t, change)
	}
	db, err := sql.Open("sqlite", "file:"+k.Worker.Store+"?_pragma=busy_timeout(0)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	run := func(query string) bool { _, err := db.ExecContext(t.Context(), query); return err == nil }
	require.Eventually(t, func() bool {
		return run(`CREATE TRIGGER stalls AFTER ` + change + ` BEGIN
			SELECT max(n) FROM (WITH RECURSIVE slow(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM slow) SELECT n FROM slow); END`)
	}, testenv.Patience, testenv.Tick)
	stalls = func() bool { return !run(`BEGIN IMMEDIATE; ROLLBACK`) }
	return stalls, func() {
		require.Eventually(t, func() bool { return run(`DROP TRIGGER stalls`) }, testenv.Patience, testenv.Tick)
	}
}

func (k killed) stallPostgres(t *testing.T, change string) (stalls func() bool, release func()) {
	t.Helper()
	db, err := sql.Open("pgx", k.Worker.Store)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // the session that holds the lock
	run := func(query string) {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err, query)
	}
	run(`SET search_path TO "` + k.Worker.Schema + `"`)
	run(`SELECT pg_advisory_lock(hashtext(current_schema()))`)
	run(`CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_advisory_xact_lock(hashtext(''` + k.Worker.Schema + `'')); RETURN NULL; END'`)
	run(`CREATE TRIGGER stalls AFTER ` + change + ` FOR EACH ROW EXECUTE FUNCTION stall()`)
	stalls = func() (waits bool) {
		const query = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND (classid::bigint << 32 | objid::bigint) = hashtext(current_schema()))`
		require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&waits))
		return waits
	}
	return stalls, func() {
		run(`SELECT pg_advisory_unlock(hashtext(current_schema()))`)
		run(`DROP FUNCTION stall() CASCADE`)
	}
}

// known is all that is known about people, in lines.
func (k killed) known(t *testing.T) (lines []string) {
	t.Helper()
	queued, err := k.Store.Extractions(k.Ctx(), k.TaskQueue, 0)
	require.NoError(t, err)
	lines = append(lines, fmt.Sprintf("%d queued", len(queued)))
	all, err := k.Store.Entities(k.Ctx(), k.TaskQueue, store.EntityPage{})
	require.NoError(t, err)
	for _, e := range all {
		mentions, err := k.Store.Mentions(k.Ctx(), k.TaskQueue, e.ID, store.MentionPage{})
		require.NoError(t, err)
		require.Len(t, mentions, e.Mentions)
		lines = append(lines, fmt.Sprintf("%s %v, %d mentions", e.Name, e.Aliases, e.Mentions))
	}
	merges, err := k.Store.Merges(k.Ctx(), k.TaskQueue, "")
	require.NoError(t, err)
	for _, m := range merges {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s into %s by %s %s", m.FromName, m.IntoName, m.By, m.UndoneBy)))
	}
	slices.Sort(lines[1:])
	return lines
}

// kills kills the worker at each point, and restarts it. before is what is known until the change is done, after since then.
func (k killed) kills(t *testing.T, begin func(), points []string, before, after []string) {
	t.Helper()
	for i, point := range points {
		reached, release := k.reach(t, point)
		k.Start()
		if i == 0 {
			begin()
		}
		reached()
		k.Kill()
		release()
		want := before
		if i == len(points)-1 {
			want = after
		}
		require.Equal(t, want, k.known(t), point)
	}
}

// rests lets a worker do all that is to be done, and kills it then.
func (k killed) rests(t *testing.T, thread string) {
	t.Helper()
	k.Start()
	check.Settle(k.Harness, thread)
	require.NoError(t, k.Temporal.GetWorkflow(k.Ctx(), job.ExtractWorkflowID(k.TaskQueue), "").Get(k.Ctx(), nil))
	k.Kill()
}

// reach returns a function that waits for a point, and one that must be called when the worker is dead. "while" a table is changed is
// a point in the middle of a transaction.
func (k killed) reach(t *testing.T, point string) (reached, release func()) {
	t.Helper()
	change, within := strings.CutPrefix(point, "while ")
	if !within {
		held := k.Hold(point, "")
		return func() { check.Arrives(t, held, point) }, func() {}
	}
	stalls, release := k.stall(t, change)
	return func() { require.Eventually(t, stalls, testenv.Patience, testenv.Tick, point) }, release
}

// TestEntitiesKilled kills the worker with SIGKILL at every step of finding and merging entities: each mention is counted once, each
// merge recorded once, and nothing is half visible.
func TestEntitiesKilled(t *testing.T) {
	t.Parallel()
	for _, part := range []struct {
		name     string
		postgres bool     // or SQLite: a death takes ten seconds to be noticed, so each part has one of them
		known    []string // messages whose names are known before
		kills    func(k killed, t *testing.T, thread string)
		replies  int // in the end
	}{
		{"S2-70 a name is found", false, nil, killed.killsFinding, 1},
		{"S2-68 a threshold merges", true, []string{"Sarah called"}, killed.killsThreshold, 2},
		{"S2-68 a model merges", false, []string{"Sarah called"}, killed.killsModel, 2},
		{"a person merges", true, []string{"Sarah called", "Bob is new"}, killed.killsPerson, 2},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			o := harness.Options{Postgres: part.postgres}
			o.Provider.Script = namesOf(slices.Collect(maps.Keys(nameCosines))...)
			k := killed{killing.New(t, o, "learns")}
			k.Start()
			id := k.Open()
			for _, text := range part.known {
				k.Await(id, k.Post(id, text))
			}
			k.Kill()
			if part.known != nil {
				k.rests(t, id)
			}
			part.kills(k, t, id)
			require.Len(t, check.OfType(k.Harness, id, event.TypeLLMCall), part.replies, "each message has one reply")
		})
	}
}

func (k killed) killsFinding(t *testing.T, thread string) {
	queued := []string{"1 queued"}
	k.kills(t, func() { k.Post(thread, "Sarah called") }, []string{"queue", "done queue"}, []string{"0 queued"}, queued)
	sarah := []string{"0 queued", "Sarah [], 1 mentions"}
	k.kills(t, func() {}, []string{"find", "done find", "while INSERT ON entity_mentions", "done end"}, queued, sarah)
	k.rests(t, thread)
	require.Equal(t, sarah, k.known(t))
}

func (k killed) killsThreshold(t *testing.T, thread string) {
	waits := []string{"1 queued", "Sarah [], 1 mentions"}
	sally := []string{"0 queued", "Sally into Sarah by threshold", "Sarah [Sally], 2 mentions"}
	k.kills(t, func() { k.Post(thread, "Sally wrote") }, []string{"end"}, nil, waits)
	k.kills(t, func() {}, []string{"while INSERT ON entity_merges", "done end"}, waits, sally)
	k.rests(t, thread)
	require.Equal(t, sally, k.known(t))
}

func (k killed) killsModel(t *testing.T, thread string) {
	waits := []string{"1 queued", "Sarah [], 1 mentions"}
	sadie := []string{"0 queued", "Sadie into Sarah by names/stand-in", "Sarah [Sadie], 2 mentions"}
	k.kills(t, func() { k.Post(thread, "Sadie waits") }, []string{"compare", "done compare"}, waits, waits)
	k.kills(t, func() {}, []string{"while INSERT ON entity_merges", "done end"}, waits, sadie)
	k.rests(t, thread)
	require.Equal(t, sadie, k.known(t))
}

func (k killed) killsPerson(t *testing.T, thread string) {
	apart := []string{"0 queued", "Bob [], 1 mentions", "Sarah [], 1 mentions"}
	require.Equal(t, apart, k.known(t))
	named, err := k.Store.EntitiesNamed(k.Ctx(), k.TaskQueue, []string{"Bob", "Sarah"})
	require.NoError(t, err)
	slices.SortFunc(named, func(a, b store.Entity) int { return strings.Compare(a.Name, b.Name) })
	byHand := func(event string, m store.EntityMerge) func() {
		return func() {
			payload, err := json.Marshal(m)
			require.NoError(t, err)
			_, err = k.Threads.PostSignal(k.Ctx(), thread, signals.Post{ID: event, Type: "merge", Payload: payload})
			require.NoError(t, err)
		}
	}
	merge := byHand("merges", store.EntityMerge{ID: "by-hand", From: named[0].ID, Into: named[1].ID, By: "ann"})
	merged := []string{"0 queued", "Bob into Sarah by ann", "Sarah [Bob], 2 mentions"}
	k.kills(t, merge, []string{"while INSERT ON entity_merges", "done merge"}, apart, merged)
	undo := byHand("undoes", store.EntityMerge{ID: "by-hand", By: "bea"})
	undone := []string{"0 queued", "Bob [], 1 mentions", "Bob into Sarah by ann bea", "Sarah [], 1 mentions"}
	k.kills(t, undo, []string{"while UPDATE ON entity_merges", "done undo"}, merged, undone)

	k.Start()
	for _, e := range []string{"merges", "undoes"} {
		require.Equal(t, signals.TurnUnanswered, k.Await(thread, e).Status)
	}
	check.Settle(k.Harness, thread)
	require.Equal(t, undone, k.known(t))
}
