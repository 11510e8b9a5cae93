package localsteps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// swing is a tool that is quick until it is told to wait.
type swing struct {
	tool.Tool
	runs          atomic.Int64
	reached, open chan struct{}
}

func newSwing(opts ...tool.Option) *swing {
	s := &swing{reached: make(chan struct{}, 10), open: make(chan struct{})}
	s.Tool = tool.MustFunc("swing", "Swings.", func(ctx context.Context, _ tool.Call, in struct {
		Wait bool `json:"wait,omitempty"`
	},
	) (string, error) {
		s.runs.Add(1)
		if in.Wait {
			s.reached <- struct{}{}
			select {
			case <-s.open:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return "swung", nil
	}, opts...)
	return s
}

const waits = `use swing {"wait":true}`

// begin begins a turn of a thread whose model and tool have been quick.
func (s *swing) begin(t *testing.T, w *harness.Harness, content string) (id, posted string, before int) {
	t.Helper()
	id = w.Open()
	check.Paced(w, id, func() { w.SayBySignal(id, "use swing {}") })
	before = len(check.HistoryOf(w, id, ""))
	posted = w.Post(id, content)
	check.Arrives(t, s.reached, "the tool")
	return id, posted, before
}

// TestSlowAtLast: a tool that was always quick and then takes long becomes visible to Temporal without running again.
func TestSlowAtLast(t *testing.T) {
	t.Parallel()
	s := newSwing()
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}})
	id, posted, before := s.begin(t, w, waits)
	require.Eventually(t, func() bool { return check.Scheduled(check.HistoryOf(w, id, "")[before:]) }, testenv.Patience, testenv.Tick)
	ran := s.runs.Load()
	close(s.open)
	require.Contains(t, w.Await(id, posted).Message.Content, "swung")
	require.Equal(t, ran, s.runs.Load(), "the tool is not run again")
	before = len(check.Settle(w, id))
	w.Say(id, "use swing {}")
	require.True(t, check.Scheduled(check.Settle(w, id)[before:]), "the tool is not quick any more")
}

// TestAnswersDuringHold: a thread whose step holds the workflow task answers queries and accepts updates, decisions and
// interrupts long before the step ends.
func TestAnswersDuringHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does   func(t *testing.T, w *harness.Harness, id string)
		status signals.TurnStatus
	}{
		"a query": {func(t *testing.T, w *harness.Harness, id string) {
			s, err := w.Threads.State(w.Ctx(), id)
			require.NoError(t, err)
			require.NotEqual(t, signals.ThreadIdle, s.Status)
		}, signals.TurnCompleted},
		"a post by update": {func(t *testing.T, w *harness.Harness, id string) {
			_, err := w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "ann", "next"))
			require.NoError(t, err)
		}, signals.TurnCompleted},
		"a decision on another call of the batch": {func(t *testing.T, w *harness.Harness, id string) {
			require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
			require.Eventually(t, func() bool { return check.Made(w, "made") == "made\n" }, testenv.Patience, testenv.Tick, "the call runs beside the other")
		}, signals.TurnCompleted},
		"an interrupt": {func(t *testing.T, w *harness.Harness, id string) {
			require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
			check.AwaitMessages(w, id, 4)
		}, signals.TurnInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSwing()
			w := harness.New(t, harness.Options{Tools: []tool.Tool{s}})
			id, posted, _ := s.begin(t, w, waits+"\n"+check.Touches("made"))
			c.does(t, w, id)
			select {
			case <-s.open:
				require.Fail(t, "the tool has ended")
			default:
			}
			close(s.open)
			if c.status == signals.TurnCompleted {
				for _, q := range approvals(w, id) {
					check.Approve(t, w, id, q.ToolCallID)
				}
			}
			require.Equal(t, c.status, w.Await(id, posted).Status)
			check.Settle(w, id)
			check.RequireWhole(t, check.AllRecords(w, id))
		})
	}
}

