package faults

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

type faults struct{ binary string }

// stage is a devserver and the provider of its model, which outlives it.
type stage struct {
	*proc.Devserver
	t        *testing.T
	provider *llmtest.Server
}

// waits is a command that writes a line, and ends when the file "go" exists.
const waits = `{"command":"echo ran >> slow; for i in $(seq 1200); do [ -e go ] && break; sleep 0.05; done"}`

// goesOnWithin is the longest time from a restart to the end of an interrupted turn, on a busy
// machine.
const goesOnWithin = time.Minute

// TestFaults kills the servers of a conversation at every point of a turn.
func TestFaults(t *testing.T) {
	t.Parallel()
	f := faults{binary: proc.Build(t)}
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"a storm of kills S0-36 S2-51", f.storm},
		{"S2-51 kill -9 between store and completion, at random", f.afterReply},
		{"S2-51 kill -9 between store and completion of a reply", f.replyStored},
		{"S2-51 kill -9 between store and completion of a tool", f.resultStored},
		{"kill -9", f.points},
		{"S2-51 kill -9 of all at once while clients post and approve", f.together},
		{"S2-68 kill -9 while entities are found", f.finding},
		{"SIGTERM in the middle of a reply and of a command", f.terminated},
		{"PostgreSQL goes and comes back", f.storeOutage},
		{"NATS is killed and comes back", f.streamOutage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

// stage prepares a devserver, with its default configuration or another.
func (f faults) stage(t *testing.T, config func(provider string) string, env ...string) stage {
	provider := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(provider.Close)
	o := proc.Options{Binary: f.binary, Env: append(env, "OPENAI_API_KEY=test", "OPENAI_BASE_URL="+provider.URL)}
	if config != nil {
		o.Config = config(provider.URL)
	}
	return stage{proc.New(t, o), t, provider}
}

// asked returns the bodies of the provider's requests that contain text.
func (s stage) asked(text string) (bodies []string) {
	for _, r := range s.provider.Requests() {
		if strings.Contains(string(r.Body), text) {
			bodies = append(bodies, string(r.Body))
		}
	}
	return bodies
}

// contents returns a thread's messages, one line each.
func (s stage) contents(thread string) []string {
	out := []string{}
	for _, m := range s.Messages(thread) {
		out = append(out, m.Role+": "+m.Content)
	}
	return out
}

// requireSeen waits until a viewer has received all stored events, each once, in order.
func (s stage) requireSeen(thread string, v *proc.Viewer) {
	s.t.Helper()
	stored := s.Events(thread)
	require.NotEmpty(s.t, stored)
	require.Eventually(s.t, func() bool { return len(v.Stored()) >= len(stored) }, testenv.Patience, testenv.Tick)
	require.Equal(s.t, stored, v.Stored())
}

// open opens the store of a devserver that has ended.
func (s stage) open() teststore.Store {
	s.t.Helper()
	db, err := sqlite.Open(s.t.Context(), sqlite.Config{Path: filepath.Join(s.Data, "threadmill.db")})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

func key(thread string) store.Key {
	return store.Key{Namespace: signals.DefaultNamespace, ThreadID: thread}
}

// requireWhole checks that a thread has records without a gap, one message for each model call, and
// one result for each tool call.
func requireWhole(t *testing.T, db store.Store, thread string) {
	t.Helper()
	records := check.AllRecordsIn(t.Context(), t, db, key(thread))
	ids, calls, replies := map[string]bool{}, 0, 0
	asked, answered := []string{}, []string{}
	for i, r := range records {
		require.EqualValues(t, i+1, r.Seq)
		require.False(t, ids[r.ID], "record %s is stored twice", r.ID)
		ids[r.ID] = true
		switch r.Type {
		case event.TypeLLMCall:
			calls++
		case event.TypeMessage:
			m := check.Decode[event.Message](t, r.Payload)
			if m.SenderType == event.CreatedByAgent {
				replies++
			}
			if m.ToolCallID != "" {
				answered = append(answered, m.ToolCallID)
			}
			for _, c := range m.ToolCalls {
				asked = append(asked, c.ID)
			}
		}
	}
	require.Equal(t, calls, replies, "a reply for each model call")
	require.ElementsMatch(t, asked, answered, "a result for each tool call")
	logs, err := db.ToolLogs(t.Context(), key(thread))
	require.NoError(t, err)
	for _, call := range logs {
		require.Contains(t, asked, call.ToolCallID)
		require.NotEqual(t, store.ToolStarted, call.Status, "tool call %s has not ended", call.ToolCallID)
	}
}

// lines returns the lines of a file in the folder of commands.
func (s stage) lines(name string) []string {
	data, err := os.ReadFile(filepath.Join(s.Workspace, name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// release creates the file that a command waits for: the command outlives the devserver.
func (s stage) release(name string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.Workspace, name), nil, 0o600))
}

// points kills one process while one thread is at each of the points of a turn.
func (f faults) points(t *testing.T) {
	s := f.stage(t, nil)
	s.Start()
	viewers := map[string]*proc.Viewer{}
	open := func(thread, text string) {
		s.Open(thread, text)
		viewers[thread] = s.Watch(t, thread, nil)
	}

	open("undisturbed", "count 6")
	s.AwaitTurns("undisturbed", 1)

	gate := s.provider.Block(3)
	defer gate.Release()
	open("model", "count 6")
	check.Arrives(t, gate.Reached(), "the middle of the reply")

	open("tool", "use shell_cmd "+waits)
	call := s.AwaitApproval("tool")
	require.Equal(t, "accepted", s.Approve("tool", call.ToolCallID))
	require.Eventually(t, func() bool { return len(s.lines("slow")) > 0 }, testenv.Patience, testenv.Tick)

	open("approval", `use shell_cmd {"command":"echo ran >> later"}`)
	s.AwaitApproval("approval")
	// A query may be ahead of the thread, and then return another time.
	s.awaitRest("approval")
	waiting := s.AwaitApproval("approval")

	s.Kill()
	gate.Release()
	s.Start()
	restarted := time.Now()

	t.Run("S0-36 S2-51 during a model call", func(t *testing.T) {
		s.AwaitTurns("model", 1)
		require.Less(t, time.Since(restarted), goesOnWithin)
		require.Equal(t, []string{"user: count 6", "assistant: 1 2 3 4 5 6"}, s.contents("model"))
		require.Equal(t, check.Kinds(s.Events("undisturbed")), check.Kinds(s.Events("model")), "the same order as without a kill")
		bodies := s.asked("count 6")
		require.Len(t, bodies, 3, "one of the undisturbed thread, one that was cut, one that was not")
		require.Equal(t, bodies[1], bodies[2], "the second attempt is shown what the first was")
		s.requireSeen("model", viewers["model"])
		requireShown(t, viewers["model"])
	})
	t.Run("S2-51 during a tool call", func(t *testing.T) {
		s.AwaitTurns("tool", 1)
		require.Less(t, time.Since(restarted), goesOnWithin)
		require.Equal(t, []string{"ran"}, s.lines("slow"), "a tool that may have run is not run again")
		messages := s.Messages("tool")
		require.Len(t, messages, 4)
		require.True(t, messages[2].IsError)
		require.Contains(t, messages[2].Content, "outcome is unknown")
		require.Contains(t, messages[3].Content, "outcome is unknown", "the model has been told")
		require.Equal(t, "already_resolved", s.Approve("tool", call.ToolCallID))
		s.release("go")
		s.requireSeen("tool", viewers["tool"])
	})
	t.Run("S4-77 S4-94 while an approval waits", func(t *testing.T) {
		require.Equal(t, waiting, s.AwaitApproval("approval"), "it waits still")
		require.Empty(t, s.lines("later"))
		require.Equal(t, "accepted", s.Approve("approval", waiting.ToolCallID))
		require.Equal(t, "already_resolved", s.Approve("approval", waiting.ToolCallID))
		s.AwaitTurns("approval", 1)
		require.Equal(t, []string{"ran"}, s.lines("later"))
		s.requireSeen("approval", viewers["approval"])
	})
	t.Run("the threads are usable, and whole", func(t *testing.T) {
		for thread := range viewers {
			s.Say(thread, "are you there")
			s.AwaitTurns(thread, 2)
			said := s.contents(thread)
			require.NotEmpty(t, said)
			require.Equal(t, "assistant: are you there", said[len(said)-1])
		}
		require.Zero(t, s.Terminate())
		db := s.open()
		for thread := range viewers {
			requireWhole(t, db, thread)
		}
	})
}

// finding kills one process, Temporal with it, while a model finds entities.
func (f faults) finding(t *testing.T) {
	s := f.stage(t, func(provider string) string {
		return `version: 1
models:
  openai: {type: openai, apiKeyEnv: OPENAI_API_KEY, baseURL: "` + provider + `"}
knowledge: {embedder: openai/stand-in-embedding, entityModel: openai/stand-in}
agents:
  - name: assistant
    model: openai/stand-in
    knowledge: {entities: true}
`
	})
	s.Start()
	// The model repeats the text, which makes it an answer.
	const text = `{"entities":[{"name":"Sarah","type":"person","description":""}]}`
	for n := range 2 {
		thread := fmt.Sprint("finding-", n)
		reply, finding := s.provider.Block(0), s.provider.Block(0)
		s.Open(thread, text)
		check.Arrives(t, reply.Reached(), "the reply")
		reply.Release()
		check.Arrives(t, finding.Reached(), "the call that finds entities")
		s.Kill()
		finding.Release()
		s.Start()
		s.AwaitTurns(thread, 1)
		require.Eventually(t, func() bool {
			var page struct{ Entities []store.Entity }
			return s.Try(t.Context(), http.MethodGet, "/v1/entities", nil, &page) == http.StatusOK &&
				len(page.Entities) == 1 && page.Entities[0].Mentions == n+1
		}, testenv.Patience, testenv.Tick)
	}
	require.Zero(t, s.Terminate())
	db := s.open()
	queued, err := db.ExtractionNamespaces(t.Context())
	require.NoError(t, err)
	require.Empty(t, queued)
}

// requireShown checks that a viewer received the last message piece by piece, or a gap, and no
// piece twice.
func requireShown(t *testing.T, v *proc.Viewer) {
	t.Helper()
	events := v.Events()
	at := slices.IndexFunc(events, func(e event.AgentEvent) bool {
		return e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByAgent
	})
	require.Positive(t, at)
	whole, told := events[at].Message, false
	var text strings.Builder
	for _, e := range events[:at] {
		switch e.Type {
		case event.EventGap, event.EventReset:
			text.Reset()
			told = true
		case event.EventStream:
			require.Equal(t, whole.ID, e.MessageID)
			text.WriteString(e.Content)
		}
	}
	if told && text.Len() == 0 {
		return
	}
	require.Equal(t, whole.Content, text.String())
}

// afterReply kills the process as soon as a viewer sees a reply: the reply is stored, and Temporal
// may not know it yet.
func (f faults) afterReply(t *testing.T) {
	const rounds = 3
	s := f.stage(t, nil)
	s.Start()
	said := []string{}
	seen := make(chan struct{}, 100)
	for i := range rounds {
		text := "round " + string(rune('a'+i))
		said = append(said, "user: "+text, "assistant: "+text)
		if i == 0 {
			s.Open("t", "round a")
			s.Watch(t, "t", func(e event.AgentEvent) {
				if e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByAgent {
					seen <- struct{}{}
				}
			})
		} else {
			s.Say("t", text)
		}
		check.Arrives(t, seen, "the reply")
		s.Kill()
		s.Start()
	}
	s.Say("t", "the end")
	s.AwaitTurns("t", rounds+1)
	require.Equal(t, append(said, "user: the end", "assistant: the end"), s.contents("t"))
	require.Equal(t, rounds+1, s.provider.Calls(), "the model is not called again for a stored reply")
	require.Zero(t, s.Terminate())
	requireWhole(t, s.open(), "t")
}

// onPostgres prepares a devserver on PostgreSQL, behind a proxy. direct is the store without the
// proxy.
func (f faults) onPostgres(t *testing.T) (s stage, p *proc.Proxy, direct store.Store) {
	u, err := url.Parse(harness.Database(t))
	require.NoError(t, err)
	direct, err = postgres.Open(t.Context(), postgres.Config{URL: u.String()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = direct.Close() })
	p = proc.NewProxy(t, u.Host)
	u.Host = p.Addr
	return f.stage(t, nil, "DATABASE_URL="+u.String()), p, direct
}

// storedMessage waits until a thread has a message with this text in the store.
func storedMessage(t *testing.T, s store.Store, thread, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		records, err := s.Records(t.Context(), key(thread), store.Query{Types: []string{event.TypeMessage}})
		return err == nil && slices.ContainsFunc(records, func(r event.Record) bool {
			return strings.Contains(string(r.Payload), text)
		})
	}, testenv.Patience, testenv.Tick)
}

