package approvals

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestArgumentsAreCheckedFirst: calls with invalid arguments need no approval.
func TestArgumentsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	ran := 0
	deploy := tool.MustFunc("deploy", "Deploys.", func(context.Context, tool.Call, struct {
		Target string `json:"target"`
	},
	) (string, error) {
		ran++
		return "deployed", nil
	}, tool.NeedsApproval("it deploys"))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{deploy}}).talk(t)
	for arguments, problem := range map[string]string{
		`{"target":7}`:                "target",
		`{}`:                          "target",
		`{"target":"a","target":"b"}`: "target",
		`{"TARGET":"a"}`:              "TARGET",
		`{"target":"a","more":true}`:  "more",
	} {
		t.Run("S4-73 "+arguments, func(t *testing.T) {
			out := c.Say(c.id, "use deploy "+arguments)
			require.Equal(t, signals.TurnCompleted, out.Status)
			answers := check.ResultsOf(c.Harness, c.id, "deploy")
			last := answers[len(answers)-1]
			require.True(t, last.IsError)
			require.True(t, strings.HasPrefix(last.Content, "Error: Tool parameter validation failed for deploy: "), last.Content)
			require.Contains(t, last.Content, problem)
			require.Contains(t, out.Message.Content, last.Content, "the model is told")
		})
	}
	require.Zero(t, ran)
	require.Empty(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest), "nobody is asked what cannot run")
}

// TestApprovalHasNoEnd: a call waits without a worker.
func TestApprovalHasNoEnd(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval("it spies"))
	o := newOffice(t, harness.Options{NoWorker: true, Tools: []tool.Tool{s}})
	stop := o.StartWorker()
	c := o.talk(t)
	posted, q := c.asks(`use spied {"n":1}`)
	t.Run("S4-77 nothing ends it", func(t *testing.T) {
		require.Nil(t, q.ExpiresAt)
		history, err := check.RunHistory(c.Ctx(), c.Temporal, signals.WorkflowID(c.TaskQueue, c.id), "")
		require.NoError(t, err)
		for _, e := range history {
			require.NotEqual(t, enumspb.EVENT_TYPE_TIMER_STARTED, e.GetEventType(), "no timer runs for it")
		}
	})
	t.Run("S4-77 it survives a restart", func(t *testing.T) {
		stop()
		stop = o.StartWorker()
		require.Equal(t, q, c.AwaitApproval(c.id, 1)[0])
		require.Empty(t, s.Seen())
	})
	t.Run("S4-77 what is decided while nobody works holds", func(t *testing.T) {
		stop()
		c.signals(signals.SignalDecide, check.Approving(q))
		o.StartWorker()
		c.completes(posted)
		require.Equal(t, []string{`{"n":1}`}, argumentsSeen(s, c.id))
	})
}

// TestApproveOnce: after an approval with scope once, the same call needs approval again.
func TestApproveOnce(t *testing.T) {
	t.Parallel()
	c := newOffice(t, harness.Options{}).talk(t)
	posted, q := c.asks(check.Touches("once"))
	c.decides(signals.DecideAccepted, check.Approving(q))
	c.completes(posted)
	t.Run("S4-78 it runs, and the agent goes on", func(t *testing.T) {
		require.Equal(t, "made\n", check.Made(c.Harness, "once"))
		messages := c.Messages(c.id)
		require.Len(t, messages, 4)
		require.Equal(t, q.ToolCallID, messages[2].ToolCallID, "its result is that of the call that was made")
		require.Equal(t, event.RoleAssistant, messages[3].Role)
		require.Equal(t, c.id, messages[3].ThreadID)
		require.Contains(t, messages[3].Content, "shell_cmd returned:")
	})
	t.Run("S4-79 the same call asks again", func(t *testing.T) {
		posted, next := c.asks(check.Touches("once"))
		require.NotEqual(t, q.ToolCallID, next.ToolCallID)
		require.Equal(t, q.Digest, next.Digest, "it is the same")
		require.Equal(t, "made\n", check.Made(c.Harness, "once"), "and has not run")
		c.decides(signals.DecideAlreadyResolved, check.Approving(q))
		c.undecided(next)
		c.decides(signals.DecideAccepted, check.Denying(next))
		c.completes(posted)
		require.Equal(t, "made\n", check.Made(c.Harness, "once"))
	})
}

