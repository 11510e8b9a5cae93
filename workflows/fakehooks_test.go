package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
)

// said is the decision of a hook or processor on an event. The zero value lets it pass.
type said struct {
	event     event.Event
	responses []hook.Response
	produced  []hook.Produced
	failed    string

	// err is the activity's own error.
	err error
}

func answers(content string) said { return said{responses: []hook.Response{{Content: content}}} }

// runHooks acts like the activity, with the test's functions.
func (f *fakes) runHooks(_ context.Context, in step.Hook) (step.HookReply, error) {
	f.flush(in.Flush)
	f.mu.Lock()
	f.asked = append(f.asked, in)
	f.mu.Unlock()
	out := step.HookReply{Event: in.Event}
	if out.Event == nil {
		out.Event = f.eventOf(in)
	}
	for _, spec := range in.Hooks {
		var got said
		if f.hook != nil {
			got = f.hook(in, spec.Name)
		}
		if got.err != nil {
			return step.HookReply{}, got.err
		}
		if out.Failed = got.failed; out.Failed != "" {
			return out, nil
		}
		done := event.HookOutcome{Name: spec.Name, Outcome: event.OutcomePassed}
		if got.event != nil {
			done.Outcome = event.OutcomeReplaced
			out.Event, _ = json.Marshal(got.event)
		}
		out.Responses, out.Produced = got.responses, got.produced
		switch {
		case len(got.responses) > 0:
			done.Outcome = event.OutcomeResponded
		case len(got.produced) > 0:
			done.Outcome = event.OutcomeOverwritten
		}
		out.Done = append(out.Done, done)
		if done.Outcome == event.OutcomeResponded || done.Outcome == event.OutcomeOverwritten {
			break
		}
	}
	return out, nil
}

// eventOf reads an event from the stored records.
func (f *fakes) eventOf(in step.Hook) json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		if r.ID != in.EventID {
			continue
		}
		if r.Type == event.TypeToolCall {
			return r.Payload
		}
		if r.Type != event.TypeMessage {
			raw, err := json.Marshal(event.CustomEvent{Type: r.Type, ThreadID: in.Thread.ThreadID, Payload: r.Payload})
			assert.NoError(f.t, err)
			return raw
		}
		var m event.Message
		if err := json.Unmarshal(r.Payload, &m); err != nil {
			f.t.Errorf("reading message %s: %v", r.ID, err)
		}
		m.ThreadID = in.Thread.ThreadID
		if m.SenderID == "" {
			m.SenderID = m.ToolName
		}
		raw, err := json.Marshal(step.MessageEvent(m))
		assert.NoError(f.t, err)
		return raw
	}
	assert.Fail(f.t, "S0-35 the event is not stored", in.EventID)
	return nil
}

func (f *fakes) planCalls(_ context.Context, in step.Plan) (step.PlanReply, error) {
	f.flush(in.Flush)
	f.mu.Lock()
	f.planned = append(f.planned, in)
	f.mu.Unlock()
	if f.plan != nil {
		return f.plan(in)
	}
	out := step.PlanReply{Agent: in.Agent, Model: "demo/demo", MaxSteps: 5}
	for _, id := range in.Only {
		out.Calls = append(out.Calls, plain(id))
	}
	return out, nil
}

// heard are the decisions that were stored, as "event: outcome".
func (f *fakes) heard() []string {
	out := []string{}
	for _, d := range stored[event.Interception](f, event.TypeHook) {
		out = append(out, fmt.Sprintf("%s: %s", d.EventID, d.Outcome))
	}
	return out
}

// names are the hooks of each batch.
func (f *fakes) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, in := range f.asked {
		out = append(out, fmt.Sprintf("%s: %s", in.EventID, thread.Names(in.Hooks)))
	}
	return out
}

func setOf(t *testing.T, hooks []hook.Hook, processors ...hook.Processor) *hook.Set {
	t.Helper()
	set, err := hook.NewSet(hook.Config{Hooks: hooks, Processors: processors})
	require.NoError(t, err)
	return set
}

// function is a hook with a function of the test.
func function(name string, types ...string) hook.Hook {
	h := hook.OnEvent(name, func(context.Context, event.Event) (hook.Result, error) {
		panic("the fake answers in its place")
	})
	h.Filter.Types = types
	return h
}

// persons are hook workflows that wait for a person.
type persons struct {
	requests  []hook.Request
	cancelled int
}

const (
	askPerson  = "ask_person"
	signalSays = "says"
)

// ask is the workflow: it returns the verdict that it receives.
func (p *persons) ask(ctx workflow.Context, r hook.Request) (hook.Verdict, error) {
	p.requests = append(p.requests, r)
	var v hook.Verdict
	box := workflow.GetSignalChannel(ctx, signalSays)
	err := workflow.Await(ctx, func() bool { return box.Len() > 0 })
	if err != nil {
		p.cancelled++
		return v, err
	}
	box.ReceiveAsync(&v)
	return v, nil
}

func (p *persons) register(w *fixture) *persons {
	w.RegisterWorkflowWithOptions(p.ask, workflow.RegisterOptions{Name: askPerson})
	return p
}

// personHook is a hook that asks a person.
func personHook(name string, types ...string) hook.Hook {
	h := hook.InWorkflow(name, hook.Workflow{Type: askPerson})
	h.Filter.Types = types
	return h
}

func message(by event.CreatedBy, sender, content string) event.MessageEvent {
	return event.MessageEvent{CreatedBy: by, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: sender, SenderType: by, Content: content}}
}

func rawOf(t *testing.T, e event.Event) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	return raw
}