func (f faults) replyStored(t *testing.T) {
	s, p, db := f.onPostgres(t)
	s.Start()
	held := p.HoldAnswerTo("1 2 3 4")
	s.Open("t", "count 4")
	check.Arrives(t, held, "what the store is to commit")
	storedMessage(t, db, "t", "1 2 3 4")
	s.Kill()
	s.Start()
	// The end of the turn is stored with the reply: the next turn proves it.
	s.Say("t", "next")
	s.AwaitTurns("t", 2)
	require.Equal(t, []string{"user: count 4", "assistant: 1 2 3 4", "user: next", "assistant: next"}, s.contents("t"))
	require.Equal(t, 2, s.provider.Calls(), "the model is not called again for a stored reply")
	requireWhole(t, db, "t")
}

func (f faults) resultStored(t *testing.T) {
	s, p, db := f.onPostgres(t)
	s.Start()
	s.Open("t", `use shell_cmd {"command":"echo ran$((6*7)) | tee -a log"}`)
	call := s.AwaitApproval("t")
	held := p.HoldAnswerTo("ran42")
	require.Equal(t, "accepted", s.Approve("t", call.ToolCallID))
	check.Arrives(t, held, "what the store is to commit")
	storedMessage(t, db, "t", "ran42")
	s.Kill()
	s.Start()
	s.AwaitTurns("t", 1)
	require.Equal(t, []string{"ran42"}, s.lines("log"))
	messages := s.Messages("t")
	require.Len(t, messages, 4)
	require.False(t, messages[2].IsError)
	require.Contains(t, messages[2].Content, "ran42", "the stored result counts, and is not unknown")
	require.Equal(t, 2, s.provider.Calls())
	requireWhole(t, db, "t")
}

