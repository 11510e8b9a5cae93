package localsteps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// asking is a kind of worker whose agent needs approval for the tool "look".
func asking(_ killing.Worker, c *threadmill.Config) error {
	c.Agents[0].ApprovalRules = []approval.Rule{{Name: "looks", Tools: []string{"look"}, Effect: approval.EffectAsk}}
	return nil
}

// answering is a kind of worker whose agent has a tool that a client runs and one that asks for input.
func answering(_ killing.Worker, c *threadmill.Config) error {
	asks := tool.MustFunc("asks", "Asks.", func(_ context.Context, call tool.Call, _ map[string]any) (string, error) {
		if call.Input == nil {
			return "", &tool.InputRequired{Questions: []event.InputQuestion{{ID: "how", Kind: event.InputForm, Message: "How?", Schema: json.RawMessage(`{"type":"object","properties":{"way":{"type":"string"}}}`)}}}
		}
		return string(call.Input.Answers["how"].Content), nil
	}, tool.Idempotent())
	c.Tools = append(c.Tools, asks, tool.ClientSide(tool.Definition{Name: "camera", Description: "Takes a photo."}))
	c.Agents[0].Tools = append(c.Agents[0].Tools, "asks", "camera")
	return nil
}

// TestCauseBeforeEffect: when a step that follows from an update stores or does anything, Temporal has the update, so that nothing is
// lost or doubled when the worker dies together with who sent it.
func TestCauseBeforeEffect(t *testing.T) {
	t.Parallel()
	for _, door := range []struct {
		name string

		// before leads the thread to the update.
		before func(k killed, id string)
		update string
		arg    func(k killed, id string) any

		// kind is a further kind of the worker.
		kind string
	}{
		{"post", nil, signals.UpdatePost, func(_ killed, id string) any { return check.Message(id, "e1", work("cut")) }, ""},
		{"post_batch", nil, signals.UpdatePostBatch, func(_ killed, id string) any {
			return signals.PostBatch{Posts: []signals.Post{check.Message(id, "e1", work("cut"))}}
		}, ""},
		{"turn", nil, signals.UpdateTurn, func(_ killed, id string) any { return check.Message(id, "e1", work("cut")) }, ""},
		{"retry", func(k killed, id string) {
			k.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
			k.PostMessage(id, "e1", work("cut"))
			require.Equal(k.T, signals.TurnFailed, k.Ends(id, "e1").Status)
		}, signals.UpdateSetStatus, func(_ killed, id string) any {
			return signals.SetStatus{EventID: "e1", Status: event.ItemPending, By: "ann"}
		}, ""},
		{"decide", func(k killed, id string) {
			k.PostMessage(id, "e1", work("cut"))
			k.AwaitApproval(id, 1)
			check.AwaitRest(k.Harness, id)
		}, signals.UpdateDecide, func(k killed, id string) any {
			return signals.Decide{ToolCallID: k.AwaitApproval(id, 1)[0].ToolCallID, Decision: event.DecisionApprove, By: "ann"}
		}, "asking"},
		{"tool_result", func(k killed, id string) {
			k.PostMessage(id, "e1", "use camera {}\nthen\ndone cut")
			k.awaitAsked(id)
		}, signals.UpdateToolResult, func(k killed, id string) any {
			return signals.ToolResult{ToolCallID: k.awaitAsked(id).ClientCalls[0].ToolCallID, Output: "a photo", By: "phone"}
		}, "answering"},
		{"answer_input", func(k killed, id string) {
			k.PostMessage(id, "e1", "use asks {}\nthen\ndone cut")
			k.awaitAsked(id)
		}, signals.UpdateAnswerInput, func(k killed, id string) any {
			return signals.InputAnswers{
				ToolCallID: k.awaitAsked(id).Inputs[0].ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{"how": {Action: event.InputAccept, Content: json.RawMessage(`{"way":"well"}`)}},
			}
		}, "answering"},
	} {
		t.Run("S2-51 "+door.name, func(t *testing.T) {
			t.Parallel()
			kinds := []string{"telling"}
			if door.kind != "" {
				kinds = append(kinds, door.kind)
			}
			k := killed{killing.New(t, harness.Options{}, kinds...)}
			k.Start()
			id := k.Open()
			n := 0
			check.Paced(k.Harness, id, func() {
				n++
				k.warm(id, fmt.Sprint("warm", n), door.kind == "asking")
			})
			if door.before != nil {
				door.before(k, id)
			}
			before := accepted(k.Harness, id)
			reached := k.HoldFirst(func(r killing.Report) bool {
				return r.What == id && strings.HasPrefix(r.Key, "before ") || r.What == "look"
			})
			ctx, gone := context.WithCancel(k.Ctx())
			answered := make(chan error, 1)
			arg := door.arg(k, id)
			go func() {
				h, err := k.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
					WorkflowID: signals.WorkflowID(k.TaskQueue, id), UpdateName: door.update, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
				})
				if err == nil && door.update != signals.UpdateTurn {
					err = h.Get(ctx, nil)
				}
				answered <- err
			}()
			check.Arrives(t, reached, "the first effect of the update")
			require.Equal(t, before+1, accepted(k.Harness, id), "Temporal has the update")
			if door.update != signals.UpdateTurn {
				require.NoError(t, <-answered, "who sent it is told, whatever becomes of the step")
			}
			gone()
			k.Kill()
			k.Start()
			k.awaitWork(id, "cut")
			check.RequireWhole(t, check.AllRecords(k.Harness, id))
			require.LessOrEqual(t, k.Asked("act", "cut"), 1)
		})
	}
}

// awaitAsked waits until a client or a person is asked, and the thread is at rest.
func (k killed) awaitAsked(id string) (out signals.Approvals) {
	k.T.Helper()
	require.Eventually(k.T, func() bool {
		var err error
		out, err = k.Threads.Approvals(k.Ctx(), id)
		return err == nil && len(out.ClientCalls)+len(out.Inputs) == 1
	}, testenv.Patience, testenv.Tick)
	check.AwaitRest(k.Harness, id)
	return out
}

// warm makes a turn of work, whose steps the thread then knows.
func (k killed) warm(id, name string, asks bool) {
	k.T.Helper()
	k.PostMessage(id, name, work(name))
	if asks {
		d := signals.Decide{ToolCallID: k.AwaitApproval(id, 1)[0].ToolCallID, Decision: event.DecisionApprove, By: "ann"}
		require.NoError(k.T, k.Temporal.SignalWorkflow(k.Ctx(), signals.WorkflowID(k.TaskQueue, id), "", signals.SignalDecide, d))
	}
	k.awaitWork(id, name)
}

// accepted counts the updates in a thread's history.
func accepted(w *harness.Harness, thread string) (n int) {
	w.T.Helper()
	for _, e := range check.HistoryOf(w, thread, "") {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED {
			n++
		}
	}
	return n
}