// TestApproveForTheSession: an approval with scope session covers equal calls and no others.
func TestApproveForTheSession(t *testing.T) {
	t.Parallel()
	s, other := check.NewSpy("spied", tool.NeedsApproval("")), check.NewSpy("other", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s, other}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {"a":1,"b":"x"}`)
	granted := granting(q)
	granted.ToolName = "SPIED"
	c.decides(signals.DecideAccepted, granted)
	c.completes(posted)

	t.Run("S4-80 S4-81 the same call runs unasked, whatever the case of the tool's name", func(t *testing.T) {
		c.runsUnasked(`use spied {"a":1,"b":"x"}`)
		c.runsUnasked(`use spied { "b": "x", "a": 1 }`)
		require.Len(t, s.Seen(), 3)
	})
	t.Run("S4-81 other arguments ask", func(t *testing.T) {
		for _, arguments := range []string{`{"a":2,"b":"x"}`, `{"a":1}`, `{"a":1,"b":"x","c":null}`} {
			c.denied("use spied " + arguments)
		}
	})
	t.Run("S4-81 another tool asks", func(t *testing.T) { c.denied(`use other {"a":1,"b":"x"}`) })
	t.Run("S4-81 another thread asks", func(t *testing.T) { o.talk(t).denied(`use spied {"a":1,"b":"x"}`) })
	t.Run("S4-81 another directory asks, until it is the same again", func(t *testing.T) {
		works := func(dir string) {
			raw, err := json.Marshal(map[string]string{"workingDirectory": dir})
			require.NoError(t, err)
			_, err = c.Threads.Update(c.Ctx(), c.id, signals.ThreadChange{Metadata: raw, By: "ann"})
			require.NoError(t, err)
		}
		works(t.TempDir())
		c.denied(`use spied {"a":1,"b":"x"}`)
		works("")
		c.runsUnasked(`use spied {"a":1,"b":"x"}`)
	})
	require.Len(t, s.Seen(), 4)
	require.Empty(t, other.Seen())
}

// TestDenialIsTold: the agent sees denials with and without a reason.
func TestDenialIsTold(t *testing.T) {
	t.Parallel()
	c := newOffice(t, harness.Options{}).talk(t)
	for reason, want := range map[string]string{"": step.DeniedText, "not on a Friday": step.DeniedText + " Reason: not on a Friday"} {
		t.Run("S4-82 "+want, func(t *testing.T) {
			posted, q := c.asks(check.Touches("denied"))
			d := check.Denying(q)
			d.Reason = reason
			c.decides(signals.DecideAccepted, d)
			c.completes(posted)
			require.Equal(t, want, c.result(q).Content)
			require.Contains(t, c.lastShown(), want, "the agent goes on, and knows")
			require.Empty(t, check.Made(c.Harness, "denied"))
		})
	}
	require.Equal(t, "Tool execution was denied by the user.", step.DeniedText)
}

// TestApprovalsAreRecords: approvals are in the store and nowhere else.
func TestApprovalsAreRecords(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {}`)
	c.decides(signals.DecideAccepted, check.Denying(q))
	c.completes(posted)
	stored := func(id string, a event.Approval) {
		a.ToolCallID, a.ToolName, a.Agent, a.DecidedAt = "call_before", q.ToolName, q.Agent, time.Now()
		_, err := c.Store.Append(c.Ctx(), c.Key(c.id), store.Batch{Records: []event.Record{event.NewRecord(id, event.TypeApproval, "", "", a.DecidedAt, a)}})
		require.NoError(t, err)
	}
	t.Run("S4-87 a grant that is stored covers the next call", func(t *testing.T) {
		stored("call_before.decision", event.Approval{
			Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "bob", Digest: q.Digest, Definition: q.Definition,
		})
		c.runsUnasked(`use spied {}`)
		require.Len(t, s.Seen(), 1)
	})
	t.Run("S4-87 it ends when that is stored", func(t *testing.T) {
		stored("call_before.revoked", event.Approval{Decision: event.DecisionRevoked, By: "bob"})
		c.denied(`use spied {}`)
		require.Len(t, s.Seen(), 1)
	})
}

