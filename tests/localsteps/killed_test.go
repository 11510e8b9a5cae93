package localsteps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// telling is a kind of worker: it reports its writes, and its agent has a tool that must run once and one that may run
// again.
func telling(w killing.Worker, c *threadmill.Config) error {
	look := tool.MustFunc("look", "Looks.", func(ctx context.Context, _ tool.Call, in struct {
		How string `json:"how"`
	},
	) (string, error) {
		return "looked: " + in.How, w.Tell(ctx, "look", in.How)
	}, tool.Idempotent())
	c.Store, c.StaleAfter = killing.Telling{Store: teststore.Of(c.Store), Worker: w}, killing.StaleAfter
	c.Tools = append(c.Tools, look)
	c.Agents[0].Tools = []string{"act", "look"}
	return nil
}

// killed is a world whose workers a test kills.
type killed struct{ *killing.World }

// stopAt withholds the response to the report of a thread with the number, counted from 0 and from now on.
func (k killed) stopAt(thread string, number int) <-chan struct{} {
	n := 0
	return k.HoldFirst(func(r killing.Report) bool {
		if r.What != thread {
			return false
		}
		n++
		return n > number
	})
}

// signal posts a message by a plain signal without an id.
func (k killed) signal(thread, content string) {
	k.T.Helper()
	p := signals.UserMessage(thread, "ann", content)
	require.NoError(k.T, k.Temporal.SignalWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, thread), "", signals.SignalPost, p))
}

// work is a turn with two parallel calls of tools, whose reports have the name.
func work(name string) string {
	return fmt.Sprintf("use act {\"how\":%q}\nuse look {\"how\":%q}\nthen\ndone %s", name, name, name)
}

// whats names a thread's records by their types.
func whats(w *harness.Harness, thread string) (out []string) {
	for _, r := range check.AllRecords(w, thread) {
		out = append(out, r.Type)
	}
	return out
}

// TestLocalStepsKilled kills the worker with SIGKILL before and after each write of a turn whose steps are local
// activities.
func TestLocalStepsKilled(t *testing.T) {
	t.Parallel()
	k := killed{killing.New(t, harness.Options{}, "telling")}
	k.Start()
	id := k.Open()
	n := 0
	check.Paced(k.Harness, id, func() { n++; k.SayBySignal(id, work(fmt.Sprint("warm", n))) })
	before, told := len(check.AllRecords(k.Harness, id)), k.Reported()
	k.signal(id, work("measured"))
	k.awaitWork(id, "measured")
	kinds := whats(k.Harness, id)[before:]
	gaps := []string{}
	for _, r := range k.Reports()[told:] {
		if r.What == id {
			gaps = append(gaps, r.Key)
		}
	}
	k.Kill()
	require.Greater(t, len(gaps), 8, "writes, before and after each: %q", gaps)
	for i := range gaps {
		t.Run(fmt.Sprint("S2-51 gap ", i), func(t *testing.T) {
			t.Parallel()
			killedAt(t, i, kinds, false)
		})
		t.Run(fmt.Sprint("S2-51 in the first turn of a thread, gap ", i), func(t *testing.T) {
			t.Parallel()
			killedAt(t, i, kinds, true)
		})
	}
}

// awaitWork waits until a turn of work is stored.
func (k killed) awaitWork(thread, name string) {
	k.T.Helper()
	require.Eventually(k.T, func() bool {
		said := k.Messages(thread)
		return len(said) > 0 && said[len(said)-1].Role == event.RoleAssistant && strings.HasSuffix(said[len(said)-1].Content, "done "+name)
	}, 2*testenv.Patience, testenv.Tick)
	check.Settle(k.Harness, thread)
}

// killedAt kills a worker at the gap of a turn, and checks that the turn has the same records as one that was not disturbed. If first is
// set, it is the first turn of a thread, of whose steps only the killed worker knows that they are quick.
func killedAt(t *testing.T, gap int, want []string, first bool) {
	k := killed{killing.New(t, harness.Options{}, "telling")}
	k.Start()
	for attempt := range 5 {
		id, name := k.Open(), fmt.Sprint("cut", attempt)
		n := 0
		check.Paced(k.Harness, id, func() { n++; k.SayBySignal(id, work(fmt.Sprintf("%s-warm%d", name, n))) })
		before, history := len(check.AllRecords(k.Harness, id)), len(check.HistoryOf(k.Harness, id, ""))
		if first {
			id, before, history = "first-"+id, 0, 0
		}
		reached := k.stopAt(id, gap)
		if first {
			p := signals.UserMessage(id, "ann", work(name))
			require.NoError(t, k.Threads.Open(k.Ctx(), id, signals.Start{}, &p))
		} else {
			k.signal(id, work(name))
		}
		check.Arrives(t, reached, "the gap")
		k.Kill()
		stored, asked := len(check.OfType(k.Harness, id, event.TypeLLMCall)), len(check.ModelsOf(k.Harness, "done "+name))
		begun := k.begun(id, "act")
		local := lostTask(k.Harness, id, history)
		k.Start()
		k.awaitWork(id, name)
		if !local {
			continue // the machine was too busy
		}
		require.True(t, has(check.HistoryOf(k.Harness, id, "")[history:], enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT))
		records := check.AllRecords(k.Harness, id)
		check.RequireWhole(t, records)
		turn := whats(k.Harness, id)[before:]
		if first {
			turn = slices.DeleteFunc(turn, func(what string) bool { return what == event.TypePrompt || what == event.TypeStatus })
		}
		require.Equal(t, want, turn, "the same records in the same order")
		require.Equal(t, len(check.OfType(k.Harness, id, event.TypeLLMCall))-stored, len(check.ModelsOf(k.Harness, "done "+name))-asked,
			"one request for each reply that was not stored")
		k.requireRun(t, id, name, begun)
		k.Kill()
		return
	}
	require.Fail(t, "the machine was too busy to kill a worker during a local activity")
}

// begun reports whether the tool has been started and its end is not stored.
func (k killed) begun(thread, tool string) bool {
	logs := check.ToolLogs(k.Harness, thread)
	return slices.ContainsFunc(logs, func(l store.ToolLog) bool { return l.ToolName == tool && l.Status == store.ToolStarted })
}

// requireRun checks that act has run at most once, and that its result is unknown only if it may have run when the worker was killed.
func (k killed) requireRun(t *testing.T, thread, name string, begun bool) {
	t.Helper()
	var results []string
	for _, m := range check.Results(k.Harness, thread) {
		if strings.HasSuffix(m.Content, " "+name) || m.IsError {
			results = append(results, m.Content)
		}
	}
	require.Len(t, results, 2)
	require.Contains(t, results, "looked: "+name)
	require.LessOrEqual(t, k.Asked("act", name), 1, "a tool that may have run is not run again")
	if slices.Contains(results, "acted: "+name) {
		require.Equal(t, 1, k.Asked("act", name))
		return
	}
	require.True(t, begun, "the results are %q", results)
	require.Contains(t, strings.Join(results, " "), "outcome is unknown")
}
