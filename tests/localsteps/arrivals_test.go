package localsteps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// cutAt returns a thread whose worker was killed in a turn of work with the name, whose steps are local activities, after
// the store had what contains text.
func (k killed) cutAt(text, name string) (id string) {
	k.T.Helper()
	return k.cutIn(text, work(name), work)
}

// cutIn is cutAt for a turn of any content, in a thread that knows from turns of warm that its steps are quick.
func (k killed) cutIn(text, content string, warm func(name string) string) (id string) {
	k.T.Helper()
	for range 5 {
		id = k.Open()
		n := 0
		check.Paced(k.Harness, id, func() { n++; k.SayBySignal(id, warm("warm"+strings.Repeat("x", n))) })
		before := len(check.HistoryOf(k.Harness, id, ""))
		reached := k.HoldFirst(func(r killing.Report) bool {
			return r.What == id && strings.HasPrefix(r.Key, "after ") && strings.Contains(r.Key, text)
		})
		k.PostMessage(id, "e1", content)
		check.Arrives(k.T.(*testing.T), reached, text)
		k.Kill()
		if lostTask(k.Harness, id, before) {
			return id
		}
		k.Start()
	}
	require.Fail(k.T, "the machine was too busy to kill a worker during a local activity")
	return ""
}

// TestArrivesBeforeSecondRun: what arrives between the loss of a workflow task, whose steps have stored records, and its
// second run takes effect as if the task had not been lost.
func TestArrivesBeforeSecondRun(t *testing.T) {
	t.Parallel()
	interrupt := func(k killed, id string) {
		require.NoError(k.T, k.Temporal.SignalWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, id), "", signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, EventID: "e1", By: "ann"}))
	}
	closes := func(k killed, id string) {
		require.NoError(k.T, k.Threads.Control(k.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}))
	}
	says := func(onBusy event.OnBusy) func(k killed, id string) {
		return func(k killed, id string) {
			p := signals.UserMessage(id, "ann", "second")
			p.OnBusy = onBusy
			require.NoError(k.T, k.Temporal.SignalWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, id), "", signals.SignalPost, p))
		}
	}
	ends := func(status signals.TurnStatus) []string { return []string{string(status)} }
	completed := string(signals.TurnCompleted)
	for _, c := range []struct {
		name, point string
		arrives     func(killed, string)

		// ends are the ends of the turns since the kill, and acts whether the tools run that the reply calls.
		ends []string
		acts bool
	}{
		{"an interrupt, the reply is stored", ".llm", interrupt, ends(signals.TurnInterrupted), false},
		{"an interrupt, a tool has been started", "start of ", interrupt, ends(signals.TurnInterrupted), false},
		{"the end of the thread, the reply is stored", ".llm", closes, ends(signals.TurnInterrupted), false},
		{"a message that joins the turn, the reply is stored", ".llm", says(event.OnBusySteer), []string{completed}, true},
		{"a message that waits, a tool has run", "end of ", says(event.OnBusyEnqueue), []string{completed, completed}, true},
	} {
		t.Run("S2-51 "+c.name, func(t *testing.T) {
			t.Parallel()
			k := killed{killing.New(t, harness.Options{}, "telling")}
			k.Start()
			id := k.cutAt(c.point, "cut")
			before := len(check.OfType(k.Harness, id, event.TypeTurnEnded))
			begun := k.begun(id, "act")
			c.arrives(k, id)
			k.Start()
			check.AwaitRest(k.Harness, id)
			require.Eventually(t, func() bool { return len(check.OfType(k.Harness, id, event.TypeTurnEnded)) == before+len(c.ends) }, testenv.Patience, testenv.Tick)
			var ended []string
			for _, r := range check.OfType(k.Harness, id, event.TypeTurnEnded)[before:] {
				ended = append(ended, harness.Payload[event.TurnEnded](k.Harness, r).Status)
			}
			require.Equal(t, c.ends, ended)
			check.RequireWhole(t, check.AllRecords(k.Harness, id))
			for _, l := range check.ToolLogs(k.Harness, id) {
				require.NotEqual(t, store.ToolStarted, l.Status)
			}
			if c.acts {
				k.requireRun(t, id, "cut", begun)
			} else {
				require.LessOrEqual(t, k.Asked("act", "cut"), 1)
			}
		})
	}
}

