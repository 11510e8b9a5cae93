package threadmilltest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/threadmilltest"
	"github.com/threadmill/threadmill/tool"
)

// seat asks the person for a day.
type seat struct{}

func (seat) Definition() tool.Definition {
	return tool.Definition{Name: "seat", Description: "Books a seat.", Parameters: []byte(`{"type":"object"}`)}
}

func (seat) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	if call.Input == nil {
		return tool.Result{}, &tool.InputRequired{Questions: []event.InputQuestion{{
			ID: "day", Kind: event.InputForm, Message: "Which day?",
			Schema: []byte(`{"type":"object","properties":{"day":{"type":"string"}},"required":["day"],"additionalProperties":false}`),
		}}}
	}
	return tool.Result{Output: "booked " + string(call.Input.Answers["day"].Content)}, nil
}

// TestWaits: a test waits for people's turns, and acts for them.
func TestWaits(t *testing.T) {
	t.Parallel()
	screen := tool.ClientSide(tool.Definition{Name: "look", Description: "Looks.", Parameters: []byte(`{"type":"object"}`), Deadline: time.Hour})
	cfg := desk(scripted.New(
		scripted.Call("refund", order{"A-1", 20}).And("refund", order{"A-2", 900}), scripted.Call("seat", nil), scripted.Call("look", nil),
		scripted.Say("done"),
	))
	cfg.Tools = append(cfg.Tools, screen, seat{})
	cfg.Agents[0].Tools = []string{"refund", "look", "seat"}
	rt := threadmilltest.New(t, cfg)
	turn := rt.Say("t1", "Please do it all.")
	requests := rt.WaitForApprovals("t1", 2)
	for _, q := range requests {
		if strings.Contains(q.Arguments, "A-1") {
			rt.Decide("t1", q, signals.Decide{Decision: event.DecisionApprove, Args: []byte(`{"id":"A-1","euros":5}`), By: "bob"})
		} else {
			rt.Deny("t1", q, "ask a manager")
		}
	}
	rt.Answer("t1", rt.WaitForInput("t1"), map[string]event.InputAnswer{"day": {Action: event.InputAccept, Content: []byte(`{"day":"monday"}`)}})
	rt.Return("t1", rt.WaitForClientCall("t1"), "a cat")
	events := rt.Events(turn)
	require.True(t, events[len(events)-1].EndsTurn())
	rt.WaitIdle("t1")
	rt.Golden("t1", "testdata/waits.txt")
}

func TestScripted(t *testing.T) {
	t.Parallel()
	cfg := threadmill.Config{
		Agents:     []agent.Agent{{Name: "clerk", Model: "real/big"}, {Name: "depot", Model: "real/small"}},
		TitleModel: "real/small", Models: map[string]llm.Provider{"real": nil},
	}
	rt := threadmilltest.New(t, threadmilltest.Scripted(cfg, scripted.New(
		scripted.Say("It left today.").For("depot"), scripted.Say("Hello.").For("clerk"),
	)))
	require.Equal(t, "Hello.", rt.Ask("t1", "@clerk hello"))
	rt.Open("t2", signals.Start{Agents: []string{"clerk", "depot"}})
	require.Equal(t, "It left today.", rt.Ask("t2", "@depot where is it?"))
	require.Equal(t, "real/big", cfg.Agents[0].Model, "the configuration of the application stays")
}

