package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/tests/internal/check"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// restore is a worker on PostgreSQL, which is killed, and whose store is restored into another database.
type restore struct {
	t         *testing.T
	provider  *llmtest.Server
	temporal  *proc.Temporal
	worker    string
	starter   string
	workspace string
}

// TestRestoreDump restores a dump of PostgreSQL with PostgreSQL's own programs after kill -9 of the worker, and follows
// docs/backup.md with ours. Nothing is lost, and nothing happens twice.
func TestRestoreDump(t *testing.T) {
	t.Parallel()
	dumps, restores := testenv.PostgresProgram(t, "pg_dump"), testenv.PostgresProgram(t, "pg_restore")
	r := newRestore(t)
	first, second, dump := database(t), database(t), filepath.Join(t.TempDir(), "dump")

	w := r.start(first)
	w.Open("said", "hello")
	w.AwaitTurns("said", 1)
	w.Open("asks", check.Touches("asks"))
	asks := w.AwaitApproval("asks")
	w.Open("decided", check.Touches("decided"))
	decided := w.AwaitApproval("decided")
	proc.Output(t, exec.Command(dumps, "--format=custom", "--file="+dump, first))

	w.Say("said", "are you there?")
	w.AwaitTurns("said", 2)
	require.Equal(t, "accepted", w.Approve("decided", decided.ToolCallID))
	w.AwaitTurns("decided", 1)
	w.openFor("bold", "calls", check.Touches("one")+"\nuse shell_cmd "+strings.ReplaceAll(waits, "slow", "two"))
	r.awaitLines("two", 1)
	lost := opened(t, first)
	storedMessage(t, lost, "calls", `"toolName":"shell_cmd"`)
	gate := r.provider.Block(1)
	w.Open("turn", "count 3")
	check.Arrives(t, gate.Reached(), "a reply in progress")
	w.Say("turn", "and then?")
	w.Kill()
	gate.Release()
	transcripts := map[string][]string{}
	for _, id := range []string{"said", "asks", "decided"} {
		transcripts[id] = transcript(t, lost, id)
	}

	proc.Output(t, exec.Command(restores, "--exit-on-error", "--dbname="+second, dump))
	api := r.start(second, "--roles", "repair")
	found, code := r.repair(api)
	require.Equal(t, 1, code)
	// The reply in progress is a step that has its records as input, and stores them with its next attempt.
	require.ElementsMatch(t, []string{"said", "decided", "calls"}, differing(found, repair.Found), "%+v", found)
	mended, code := r.repair(api, "--apply")
	require.Equal(t, 0, code, "%+v", mended)
	again, code := r.repair(api)
	require.Equal(t, 0, code, "%+v", again)
	require.Empty(t, again.Threads)
	api.Kill()

	w = r.start(second)
	w.AwaitTurns("calls", 1)
	w.AwaitTurns("turn", 2)
	db := opened(t, second)
	for id, want := range transcripts {
		require.Equal(t, want, transcript(t, db, id), id)
	}
	require.Equal(t, []string{"user: count 3", "assistant: 1 2 3", "user: and then?", "assistant: and then?"}, w.contents("turn"))
	require.Equal(t, "accepted", w.Approve("asks", asks.ToolCallID))
	w.AwaitTurns("asks", 1)
	r.write("go") // ends the command that outlived its worker
	for _, file := range []string{"one", "two", "asks", "decided"} {
		require.Len(t, r.awaitLines(file, 1), 1, "%s: the command ran once", file)
	}
	last, code := r.repair(w)
	require.Equal(t, 0, code, "%+v", last)
	require.Empty(t, last.Threads)
	for _, id := range []string{"said", "asks", "decided", "calls", "turn"} {
		requireWhole(t, db, id)
	}
}

func newRestore(t *testing.T) *restore {
	r := &restore{t: t, provider: llmtest.NewServer(llmtest.Config{T: t}), worker: proc.BuildWorker(t), starter: proc.BuildStarter(t), workspace: t.TempDir()}
	t.Cleanup(r.provider.Close)
	r.temporal = proc.NewTemporal(t, proc.TemporalConfig{SearchAttributes: searchattr.Types()})
	return r
}

// start starts a worker with an API, or only one of them.
func (r *restore) start(db string, args ...string) stage {
	r.t.Helper()
	config := `version: 1
agents:
  - {name: assistant, model: openai/stand-in, tools: [shell_cmd]}
  - {name: bold, model: openai/stand-in, tools: [shell_cmd], approvals: {shell_cmd: never}}
tools:
  shell_cmd: {root: ` + r.workspace + `}
`
	w := proc.NewWorker(r.t, proc.Options{
		Binary: r.worker, Config: config, Args: args, Env: []string{"DATABASE_URL=" + db, "OPENAI_API_KEY=test", "OPENAI_BASE_URL=" + r.provider.URL},
	}, r.temporal.Addr())
	w.Start()
	return stage{w, r.t, r.provider}
}

// openFor opens a thread of an agent.
func (s stage) openFor(agent, thread, text string) {
	s.t.Helper()
	body := map[string]any{"id": thread, "message": text, "agents": []string{agent}}
	require.Equal(s.t, http.StatusCreated, s.Try(s.t.Context(), http.MethodPost, "/v1/threads", body, nil))
}

// repair runs the command, and returns its report and its exit code.
func (r *restore) repair(api stage, args ...string) (out repair.Comparison, code int) {
	r.t.Helper()
	cmd := exec.Command(r.starter, append([]string{"repair", "--json", "--api", api.URL}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir()}
	var problem strings.Builder
	cmd.Stderr = &problem
	printed, _ := cmd.Output() // the exit code is part of the result
	require.NoError(r.t, json.Unmarshal(printed, &out), "%s%s", printed, &problem)
	return out, cmd.ProcessState.ExitCode()
}

// differing are the threads with a difference in a state.
func differing(c repair.Comparison, state repair.State) (ids []string) {
	for _, one := range c.Threads {
		for _, d := range one.Differences {
			if d.State == state {
				ids = append(ids, one.ThreadID)
				break
			}
		}
	}
	return ids
}

// awaitLines waits until a file of the workspace has n lines, and returns all that it has.
func (r *restore) awaitLines(file string, n int) (lines []string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		raw, err := os.ReadFile(filepath.Join(r.workspace, file))
		lines = strings.Fields(string(raw))
		return err == nil && len(lines) >= n
	}, testenv.Patience, testenv.Tick, file)
	return lines
}

func (r *restore) write(file string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.workspace, file), nil, 0o600))
}

// transcript returns the messages of a thread in a store, one line each.
func transcript(t *testing.T, db store.Store, thread string) (lines []string) {
	t.Helper()
	records, err := db.Records(t.Context(), key(thread), store.Query{Types: []string{event.TypeMessage}})
	require.NoError(t, err)
	for _, r := range records {
		m := check.Decode[event.Message](t, r.Payload)
		lines = append(lines, fmt.Sprint(m.Role, ": ", m.Content, m.ToolCalls))
	}
	return lines
}

// database creates a database, and returns its URL.
func database(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(testenv.Postgres(t))
	require.NoError(t, err)
	name := testenv.Name("restore")
	proc.Output(t, exec.Command(testenv.PostgresProgram(t, "createdb"), "--maintenance-db="+u.String(), name))
	u.Path = "/" + name
	return u.String()
}

func opened(t *testing.T, url string) store.Store {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
