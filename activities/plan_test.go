package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

func (w *fixture) planCalls(in step.Plan) (step.PlanReply, error) {
	var out step.PlanReply
	v, err := w.env.ExecuteActivity(step.ActivityPlanCalls, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
	}
	return out, err
}

// cautious lets the assistant use a tool that needs approval.
func cautious(c *activities.Config) {
	c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Tools: []string{"add", "quickly"}, Limits: agent.Limits{MaxSteps: 7}, Approvals: map[string]agent.Policy{"add": agent.PolicyAlways}}}
}

var quickly = &raw{def: tool.Definition{Name: "quickly", Quick: true}, do: func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }}

// approve is the workflow's unstored record of an approval of a call of the tool "add".
func approve(w *fixture, id string) step.Flush {
	w.t.Helper()
	out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", TraceID: "trace", EventID: "e1", MessageID: "e1.0.1"}, Only: []string{id}})
	require.NoError(w.t, err)
	return step.Flush{Records: []event.Record{event.NewRecord(id+".decision", event.TypeApproval, "trace", "e1", time.Now(), event.Approval{
		ToolCallID: id, ToolName: "add", Agent: "assistant", Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann",
		Digest: out.Calls[0].Guard.Digest, Definition: out.Calls[0].Guard.Definition,
	})}}
}

// editedCalls stores a reply with calls of which hooks have changed some.
func editedCalls(w *fixture) (step.Plan, event.Record) {
	w.asked(call("c1", "add", `{"a":1,"b":2}`), call("c2", "add", `{"a":1,"b":2}`), call("c3", "quickly", `{}`), call("c4", "nothing", `{}`), call("c5", "add", `{"a":1,"b":2}`))
	decision := decided("e1.0.1.calls", event.Interception{Outcome: event.OutcomeReplaced, ToolCalls: []event.ToolCall{
		call("c1", "add", `{"a":5,"b":5}`), call("c3", "quickly", `{}`), call("c4", "nothing", `{}`), call("c5", "add", `{"a":"x"}`),
	}})
	return step.Plan{
		Run:  step.Run{Thread: ref, Agent: "ASSISTANT", TraceID: "trace", EventID: "e1", MessageID: "e1.0.1", Flush: step.Flush{Records: []event.Record{decision}}},
		Only: []string{"c1", "c3", "c4", "c5"},
	}, decision
}

func TestPlanOfEditedCalls(t *testing.T) {
	w := newFixture(t, cautious, add, quickly)
	in, _ := editedCalls(w)
	out, err := w.planCalls(in)
	require.NoError(t, err)
	require.NotEmpty(t, out.Calls[0].Guard.Digest, "what is to be approved is identified")
	require.NotEmpty(t, out.Calls[0].Guard.Definition)
	require.True(t, out.Calls[0].Approval.Listed)
	out.Calls[0].Guard, out.Calls[0].Approval = nil, nil
	require.Equal(t, step.PlanReply{Agent: "assistant", Model: "fake/small", MaxSteps: 7, Calls: []step.PlannedCall{
		{ID: "c1", Name: "add", NeedsApproval: true, Arguments: `{"a":5,"b":5}`, Rule: "approvals"},
		{ID: "c3", Name: "quickly", Quick: true},
		{ID: "c4", Name: "nothing", Invalid: true, Quick: true},
		{ID: "c5", Name: "add", Invalid: true, Quick: true},
	}}, out, "S0-13 what hooks have left is what is planned")
	require.Equal(t, []string{"e1.0.1", "e1.0.1.calls.hook", "c1.request"}, w.ids(), "people are asked about what will run")
	require.Equal(t, `{"a":5,"b":5}`, stored[event.ApprovalRequest](w, "c1.request").Arguments)
	require.Equal(t, "trace", w.records()[2].TraceID)

	again, err := w.planCalls(in)
	require.NoError(t, err)
	again.Calls[0].Guard, again.Calls[0].Approval = nil, nil
	require.Equal(t, out, again)
	require.Len(t, w.ids(), 3, "S2-51 a retry stores nothing twice")
}

func TestPlanOfSomeCalls(t *testing.T) {
	w := newFixture(t, cautious, add, quickly)
	in, _ := editedCalls(w)
	in.Only = []string{"c3"}
	out, err := w.planCalls(in)
	require.NoError(t, err)
	require.Len(t, out.Calls, 1)
	require.NotContains(t, w.ids(), "c1.request")

	in.Only, in.Tools = []string{"c1", "c3"}, []string{"quickly"}
	out, err = w.planCalls(in)
	require.NoError(t, err)
	require.True(t, out.Calls[0].Invalid, "a tool that the turn does not allow")
	require.False(t, out.Calls[1].Invalid)
}

func TestPlanOfCallsThatHooksHaveLeft(t *testing.T) {
	w := newFixture(t, cautious, add)
	w.asked(call("c1", "add", `{"a":1,"b":2}`))
	out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, Only: []string{"c1"}})
	require.NoError(t, err)
	require.Equal(t, `{"a":1,"b":2}`, out.Calls[0].Arguments, "without a decision, the message says what runs")
	require.Contains(t, w.ids(), "c1.request")
}

func TestPlanThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*activities.Config)
		step   func(*step.Plan)
		typ    string
	}{
		"a call that is not stored": {cautious, func(in *step.Plan) { in.Only = append(in.Only, "c9") }, step.ErrTypeConfig},
		"a call that was taken out": {cautious, func(in *step.Plan) { in.Only = append(in.Only, "c2") }, step.ErrTypeConfig},
		"an unknown agent":          {cautious, func(in *step.Plan) { in.Agent = "nobody" }, step.ErrTypeConfig},
		"a registry that is down":   {func(c *activities.Config) { c.Agents = brokenRegistry{} }, func(*step.Plan) {}, step.ErrTypeRetry},
		"a store that is down":      {func(c *activities.Config) { cautious(c); c.Store = downStore(c.Store) }, func(*step.Plan) {}, step.ErrTypeRetry},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, tc.change, add, quickly)
			in, _ := editedCalls(w)
			tc.step(&in)
			_, err := w.planCalls(in)
			require.Equal(t, tc.typ, appError(t, err).Type())
			require.NotContains(t, w.ids(), "c1.request", "nobody is asked about what may never run")
			require.Contains(t, w.ids(), "e1.0.1.calls.hook", "what was handed over is stored all the same")
		})
	}
}

// TestEditedCallRuns: the arguments of the decision run, not those of the message.
func TestEditedCallRuns(t *testing.T) {
	input := func(w *fixture, id string) (step.Tool, event.Record) {
		plan, decision := editedCalls(w)
		return step.Tool{
			Run:        step.Run{Thread: ref, Agent: "assistant", TraceID: "trace", EventID: "e1", MessageID: plan.MessageID},
			ToolCallID: id,
			ToolName:   "add",
			Edited:     true,
		}, decision
	}
	t.Run("S0-13 as it is stored", func(t *testing.T) {
		w := newFixture(t, nil, add)
		in, decision := input(w, "c1")
		w.append(store.Batch{Records: []event.Record{decision}})
		out, err := w.runTool(in)
		require.NoError(t, err)
		require.Equal(t, "succeeded", out.Status)
		require.Equal(t, "10", stored[event.Message](w, "c1.result").Content)
		require.Equal(t, `{"a":5,"b":5}`, string(w.toolLog("c1").Input), "S0-31 the log says what ran")
	})
	t.Run("S0-13 as it is handed over", func(t *testing.T) {
		w := newFixture(t, nil, add)
		in, decision := input(w, "c1")
		in.Flush.Records = []event.Record{decision}
		_, err := w.runTool(in)
		require.NoError(t, err)
		require.Equal(t, "10", stored[event.Message](w, "c1.result").Content)
		require.Equal(t, []string{"e1.0.1", "e1.0.1.calls.hook", "c1.result"}, w.ids())
	})
	t.Run("S0-13 a call that was taken out does not run", func(t *testing.T) {
		w := newFixture(t, nil, add)
		in, decision := input(w, "c2")
		in.Flush.Records = []event.Record{decision}
		_, err := w.runTool(in)
		require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
		require.NotContains(t, w.ids(), "c2.result")
	})
	t.Run("S4-93 a decision of nobody's is not looked for", func(t *testing.T) {
		w := newFixture(t, nil, add)
		in, decision := input(w, "c1")
		in.Edited = false
		w.append(store.Batch{Records: []event.Record{decision}})
		_, err := w.runTool(in)
		require.NoError(t, err)
		require.Equal(t, "3", stored[event.Message](w, "c1.result").Content)
	})
	t.Run("a decision that changed nothing", func(t *testing.T) {
		w := newFixture(t, nil, add)
		in, _ := input(w, "c1")
		w.append(store.Batch{Records: []event.Record{decided("e1.0.1.calls", event.Interception{Outcome: event.OutcomePassed})}})
		_, err := w.runTool(in)
		require.NoError(t, err)
		require.Equal(t, "3", stored[event.Message](w, "c1.result").Content)
	})
	t.Run("S2-51 it does not run again", func(t *testing.T) {
		w := newFixture(t, nil, add)
		in, decision := input(w, "c1")
		in.Flush.Records = []event.Record{decision}
		for range 2 {
			out, err := w.runTool(in)
			require.NoError(t, err)
			require.Equal(t, "succeeded", out.Status)
		}
		require.Len(t, w.ids(), 3)
	})
}

// TestToolsOfTheTurn: S2-25 a run may allow fewer tools than the agent has.
func TestToolsOfTheTurn(t *testing.T) {
	w := newFixture(t, nil, add, quickly)
	in := w.asked(call("c1", "add", `{"a":1,"b":2}`))
	in.Tools = []string{"quickly", "other"}
	out, err := w.runTool(in)
	require.NoError(t, err)
	require.Equal(t, "failed", out.Status)
	require.Contains(t, stored[event.Message](w, "c1.result").Content, `unknown tool "add"; the tools are [quickly]`)

	for name, tools := range map[string][]string{"add": {"add"}, "": {}} {
		input := modelStep()
		input.MessageID, input.Tools = "m"+name, tools
		_, err := w.callModel(input)
		require.NoError(t, err)
		shown := w.model.requests[len(w.model.requests)-1].Tools
		if name == "" {
			require.Empty(t, shown)
			continue
		}
		require.Len(t, shown, 1)
		require.Equal(t, name, shown[0].Name)
	}
}