// terminated stops the process with SIGTERM, which leaves a model call and a command no time to
// finish.
func (f faults) terminated(t *testing.T) {
	s := f.stage(t, nil)
	s.Start()
	gate := s.provider.Block(2)
	defer gate.Release()
	s.Open("reply", "count 5")
	v := s.Watch(t, "reply", nil)
	check.Arrives(t, gate.Reached(), "the middle of the reply")
	s.Say("reply", "second")
	s.Open("tool", "use shell_cmd "+waits)
	require.Equal(t, "accepted", s.Approve("tool", s.AwaitApproval("tool").ToolCallID))
	require.Eventually(t, func() bool { return len(s.lines("slow")) > 0 }, testenv.Patience, testenv.Tick)

	require.Zero(t, s.Terminate())
	gate.Release()
	s.Start()

	s.AwaitTurns("reply", 2)
	require.Equal(t, []string{"user: count 5", "assistant: 1 2 3 4 5", "user: second", "assistant: second"}, s.contents("reply"))
	require.Len(t, s.asked("second"), 1)
	require.Len(t, s.asked("count 5"), 3)
	s.requireSeen("reply", v)
	requireShown(t, v)
	require.Contains(t, lastFailure(t, s, "reply"), "The worker stopped", "Temporal hears of it, and need not find out")

	s.AwaitTurns("tool", 1)
	require.Equal(t, []string{"ran"}, s.lines("slow"))
	require.Contains(t, s.Messages("tool")[2].Content, "outcome is unknown")
	require.Empty(t, lastFailure(t, s, "tool"), "its result was stored, and Temporal told, before the process ended")
	require.Zero(t, s.Terminate())
	requireWhole(t, s.open(), "reply")
}