// TestStartedBeforeInterrupt: a tool that was started in a lost workflow task may have run, also if the thread knows its call: the
// reply came from an activity.
func TestStartedBeforeInterrupt(t *testing.T) {
	t.Parallel()
	k := killed{killing.New(t, harness.Options{}, "telling")}
	k.Start()
	id := k.Open()
	check.Paced(k.Harness, id, func() { k.SayBySignal(id, work("warm")) })
	before := len(check.HistoryOf(k.Harness, id, ""))
	gate := k.Provider.Block(0)
	defer gate.Release()
	started := k.HoldFirst(func(r killing.Report) bool {
		return r.What == id && strings.HasPrefix(r.Key, "after ") && strings.Contains(r.Key, "start of ")
	})
	k.PostMessage(id, "e1", "use act {\"how\":\"cut\"}\nthen\ndone")
	check.Arrives(t, gate.Reached(), "the model's reply")
	require.Eventually(t, func() bool { return check.Scheduled(check.HistoryOf(k.Harness, id, "")[before:]) }, testenv.Patience, testenv.Tick)
	gate.Release()
	check.Arrives(t, started, "the start of the tool")
	k.Kill()
	interrupt := signals.Control{Action: signals.ControlInterrupt, By: "ann"}
	require.NoError(t, k.Temporal.SignalWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, id), "", signals.SignalControl, interrupt))
	k.Start()
	require.Equal(t, signals.TurnInterrupted, k.Ends(id, "e1").Status)
	check.RequireWhole(t, check.AllRecords(k.Harness, id))
	logs := check.ToolLogs(k.Harness, id)
	require.Equal(t, store.ToolUnknown, logs[len(logs)-1].Status)
	var said string
	for _, m := range check.Results(k.Harness, id) {
		if m.IsError {
			said = m.Content
		}
	}
	require.Contains(t, said, "outcome is unknown")
	require.LessOrEqual(t, k.Asked("act", "cut"), 1)
}

// TestDecisionBeforeSecondRun: people see a request, and the worker dies with the workflow task whose steps have stored it. A decision
// that arrives before the second run takes effect, although the thread has yet to begin the turn again.
func TestDecisionBeforeSecondRun(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(k killed, id string, d signals.Decide) error{
		"S4-91 by signal": func(k killed, id string, d signals.Decide) error {
			return k.Temporal.SignalWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, id), "", signals.SignalDecide, d)
		},
		"S4-91 by update": func(k killed, id string, d signals.Decide) error {
			out, err := k.Threads.Decide(k.Ctx(), id, d)
			if err == nil && out.Result != signals.DecideAccepted {
				err = fmt.Errorf("the result is %s", out.Result)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := killed{killing.New(t, harness.Options{}, "telling", "asking")}
			k.Start()
			id := k.cutIn(".request", "use look {\"how\":\"cut\"}\nthen\ndone", func(name string) string {
				return fmt.Sprintf("use act {\"how\":%q}\nthen\ndone", name)
			})
			asked := check.OfType(k.Harness, id, event.TypeApprovalRequest)
			require.Len(t, asked, 1)
			answered := make(chan error, 1)
			go func() {
				answered <- decide(k, id, check.Approving(harness.Payload[event.ApprovalRequest](k.Harness, asked[0])))
			}()
			k.Start()
			require.NoError(t, <-answered)
			require.Equal(t, signals.TurnCompleted, k.Ends(id, "e1").Status)
			require.Empty(t, check.OfType(k.Harness, id, event.TypeRejected))
			require.Equal(t, 1, k.Asked("look", "cut"))
		})
	}
}
