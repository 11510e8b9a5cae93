package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/tool"
)

// The bare loop is the minimal agent on Temporal: messages live in the workflow, the model's
// activity receives all of them, and each step is one activity. It has no store, stream,
// interrupts or continue-as-new, and approvals only in turns of the shape that needs them: one
// update returns the call that waits, another one has the decision and returns the reply.
const (
	bareQueue    = "bench-bare"
	bareWorkflow = "loop"
	bareModel    = "model"
	bareTool     = "tool"
	bareSignal   = "post"
	bareUpdate   = "turn"
	bareAsk      = "ask"
	bareDecide   = "decide"
)

// barePost is a person's message.
type barePost struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type bareStart struct {
	First barePost `json:"first"`

	// Local runs all steps as local activities.
	Local bool `json:"local"`

	// Asks makes every tool call wait for approval.
	Asks bool `json:"asks"`
}

// bareDecision approves a call of a turn.
type bareDecision struct {
	TurnID string `json:"turnId"`
	CallID string `json:"callId"`
}

type bareStep struct {
	TurnID   string        `json:"turnId"`
	Messages []llm.Message `json:"messages"`
}

type bareReply struct {
	Content string           `json:"content"`
	Calls   []event.ToolCall `json:"calls,omitempty"`
}

func bareLoop(ctx workflow.Context, in bareStart) error {
	var messages []llm.Message
	queue, replies := []barePost{in.First}, map[string]string{}
	known := map[string]bool{in.First.ID: true}
	push := func(p barePost) {
		if !known[p.ID] {
			known[p.ID] = true
			queue = append(queue, p)
		}
	}
	err := workflow.SetUpdateHandler(ctx, bareUpdate, func(ctx workflow.Context, p barePost) (string, error) {
		push(p)
		err := workflow.Await(ctx, func() bool { return replies[p.ID] != "" })
		return replies[p.ID], err
	})
	if err != nil {
		return err
	}
	var approve func(workflow.Context, bareDecision) error
	if in.Asks {
		if approve, err = bareApprovals(ctx, push, replies); err != nil {
			return err
		}
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var p barePost
			workflow.GetSignalChannel(ctx, bareSignal).Receive(ctx, &p)
			push(p)
		}
	})
	for {
		if err := workflow.Await(ctx, func() bool { return len(queue) > 0 }); err != nil {
			return err
		}
		p := queue[0]
		queue = queue[1:]
		messages = append(messages, llm.Message{Role: event.RoleUser, Content: p.Text})
		if messages, err = bareTurn(ctx, in.Local, p.ID, messages, approve); err != nil {
			return err
		}
		replies[p.ID] = messages[len(messages)-1].Content
	}
}

// bareApprovals handles the updates of turns that need approval. The function that it returns waits
// until a call is approved.
func bareApprovals(ctx workflow.Context, push func(barePost), replies map[string]string) (func(workflow.Context, bareDecision) error, error) {
	waits, approved := map[string]string{}, map[bareDecision]bool{} // waits: turn id: call id
	err := workflow.SetUpdateHandler(ctx, bareAsk, func(ctx workflow.Context, p barePost) (string, error) {
		push(p)
		err := workflow.Await(ctx, func() bool { return waits[p.ID] != "" })
		return waits[p.ID], err
	})
	if err != nil {
		return nil, err
	}
	err = workflow.SetUpdateHandler(ctx, bareDecide, func(ctx workflow.Context, d bareDecision) (string, error) {
		if err := workflow.Await(ctx, func() bool { return waits[d.TurnID] == d.CallID }); err != nil {
			return "", err
		}
		approved[d] = true
		err := workflow.Await(ctx, func() bool { return replies[d.TurnID] != "" })
		return replies[d.TurnID], err
	})
	return func(ctx workflow.Context, d bareDecision) error {
		waits[d.TurnID] = d.CallID
		return workflow.Await(ctx, func() bool { return approved[d] })
	}, err
}

func bareTurn(ctx workflow.Context, local bool, id string, messages []llm.Message, approve func(workflow.Context, bareDecision) error) ([]llm.Message, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	for {
		var r bareReply
		if err := bareRun(ctx, local, bareModel, bareStep{id, messages}).Get(ctx, &r); err != nil {
			return nil, err
		}
		messages = append(messages, llm.Message{Role: event.RoleAssistant, Content: r.Content, ToolCalls: r.Calls})
		if len(r.Calls) == 0 {
			return messages, nil
		}
		futures := make([]workflow.Future, len(r.Calls))
		for i, call := range r.Calls {
			if approve != nil {
				if err := approve(ctx, bareDecision{id, call.ID}); err != nil {
					return nil, err
				}
			}
			futures[i] = bareRun(ctx, local, bareTool, call)
		}
		for i, call := range r.Calls {
			var out string
			if err := futures[i].Get(ctx, &out); err != nil {
				return nil, err
			}
			messages = append(messages, llm.Message{Role: event.RoleTool, Content: out, ToolCallID: call.ID})
		}
	}
}