func approvals(w *harness.Harness, id string) []event.ApprovalRequest {
	out, err := w.Threads.Approvals(w.Ctx(), id)
	require.NoError(w.T, err)
	return out.Approvals
}

// TestLocalOutage: a provider that is overloaded in a local activity is called again after a durable timer, and its attempts
// count on.
func TestLocalOutage(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{MaxModelAttempts: 4})
	id := w.Open()
	check.Paced(w, id, func() { w.SayBySignal(id, "hello") })
	before, calls := len(check.HistoryOf(w, id, "")), w.Provider.Calls()
	w.Provider.Fail(llmtest.Status(429, ""), llmtest.Status(429, ""))
	w.SayBySignal(id, "through it")
	said := w.Messages(id)
	require.Equal(t, event.CreatedByAgent, said[len(said)-1].SenderType)
	require.Equal(t, "through it", said[len(said)-1].Content)
	added := check.Settle(w, id)[before:]
	require.Equal(t, calls+3, w.Provider.Calls())
	require.True(t, has(added, enumspb.EVENT_TYPE_TIMER_STARTED), check.Describe(added))
	all := check.OfType(w, id, event.TypeLLMCall)
	require.Equal(t, 3, harness.Payload[event.LLMCall](w, all[len(all)-1]).Attempt)

	w.Provider.Fail(llmtest.Status(429, ""), llmtest.Status(429, ""), llmtest.Status(429, ""), llmtest.Status(429, ""))
	calls = w.Provider.Calls()
	out := w.Say(id, "never")
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Contains(t, out.Error, "4 attempts")
	require.Equal(t, calls+4, w.Provider.Calls())
}

// TestLocalAttempts: the run as a local activity counts as one of the runs that an idempotent tool allows.
func TestLocalAttempts(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	var runs atomic.Int64
	shaky := tool.MustFunc("shaky", "Shakes.", func(context.Context, tool.Call, struct{}) (string, error) {
		if fails.Load() {
			runs.Add(1)
			return "", tool.Retryable(errors.New("shaken"))
		}
		return "still", nil
	}, tool.Idempotent(), tool.MaxAttempts(2))
	w := harness.New(t, harness.Options{Tools: []tool.Tool{shaky}})
	id := w.Open()
	check.Paced(w, id, func() { w.SayBySignal(id, "use shaky {}") })
	before := len(check.HistoryOf(w, id, ""))
	fails.Store(true)
	require.Contains(t, w.Say(id, "use shaky {}").Message.Content, "shaken")
	require.NotEmpty(t, check.LocalSteps(check.Settle(w, id)[before:]))
	require.EqualValues(t, 2, runs.Load())
}

// TestSlowAndQuickThreads: threads whose steps alternate between slow and quick share a worker, and all turns end with each
// tool run once.
func TestSlowAndQuickThreads(t *testing.T) {
	t.Parallel()
	const threads, turns = 10, 6
	var runs sync.Map
	nap := tool.MustFunc("nap", "Naps.", func(ctx context.Context, c tool.Call, in struct {
		MS int `json:"ms"`
	},
	) (string, error) {
		n, _ := runs.LoadOrStore(c.ID, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		select {
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
		case <-ctx.Done():
		}
		return "rested", ctx.Err()
	})
	w := harness.New(t, harness.Options{Tools: []tool.Tool{nap}})
	var all sync.WaitGroup
	ids := make([]string, threads)
	for i := range ids {
		ids[i] = w.Open()
		all.Go(func() {
			for n := range turns {
				ms := 1
				if n%3 == i%3 {
					ms = 1800
				}
				w.Say(ids[i], fmt.Sprintf(`use nap {"ms":%d}`, ms))
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		check.Settle(w, id)
		check.RequireWhole(t, check.AllRecords(w, id))
		results := check.Results(w, id)
		require.Len(t, results, turns)
		for call, m := range results {
			require.Equal(t, "rested", m.Content)
			n, _ := runs.Load(call)
			require.EqualValues(t, 1, n.(*atomic.Int64).Load())
		}
	}
}

// TestOneOfTwoInterrupted: two agents answer at once, one of them with a step that waits; an interrupt ends that step, and
// the other's reply stays.
func TestOneOfTwoInterrupted(t *testing.T) {
	t.Parallel()
	s := newSwing()
	who := func(name string) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"swing"}}
	}
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{who("alice"), who("bob")}})
	id := w.Open("alice", "bob")
	check.Paced(w, id, func() { w.SayBySignal(id, "use swing {}") })
	posted := w.Post(id, waits)
	check.Arrives(t, s.reached, "the first tool")
	check.Arrives(t, s.reached, "the second tool")
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	require.Equal(t, signals.TurnInterrupted, w.Await(id, posted).Status)
	check.Settle(w, id)
	check.RequireWhole(t, check.AllRecords(w, id))
	require.Contains(t, w.Say(id, "@alice hello").Message.Content, "hello")
}

