package thread

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func decision(id string, d event.Decision) signals.Decide {
	return signals.Decide{ToolCallID: id, Decision: d, By: "ann"}
}

func waiting(t *testing.T, calls ...PlannedCall) (*State, *Run) {
	t.Helper()
	s := newState()
	r := begin(t, s, "e1", "go").Runs[0]
	step(t, s, r, "", calls...)
	return s, r
}

func TestCheckDecide(t *testing.T) {
	for _, tc := range []struct {
		field  string
		change func(*signals.Decide)
	}{
		{"toolCallId", func(d *signals.Decide) { d.ToolCallID = "" }},
		{"decision", func(d *signals.Decide) { d.Decision = "" }},
		{"decision", func(d *signals.Decide) { d.Decision = "maybe" }},
		{"scope", func(d *signals.Decide) { d.Scope = "forever" }},
		{"by", func(d *signals.Decide) { d.By = "" }},
		{"reason", func(d *signals.Decide) { d.Reason = strings.Repeat("x", 4097) }},
	} {
		d := decision("c1", event.Approve)
		tc.change(&d)
		requireField(t, tc.field, signals.CheckDecide(d))
	}
	d := decision("c1", event.Deny)
	d.Scope, d.Reason = event.Once, strings.Repeat("x", 4096)
	require.NoError(t, signals.CheckDecide(d))
}

func TestApprovalRequest(t *testing.T) {
	s, r := waiting(t, asks("c1"), runs("c2"))
	require.Equal(t, []event.ApprovalRequest{{
		ToolCallID: "c1", ToolName: "shell_cmd", Arguments: `{"command":"rm"}`, Agent: "assistant", MessageID: "e1.0.1",
		Reason: "it is a shell", RequestedAt: t0,
	}}, s.Approvals())
	require.Equal(t, signals.WaitingApproval, s.View().Status)
	require.Equal(t, Ready, r.Calls[1].Stage, "siblings do not wait")
	require.Equal(t, s.Approvals(), copied(t, s).Approvals(), "S4-77 survives a new run")
}

func TestDecideApprove(t *testing.T) {
	s, r := waiting(t, asks("c1"))
	d := decision("c1", event.Approve)
	d.Agent, d.ToolName, d.Reason = "assistant", "shell_cmd", "it is fine"
	require.Equal(t, signals.Accepted, s.Decide(at(5), d))
	require.Equal(t, Ready, r.Calls[0].Stage)
	require.Empty(t, s.Approvals())
	require.Equal(t, event.Approval{
		ToolCallID: "c1", ToolName: "shell_cmd", Agent: "assistant", Decision: event.Approve, Scope: event.Once, Reason: "it is fine", By: "ann", DecidedAt: at(5),
	}, payload[event.Approval](t, pending(s, event.TypeApproval)[0]), "S4-95")
	before := asJSON(t, s)
	require.Equal(t, signals.AlreadyResolved, s.Decide(at(6), d), "S4-94 one execution")
	require.Equal(t, signals.Conflict, s.Decide(at(6), decision("c1", event.Deny)))
	require.Equal(t, before, asJSON(t, s))
	require.Equal(t, signals.Conflict, copied(t, s).Decide(at(6), decision("c1", event.Deny)), "also in another run")
}

func TestDecideDeny(t *testing.T) {
	for reason, text := range map[string]string{
		"":         "Tool execution was denied by the user.",
		"too much": "Tool execution was denied by the user. Reason: too much",
	} {
		s, r := waiting(t, asks("c1"))
		d := decision("c1", event.Deny)
		d.Reason = reason
		require.Equal(t, signals.Accepted, s.Decide(t0, d))
		require.Equal(t, CallSettled, r.Calls[0].Stage)
		m := payload[event.Message](t, pending(s, event.TypeMessage)[0])
		require.Equal(t, text, m.Content, "S4-82")
		require.Equal(t, "c1", m.ToolCallID)
		require.True(t, m.IsError)
		r.ToolsDone(t0)
		require.Equal(t, PhaseModel, r.Phase, "S4-82 the model goes on")
		require.Equal(t, signals.AlreadyResolved, s.Decide(t0, decision("c1", event.Deny)))
		require.Equal(t, signals.Conflict, s.Decide(t0, decision("c1", event.Approve)))
	}
}

func TestDecideChangesNothing(t *testing.T) {
	other := func(change func(*signals.Decide)) signals.Decide {
		d := decision("c1", event.Approve)
		change(&d)
		return d
	}
	for _, tc := range []struct {
		name string
		d    signals.Decide
		want signals.DecideOutcome
	}{
		{"S4-91 unknown call", decision("c9", event.Approve), signals.NotPending},
		{"a call that needs no approval", decision("c2", event.Approve), signals.NotPending},
		{"S4-92 another agent's", other(func(d *signals.Decide) { d.Agent = "mallory" }), signals.Mismatch},
		{"another tool's", other(func(d *signals.Decide) { d.ToolName = "note" }), signals.Mismatch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := waiting(t, asks("c1"), runs("c2"))
			before := asJSON(t, s)
			require.Equal(t, tc.want, s.Decide(t0, tc.d))
			require.Equal(t, before, asJSON(t, s))
		})
	}
	require.Equal(t, signals.NotPending, newState().Decide(t0, decision("c1", event.Approve)), "no turn")
}

func TestStoredCallRuns(t *testing.T) {
	var carry []string
	typ := reflect.TypeFor[signals.Decide]()
	for i := range typ.NumField() {
		if name := typ.Field(i).Name; strings.Contains(strings.ToLower(name), "arg") {
			carry = append(carry, name)
		}
	}
	require.Equal(t, []string{"Args", "ToolArgs"}, carry, "S4-93 what is edited is said openly, all else has only to be as it was")
	s, r := waiting(t, asks("c1"))
	s.Decide(t0, decision("c1", event.Approve))
	raw := asJSON(t, r.Calls[0].ToolStep(nil))
	require.NotContains(t, strings.ReplaceAll(raw, asJSON(t, s.Flush()), ""), "rm", "S4-93 a tool step names the stored call")
}

func TestDecideDuringInterrupt(t *testing.T) {
	s, r := waiting(t, asks("c1"))
	s.Interrupt(signals.Control{})
	require.Empty(t, s.Approvals(), "nobody is asked any more")
	require.Equal(t, signals.NotPending, s.Decide(t0, decision("c1", event.Approve)))
	require.Equal(t, Waiting, r.Calls[0].Stage)
	r.StopRun(t0)
	require.Equal(t, signals.Conflict, s.Decide(t0, decision("c1", event.Approve)), "it was settled otherwise")
	s.Turn.End(t0)
	require.Equal(t, signals.Conflict, s.Decide(t0, decision("c1", event.Deny)))
	require.Empty(t, pending(s, event.TypeApproval))
}
