package main

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/threadmilltest"
)

var (
	paper = invoice{"R-17", "Paper Ltd", 900}
	fresh = invoice{"N-1", "New Ltd", 50}
)

// open returns a ledger and a runtime whose agent says what the script has.
func open(t *testing.T, script ...scripted.Reply) (*ledger, *threadmilltest.Runtime) {
	t.Helper()
	l := &ledger{paid: map[string]invoice{}}
	return l, threadmilltest.New(t, threadmilltest.Scripted(configuration(l), scripted.New(script...)))
}

func (l *ledger) all() map[string]invoice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.paid)
}

func approve(rt *threadmilltest.Runtime, request event.ApprovalRequest, by string) {
	rt.Decide("t1", request, signals.Decide{Decision: event.DecisionApprove, By: by})
}

// TestPay: one approval is not enough.
func TestPay(t *testing.T) {
	t.Parallel()
	l, rt := open(t,
		scripted.Call("pay", paper).On("R-17"),
		scripted.Say("R-17 is paid."),
	)
	turn := rt.Say("t1", "Please pay R-17.")
	request := rt.WaitForApproval("t1")
	approve(rt, request, "bo")
	require.Len(t, rt.WaitForApprovals("t1", 1), 1, "still waits")
	require.Empty(t, l.all())
	approve(rt, request, "cleo")
	require.Equal(t, "R-17 is paid.", rt.Wait(turn).Message.Content)
	rt.Golden("t1", "testdata/pay.txt")
}

// TestStranger: only the people whom the rule names may decide.
func TestStranger(t *testing.T) {
	t.Parallel()
	_, rt := open(t, scripted.Call("pay", paper), scripted.Say("Bo does not want that."))
	turn := rt.Say("t1", "Please pay R-17.")
	request := rt.WaitForApproval("t1")
	_, err := rt.Client().Decide(t.Context(), "t1", signals.Decide{ToolCallID: request.ToolCallID, Decision: event.DecisionApprove, By: "eve"})
	require.ErrorIs(t, err, signals.ErrNotAllowed)
	rt.Decide("t1", request, signals.Decide{Decision: event.DecisionDeny, Reason: "too much", By: "bo"})
	rt.Wait(turn)
}

// TestNobodyApproves lets three days pass.
func TestNobodyApproves(t *testing.T) {
	t.Parallel()
	l, rt := open(t, scripted.Call("pay", paper), scripted.Say("Nobody has approved R-17."))
	turn := rt.Say("t1", "Please pay R-17.")
	rt.WaitForApproval("t1")
	rt.Advance("t1", 72*time.Hour)
	require.Equal(t, "Nobody has approved R-17.", rt.Wait(turn).Message.Content)
	require.Empty(t, l.all())
}

// TestPaidTwice: the hook refuses, and nobody is asked.
func TestPaidTwice(t *testing.T) {
	t.Parallel()
	l, rt := open(t, scripted.Call("pay", paper), scripted.Say("It is paid."))
	l.paid[paper.Number] = paper
	require.Equal(t, "It is paid.", rt.Ask("t1", "Please pay R-17."))
	rt.Golden("t1", "testdata/paid-twice.txt")
}

// TestNewSupplier: after the call, people are asked as always.
func TestNewSupplier(t *testing.T) {
	t.Parallel()
	l, rt := open(t, scripted.Call("pay", fresh), scripted.Say("N-1 is paid."))
	turn := rt.Say("t1", "Please pay N-1.")
	id := rt.WaitForHook("t1", "verify")
	require.NoError(t, threadmilltest.Temporal(t).SignalWorkflow(t.Context(), id, "", "called", nil))
	request := rt.WaitForApproval("t1")
	approve(rt, request, "bo")
	approve(rt, request, "dan")
	rt.Wait(turn)
	require.Equal(t, map[string]invoice{"N-1": fresh}, l.all())
}

// TestNobodyCalls: after three days, the hook refuses.
func TestNobodyCalls(t *testing.T) {
	t.Parallel()
	_, rt := open(t, scripted.Call("pay", fresh), scripted.Say("Please call New Ltd."))
	turn := rt.Say("t1", "Please pay N-1.")
	rt.WaitForHook("t1", "verify")
	rt.Advance("t1", 72*time.Hour)
	rt.Wait(turn)
	rt.Golden("t1", "testdata/nobody-calls.txt")
}

// TestReport: the agent goes on, and is told when the report is there.
func TestReport(t *testing.T) {
	t.Parallel()
	l, rt := open(t,
		scripted.Call("report", struct{}{}),
		scripted.Say("I am adding up."),
		scripted.Say("One invoice, 900 euros.").OnEvent(event.TypeBackgroundTaskCompleted),
	)
	l.paid[paper.Number] = paper
	require.Equal(t, "I am adding up.", rt.Ask("t1", "How much have we paid?"))
	rt.WaitForTasks("t1")
	require.Contains(t, rt.Transcript("t1"), "One invoice, 900 euros.")
}