// TestContinuesAsNewLocally: a thread whose steps are local activities continues as new between them, and loses nothing.
func TestContinuesAsNewLocally(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 30}})
	id := w.Open()
	check.Paced(w, id, func() { w.SayBySignal(id, "use note {}") })
	run := check.CurrentRun(w, id)
	var posted string
	for i := range 12 {
		posted = w.Post(id, strings.Repeat("use note {}\nthen\n", 3)+fmt.Sprint("turn ", i))
	}
	require.Contains(t, w.Await(id, posted).Message.Content, "turn 11")
	check.Settle(w, id)
	require.NotEqual(t, run, check.CurrentRun(w, id))
	records := check.AllRecords(w, id)
	check.RequireWhole(t, records)
	var said []string
	for _, m := range w.Messages(id) {
		if m.SenderType == event.CreatedByUser && strings.Contains(m.Content, "turn ") {
			said = append(said, m.Content[strings.LastIndex(m.Content, "turn "):])
		}
	}
	require.Len(t, said, 12)
	for i, text := range said {
		require.Equal(t, fmt.Sprint("turn ", i), text)
	}
}

// TestClosedDuringHold: a thread that is closed, or erased, during a local activity ends, and the step with it.
func TestClosedDuringHold(t *testing.T) {
	t.Parallel()
	s := newSwing()
	w := harness.New(t, harness.Options{Tools: []tool.Tool{s}})
	id, _, _ := s.begin(t, w, waits)
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}))
	require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "").Get(w.Ctx(), nil))
	check.RequireWhole(t, check.AllRecords(w, id))

	id, _, _ = s.begin(t, w, waits)
	_, err := w.Runtime.Erase(w.Ctx(), id, "ann")
	require.NoError(t, err)
	_, err = w.Store.Thread(w.Ctx(), w.Key(id))
	require.Error(t, err)
}

// TestSubAgentInterrupted: a sub-agent whose step is a local activity stops when its parent's turn is interrupted.
func TestSubAgentInterrupted(t *testing.T) {
	t.Parallel()
	s := newSwing()
	w := harness.New(t, harness.Options{Agents: check.Team("swing"), Tools: []tool.Tool{s}})
	id := w.Open()
	posted := w.Post(id, check.Asks("helper", "use swing {}", "then", "use swing {}", "then", waits))
	check.Arrives(t, s.reached, "the tool")
	sub := check.Sub(w, id, 1)
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	require.Equal(t, signals.TurnInterrupted, w.Await(id, posted).Status)
	require.True(t, temporal.IsCanceledError(w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, sub), "").Get(w.Ctx(), nil)))
	require.NotEmpty(t, check.LocalSteps(check.HistoryOf(w, sub, "")))
	for _, thread := range []string{id, sub} {
		check.RequireWhole(t, check.AllRecords(w, thread))
	}
}