// TestStoredCallRuns: the description of a call in a decision does not change what runs.
func TestStoredCallRuns(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}})
	c := o.talk(t)
	posted, q := c.asks(`use spied {"as":"stored"}`)
	t.Run("S4-93 other arguments are a mismatch", func(t *testing.T) {
		swapped := check.Approving(q)
		swapped.ToolArgs = json.RawMessage(`{"as":"told"}`)
		c.decides(signals.DecideMismatch, swapped)
		c.decidesByHTTP(409, signals.DecideMismatch, swapped)
		c.undecided(q)
	})
	t.Run("S4-93 the stored call runs", func(t *testing.T) {
		same := check.Approving(q)
		same.ToolArgs = json.RawMessage(`{ "as": "stored" }`)
		c.decides(signals.DecideAccepted, same)
		c.completes(posted)
		require.Equal(t, []string{`{"as":"stored"}`}, argumentsSeen(s, c.id))
	})
	t.Run("S4-93 others run only if the decision says so openly", func(t *testing.T) {
		c := o.talk(t)
		posted, q := c.asks(`use spied {"as":"stored"}`)
		edit := check.Approving(q)
		edit.Args = json.RawMessage(`{"as":"edited"}`)
		c.decides(signals.DecideAccepted, edit)
		c.completes(posted)
		require.Equal(t, []string{`{"as":"edited"}`}, argumentsSeen(s, c.id))
	})
}

// TestDecisionsAtOnce sends the same decision concurrently over every entry point.
//
//ci:replayed
func TestDecisionsAtOnce(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	posted, q := c.asks(`use spied {}`)
	var wg sync.WaitGroup
	outcomes := make(chan signals.DecideOutcome, 5)
	workflowID := signals.WorkflowID(c.TaskQueue, c.id)
	for range cap(outcomes) {
		wg.Go(func() {
			out, err := c.Threads.Decide(context.Background(), c.id, check.Approving(q))
			assert.NoError(t, check.Unrefused(err))
			outcomes <- out.Result
		})
		wg.Go(func() {
			assert.NoError(t, c.Temporal.SignalWorkflow(context.Background(), workflowID, "", signals.SignalDecide, check.Approving(q)))
		})
	}
	wg.Wait()
	close(outcomes)
	c.completes(posted)
	c.Say(c.id, "are you done?") // afterwards the thread has handled the last signal
	t.Run("S4-94 the tool has run once", func(t *testing.T) {
		require.Len(t, s.Seen(), 1)
		require.Len(t, check.ToolLogs(c.Harness, c.id), 1)
		require.Len(t, check.Results(c.Harness, c.id), 1)
		require.Len(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID), 1)
	})
	accepted := 0
	for out := range outcomes {
		require.Contains(t, []signals.DecideOutcome{signals.DecideAccepted, signals.DecideAlreadyResolved}, out)
		if out == signals.DecideAccepted {
			accepted++
		}
	}
	require.LessOrEqual(t, accepted, 1, "S4-94 one decision stands")
	require.Empty(t, check.OfType(c.Harness, c.id, event.TypeRejected), "saying the same twice is no mistake")
}