// TestFailures: each failure says what is wrong, with the transcript of the thread.
func TestFailures(t *testing.T) {
	t.Parallel()
	asksForRefund := func() threadmill.Config {
		return desk(scripted.New(scripted.Call("refund", order{"A-1", 20}), scripted.Say("done")))
	}
	for name, tt := range map[string]struct {
		test func(t testing.TB)
		want []string
	}{
		"an invalid configuration": {
			func(t testing.TB) { threadmilltest.New(t, threadmill.Config{}) },
			[]string{"threadmilltest: threadmill: Config.Agents is required"},
		},
		"an unexpected question": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello").On("hello"))))
				rt.Ask("t1", "bye")
			},
			[]string{`no reply fits: model "clerk" was asked by user "bye"; the script expects: on "hello" say "hello"`, "ann: bye\n", "-- turn failed"},
		},
		"a question that nobody asks": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"), scripted.Say("bye"))))
				rt.Ask("t1", "hello")
			},
			[]string{"nobody has asked for these replies of the script:\n  say \"bye\"\n"},
		},
		"no approval": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("No."))))
				rt.Ask("t1", "Please pay back A-1.")
				rt.WaitForApproval("t1")
			},
			[]string{`thread "t1": is idle without an approval request`, "clerk: No."},
		},
		"no input": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("No."))))
				rt.Ask("t1", "hello")
				rt.WaitForInput("t1")
			},
			[]string{`thread "t1": is idle without a request for input`},
		},
		"no client call": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("No."))))
				rt.Ask("t1", "hello")
				rt.WaitForClientCall("t1")
			},
			[]string{`thread "t1": is idle without a call for a client`},
		},
		"no thread": {
			func(t testing.TB) { threadmilltest.New(t, asksForRefund()).Emit("t1", "file.changed", nil) },
			[]string{`thread "t1": event file.changed was not accepted:`, "no such thread"},
		},
		"a decision that is rejected": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, asksForRefund())
				rt.Say("t1", "Please pay back A-1.")
				q := rt.WaitForApproval("t1")
				rt.Approve("t1", q)
				rt.Deny("t1", q, "too late")
			},
			[]string{`thread "t1": deny by ann on refund was not accepted:`, "clerk calls refund"},
		},
		"a turn that fails": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.ContextOverflow())))
				rt.Wait(rt.Say("t1", "hello"))
			},
			[]string{"failed: scripted answered 400: the context is too long"},
		},
		"a turn that does not fail": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"))))
				rt.Fails(rt.Say("t1", "hello"))
			},
			[]string{"was to fail, but has not", "clerk: hello"},
		},
		"a negative time": {
			func(t testing.TB) { threadmilltest.New(t, asksForRefund()).Advance("t1", -time.Hour) },
			[]string{"Advance by -1h0m0s: must be positive"},
		},
		"an assertion of the test": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"))))
				t.Errorf("got %q", rt.Ask("t1", "hello"))
			},
			[]string{`got "hello"`, "thread \"t1\":\n\nann: hello\nclerk: hello\n-- turn completed\n"},
		},
		"no golden file": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"))))
				rt.Ask("t1", "hello")
				rt.Golden("t1", "testdata/none.txt")
			},
			[]string{"there is no golden file testdata/none.txt: write it with THREADMILL_UPDATE=1", "clerk: hello"},
		},
		"another golden file": {
			func(t testing.TB) {
				rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"))))
				rt.Ask("t1", "hello")
				rt.Golden("t1", "testdata/waits.txt")
			},
			[]string{`the transcript differs from testdata/waits.txt in line 1: want "ann: Please do it all.", got "ann: hello"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := fails(t, tt.test)
			for _, want := range tt.want {
				require.Contains(t, said, want)
			}
			require.Equal(t, 1, max(1, strings.Count(said, "-- turn completed\n")), "a transcript is printed once: %s", said)
		})
	}
}

// TestSubtests: a subtest that fails does not fail the one that has the runtime.
func TestSubtests(t *testing.T) {
	t.Parallel()
	rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"))))
	rt.Ask("t1", "hello")
	said := fails(t, func(t testing.TB) { rt.For(t).WaitForApproval("t1") })
	require.Contains(t, said, "is idle without an approval request")
}

// TestParallel: runtimes share the server, and may use the same thread ids.
func TestParallel(t *testing.T) {
	t.Parallel()
	var tests sync.WaitGroup
	for _, name := range []string{"one", "two", "three", "four"} {
		rt := threadmilltest.New(t, desk(scripted.New(scripted.Call("refund", order{name, 20}), scripted.Say(name))))
		tests.Go(func() {
			turn := rt.Say("t1", "hello "+name)
			rt.Approve("t1", rt.WaitForApproval("t1"))
			if got := rt.Wait(turn).Message.Content; got != name {
				t.Errorf("%s got %s", name, got)
			}
			if said := rt.Transcript("t1"); strings.Count(said, "hello") != 1 {
				t.Errorf("%s has messages of others:\n%s", name, said)
			}
		})
	}
	tests.Wait()
}

// TestLeavesNothing: a test that fails in mid-turn leaves neither workflows nor schedules, nor a step that runs.
func TestLeavesNothing(t *testing.T) {
	t.Parallel()
	temporal := threadmilltest.Temporal(t)
	gate := scripted.NewGate()
	cfg := desk(scripted.New(scripted.Call("refund", order{"A-1", 20}).On("A-1"), scripted.Reply{Text: "late", Hold: gate}))
	cfg.TaskQueue = "leaves-nothing"
	var model sync.WaitGroup
	cfg.Models["scripted"] = counted{cfg.Models["scripted"], &model}
	f := run(t, func(t testing.TB) {
		rt := threadmilltest.New(t, cfg)
		_, err := rt.Client().CreateSchedule(context.Background(), signals.Schedule{ID: "daily", ThreadID: "t3", Cron: []string{"0 8 * * *"}, Message: &event.NewMessage{Content: "Good morning."}})
		if err != nil {
			t.Fatalf("%v", err)
		}
		rt.Say("t1", "Please pay back A-1.")
		rt.WaitForApproval("t1")
		rt.Say("t2", "hello")
		<-gate.Reached()
		t.Fatalf("no more")
	})
	require.Contains(t, f.said.String(), "-- the thread is waiting_approval")
	model.Wait()
	// The list may lag behind, but never shows more than there is.
	for _, query := range []string{"TaskQueue = 'leaves-nothing' AND ExecutionStatus = 'Running'"} {
		open, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		require.Empty(t, open.GetExecutions())
	}
}

// counted counts the calls of a model that run.
type counted struct {
	llm.Provider
	running *sync.WaitGroup
}

func (c counted) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	c.running.Add(1)
	defer c.running.Done()
	return c.Provider.Generate(ctx, req, onDelta)
}

// TestGoldenIsWritten: with the environment variable, or the flag of the test package.
func TestGoldenIsWritten(t *testing.T) {
	t.Setenv("THREADMILL_UPDATE", "1")
	rt := threadmilltest.New(t, desk(scripted.New(scripted.Say("hello"))))
	rt.Ask("t1", "hello")
	file := filepath.Join(t.TempDir(), "testdata", "hello.txt")
	rt.Golden("t1", file)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "ann: hello\nclerk: hello\n-- turn completed\n", string(got))
}

// TestStableTranscript: transcripts with events and background tasks are the same in every run.
func TestStableTranscript(t *testing.T) {
	t.Parallel()
	run := func() string {
		cfg := threadmill.Config{
			Agents: []agent.Agent{{Name: "clerk", Model: "demo/any", Tools: []string{"build", "list_tasks"}}},
			Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
			Tools:  []tool.Tool{tool.MustFunc("build", "Builds.", func(context.Context, tool.Call, struct{}) (string, error) { return "built", nil }, tool.Background())},
		}
		rt := threadmilltest.New(t, cfg)
		rt.Ask("t1", "use build {}")
		rt.WaitForTasks("t1")
		rt.Emit("t1", "file.changed", map[string]any{"path": "a", "due": "2027-01-31T12:00:00Z", "host": "mail.server", "home": "~tester"})
		rt.WaitIdle("t1")
		rt.Ask("t1", "use list_tasks {}")
		return rt.Transcript("t1")
	}
	first := run()
	require.Equal(t, first, run())
	require.Contains(t, first, "(by time at the latest)")
	require.Contains(t, first, `"startedAt":"time"`)
	require.Contains(t, first, `"due":"2027-01-31T12:00:00Z","home":"~tester","host":"mail.server"`, "what programs say stays")
	require.Contains(t, first, "task t1~task-1.")
}