// lastFailure is the reason for the last retry of a thread's activity, if there was one.
func lastFailure(t *testing.T, s stage, thread string) string {
	t.Helper()
	why := ""
	for _, e := range s.history(s.dial(), thread) {
		if f := e.GetActivityTaskStartedEventAttributes().GetLastFailure(); f != nil {
			why = f.GetMessage()
		}
	}
	return why
}

// awaitRest waits until a thread has handled everything so far.
func (s stage) awaitRest(thread string) {
	s.t.Helper()
	c := s.dial()
	require.Eventually(s.t, func() bool { return !check.TaskOpen(s.history(c, thread)) }, testenv.Patience, testenv.Tick)
}

// dial connects to the devserver's Temporal.
func (s stage) dial() client.Client {
	s.t.Helper()
	c, err := client.Dial(client.Options{
		HostPort: s.Temporal, Logger: log.NewStructuredLogger(harness.Quiet),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: testenv.Patience},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

// history returns the events of a thread's workflow.
func (s stage) history(c client.Client, thread string) (out []*history.HistoryEvent) {
	s.t.Helper()
	it := c.GetWorkflowHistory(s.t.Context(), signals.WorkflowID(signals.DefaultNamespace, thread), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		require.NoError(s.t, err)
		out = append(out, e)
	}
	return out
}