// TestWhoAllowedWhat reads requests, decisions and results from the records.
func TestWhoAllowedWhat(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	o := newOffice(t, harness.Options{Agents: []agent.Agent{{
		Name: "careful", Model: "openai/stand-in", Tools: []string{"note"}, WorkingDirectory: dir,
		Approvals:     map[string]agent.Policy{"note": agent.PolicyAlways},
		ApprovalTerms: approval.Terms{Approvers: []string{"ann", "bob"}},
	}}})
	c := o.talk(t)
	before := time.Now()
	posted, q := c.asks(`use note {"text":"x"}`)
	granted := granting(q)
	granted.Reason = "notes are harmless"
	c.decides(signals.DecideAccepted, granted)
	c.completes(posted)
	t.Run("S4-95 request, decision and result, in this order", func(t *testing.T) {
		var ids []string
		for _, r := range c.Records(c.id) {
			if strings.HasPrefix(r.ID, q.ToolCallID) {
				ids = append(ids, strings.TrimPrefix(r.ID, q.ToolCallID))
			}
		}
		require.Equal(t, []string{".request", ".decision", ".result"}, ids)
	})
	asked := harness.Payload[event.ApprovalRequest](c.Harness, check.Only(t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest)))
	decided := check.Only(t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID))
	t.Run("S4-95 who, when, how far, on what", func(t *testing.T) {
		require.Equal(t, "ann", decided.By)
		require.Equal(t, event.DecisionApprove, decided.Decision)
		require.Equal(t, event.ScopeSession, decided.Scope)
		require.Equal(t, "notes are harmless", decided.Reason)
		require.Equal(t, []string{"careful", "note"}, []string{decided.Agent, decided.ToolName})
		require.WithinRange(t, decided.DecidedAt, before, time.Now())
		require.False(t, decided.DecidedAt.Before(asked.RequestedAt))
	})
	t.Run("S4-95 the digest is that of the stored call", func(t *testing.T) {
		digest, err := approval.Call{Tool: "note", Arguments: `{"text":"x"}`, WorkingDirectory: asked.WorkingDirectory}.Digest()
		require.NoError(t, err)
		require.Equal(t, digest, asked.Digest)
		require.Equal(t, digest, decided.Digest)
		require.Equal(t, asked.Definition, decided.Definition)
		require.Equal(t, dir, asked.WorkingDirectory)
		require.Equal(t, dir, decided.WorkingDirectory)
		require.Equal(t, []string{"ann", "bob"}, asked.Approvers)
	})
	t.Run("S4-95 what a grant covers says so", func(t *testing.T) {
		c.runsUnasked(`use note {"text":"x"}`)
		all := check.OfType(c.Harness, c.id, event.TypeApproval)
		covered := harness.Payload[event.Approval](c.Harness, all[len(all)-1])
		require.Equal(t, q.ToolCallID, covered.Grant)
		require.NotEqual(t, q.ToolCallID, covered.ToolCallID)
		require.Equal(t, []any{"ann", event.DecisionApprove, event.ScopeOnce, decided.Digest}, []any{covered.By, covered.Decision, covered.Scope, covered.Digest})
	})
}

// TestApprovedWorkGoesOn: the agent makes further calls after an approved one.
func TestApprovedWorkGoesOn(t *testing.T) {
	t.Parallel()
	s := check.NewSpy("spied", tool.NeedsApproval(""))
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}}).talk(t)
	posted, first := c.asks(`use spied {"step":1}`, "then", `use note {"text":"between"}`, "then", `use spied {"step":3}`, "then", "all done")
	c.decides(signals.DecideAccepted, check.Approving(first))
	var second event.ApprovalRequest
	require.Eventually(t, func() bool {
		out, err := c.Threads.Approvals(c.Ctx(), c.id)
		if err != nil || len(out.Approvals) != 1 || out.Approvals[0].ToolCallID == first.ToolCallID {
			return false
		}
		second = out.Approvals[0]
		return true
	}, testenv.Patience, testenv.Tick)
	t.Run("S4-96 S4-97 with calls that need no approval", func(t *testing.T) {
		require.Equal(t, "noted: between", check.ResultIn(t, c.Harness, c.id, "note").Content)
		require.Equal(t, []string{`{"step":1}`}, argumentsSeen(s, c.id))
	})
	c.decides(signals.DecideAccepted, check.Approving(second))
	c.completes(posted)
	t.Run("S4-96 S4-97 X14 and with calls that do", func(t *testing.T) {
		require.Equal(t, []string{`{"step":1}`, `{"step":3}`}, argumentsSeen(s, c.id))
		messages := c.Messages(c.id)
		require.Equal(t, "all done", check.LastLine(messages[len(messages)-1].Content))
		check.RequireSettled(t, c.Harness, c.id)
	})
}
