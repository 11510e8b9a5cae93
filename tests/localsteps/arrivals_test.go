package localsteps

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// cutAt returns a thread whose worker was killed in a turn of work with the name, whose steps are local activities, after
// the store had what contains text.
func (k killed) cutAt(text, name string) (id string) {
	k.T.Helper()
	for range 5 {
		id = k.Open()
		n := 0
		paced(k.Harness, id, func() { n++; k.Say(id, work("warm"+strings.Repeat("x", n))) })
		before := len(check.HistoryOf(k.Harness, id, ""))
		reached := k.HoldFirst(func(r killing.Report) bool { return r.What == id && strings.HasPrefix(r.Key, "after ") && strings.Contains(r.Key, text) })
		k.PostMessage(id, "e1", work(name))
		check.Arrives(k.T.(*testing.T), reached, text)
		k.Kill()
		cut := check.HistoryOf(k.Harness, id, "")[before:]
		if cut[len(cut)-1].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED && !scheduled(cut) {
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
	for _, c := range []struct {
		name, point string
		arrives     func(killed, string)
	}{
		{"an interrupt of the event, its reply is stored", ".llm", interrupt},
		{"an interrupt of the event, a tool has run", "end of ", interrupt},
		{"the thread is closed, the reply is stored", ".llm", closes},
		{"a message that joins, the reply is stored", ".llm", says(event.OnBusySteer)},
		{"a message that interrupts, the reply is stored", ".llm", says(event.OnBusyInterrupt)},
		{"a message that waits, a tool has run", "end of ", says(event.OnBusyEnqueue)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := killed{killing.New(t, harness.Options{}, "telling")}
			k.Start()
			id := k.cutAt(c.point, "cut")
			c.arrives(k, id)
			k.Start()
			if c.name[:10] == "the thread" {
				require.NoError(t, k.Temporal.GetWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, id), "").Get(k.Ctx(), nil))
			} else {
				check.Settle(k.Harness, id)
				k.Say(id, "hello again")
			}
			for _, m := range k.Messages(id) {
				if !strings.Contains(m.Content, "warm") {
				t.Logf("%s %s: %s %v", m.ID, m.Role, m.Content, m.ToolCalls)
				}
			}
			for _, r := range check.AllRecords(k.Harness, id) {
				if r.Type == "status" || r.Type == "turn_ended" {
				t.Log(r.ID, string(r.Payload))
				}
			}
			check.RequireWhole(t, check.AllRecords(k.Harness, id))
			check.RequireSettled(t, k.Harness, id)
		})
	}
}