func bareRun(ctx workflow.Context, local bool, name string, in any) workflow.Future {
	if local {
		return workflow.ExecuteLocalActivity(ctx, name, in)
	}
	return workflow.ExecuteActivity(ctx, name, in)
}

// bareActivities are the steps of the loop.
type bareActivities struct {
	model *model
	tools *tool.Set

	// ended delivers the reply of a turn to the sender of its signal, asked the id of its call.
	ended, asked sync.Map // turn id: chan string
}

func (a *bareActivities) Model(ctx context.Context, in bareStep) (bareReply, error) {
	res, err := a.model.Generate(ctx, llm.Request{Model: "bench", Messages: in.Messages}, nil)
	if err == nil {
		receivers, said := &a.ended, res.Content
		if len(res.ToolCalls) > 0 {
			receivers, said = &a.asked, res.ToolCalls[0].ID
		}
		if receiver, ok := receivers.LoadAndDelete(in.TurnID); ok {
			receiver.(chan string) <- said
		}
	}
	return bareReply{res.Content, res.ToolCalls}, err
}

func (a *bareActivities) Tool(ctx context.Context, call event.ToolCall) (string, error) {
	t, ok := a.tools.Lookup(call.Function.Name)
	if !ok {
		return "", fmt.Errorf("no tool %q", call.Function.Name)
	}
	res, err := t.Call(ctx, tool.Call{ID: call.ID, Arguments: call.Function.Arguments})
	return res.Output, err
}

// bare is the side of the bare loop.
type bare struct {
	temporal   client.Client
	activities *bareActivities

	// local runs all steps as local activities.
	local bool
}

var _ side = (*bare)(nil)

// newBare starts the worker of the bare loop, with the same options as Threadmill's.
func newBare(temporal client.Client, m *model) (*bare, func(), error) {
	set, err := tool.NewSet(tools()...)
	if err != nil {
		return nil, nil, err
	}
	b := &bare{temporal: temporal, activities: &bareActivities{model: m, tools: set}}
	w := worker.New(temporal, bareQueue, workerOptions())
	w.RegisterWorkflowWithOptions(bareLoop, workflow.RegisterOptions{Name: bareWorkflow})
	w.RegisterActivityWithOptions(b.activities.Model, activity.RegisterOptions{Name: bareModel})
	w.RegisterActivityWithOptions(b.activities.Tool, activity.RegisterOptions{Name: bareTool})
	if err := w.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the worker of the bare loop: %w", err)
	}
	return b, w.Stop, nil
}

func (b *bare) name() string { return "bare" }

func (b *bare) thread(s shape, by way) thread {
	return &bareThread{bare: b, id: newID("bare"), shape: s, by: by}
}

type bareThread struct {
	*bare
	id    string
	shape shape
	by    way
	turns int
}

func (t *bareThread) next() (p barePost, want string) {
	t.turns++
	text := t.shape.message(t.turns, t.by)
	return barePost{fmt.Sprintf("%s-%d", t.id, t.turns), text}, reply(text)
}

func (t *bareThread) first(ctx context.Context) error {
	p, want := t.next()
	opts := client.StartWorkflowOptions{ID: t.id, TaskQueue: bareQueue}
	if _, err := t.temporal.ExecuteWorkflow(ctx, opts, bareWorkflow, bareStart{First: p, Local: t.local, Asks: t.shape.asks}); err != nil {
		return err
	}
	return t.update(ctx, p, want)
}

// watch does nothing: the bare loop has no viewers.
func (t *bareThread) watch(context.Context) error { return nil }

func (t *bareThread) turn(ctx context.Context) error {
	p, want := t.next()
	if t.by != bySignal {
		return t.update(ctx, p, want)
	}
	receivers := &t.activities.ended
	if t.shape.asks {
		receivers = &t.activities.asked
	}
	receiver := make(chan string, 1)
	receivers.Store(p.ID, receiver)
	if err := t.temporal.SignalWorkflow(ctx, t.id, "", bareSignal, p); err != nil {
		return err
	}
	select {
	case said := <-receiver:
		if t.shape.asks {
			return t.decide(ctx, bareDecision{p.ID, said}, want)
		}
		return same(said, want)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *bareThread) update(ctx context.Context, p barePost, want string) error {
	if t.shape.asks {
		call, err := t.call(ctx, bareAsk, p)
		if err != nil {
			return err
		}
		return t.decide(ctx, bareDecision{p.ID, call}, want)
	}
	got, err := t.call(ctx, bareUpdate, p)
	if err != nil {
		return err
	}
	return same(got, want)
}

// decide approves a call and waits for the reply.
func (t *bareThread) decide(ctx context.Context, d bareDecision, want string) error {
	got, err := t.call(ctx, bareDecide, d)
	if err != nil {
		return err
	}
	return same(got, want)
}

// call returns the result of an update.
func (t *bareThread) call(ctx context.Context, update string, arg any) (result string, err error) {
	h, err := t.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: t.id, UpdateName: update, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return "", err
	}
	return result, h.Get(ctx, &result)
}

func (t *bareThread) finish(context.Context) error { return nil }
