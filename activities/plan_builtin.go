package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tool"
)

// byThread is a tool whose calls the thread itself runs.
type byThread struct{ definition tool.Definition }

// Definition implements [tool.Tool].
func (t byThread) Definition() tool.Definition { return t.definition }

// Call implements [tool.Tool].
func (byThread) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errors.New("this tool runs in a thread only")
}

// ownPlan is the plan of a call that the thread itself runs.
type ownPlan struct {
	step.PlannedCall

	// runs is the tool that a background task runs, and arguments its arguments.
	runs      *tool.Definition
	arguments string

	// agent is the registered name of the agent that a sub-agent call names.
	agent string
}

// planOwn plans a call that the thread itself runs. The error is for the model.
func (p *planner) planOwn(ctx context.Context, call event.ToolCall) (ownPlan, error) {
	var out ownPlan
	out.By = step.ByThread
	raw := []byte(call.Function.Arguments)
	switch call.Function.Name {
	case builtin.GetTask, builtin.CancelTask:
		var in builtin.TaskIDArguments
		err := strictjson.Decode(raw, &in, 0)
		out.TaskID = in.TaskID
		return out, err
	case builtin.CallAgent, builtin.CallAgentHyphen:
		var in builtin.AgentArguments
		if err := strictjson.Decode(raw, &in, 0); err != nil {
			return out, err
		}
		out.By = step.ByAgent
		err := p.a.planAgent(ctx, p.ref, &out, in)
		return out, err
	case builtin.Task:
		return p.planTask(ctx, raw)
	case builtin.IngestDocument:
		out.Ingest = &signals.Ingestion{}
		err := strictjson.Decode(raw, out.Ingest, 0)
		if err == nil {
			err = out.Ingest.Validate()
		}
		return out, err
	}
	return out, nil
}

// planAgent plans a call of a sub-agent.
func (a *Activities) planAgent(ctx context.Context, ref step.Ref, out *ownPlan, in builtin.AgentArguments) error {
	sub, err := a.cfg.Agents.Agent(ctx, ref.Namespace, in.Agent)
	switch {
	case in.Agent == "":
		return errors.New("agent is required: the name of the agent to ask")
	case errors.Is(err, agent.ErrUnknown):
		return err
	case err == nil:
		in.Agent = sub.Name
	}
	if err := signals.ValidateID("agent", in.Agent); err != nil {
		return err
	}
	if event.Blank(in.Message) {
		return errors.New("message is required: what the agent is to do")
	}
	if size := len(jsonText(in.Message)); size > maxSubMessage {
		return fmt.Errorf("message is %d bytes as JSON, must be at most %d", size, maxSubMessage)
	}
	out.agent = in.Agent
	out.SubAgent = &step.SubAgentPlan{Agent: in.Agent, Message: in.Message, Title: shortTitle(in.Title)}
	return nil
}

// maxSubMessage is the maximum size of a message to a sub-agent, in bytes as posted, since it enters
// history.
const maxSubMessage = 128 << 10

// jsonText returns text as JSON.
func jsonText(s string) []byte {
	raw, _ := json.Marshal(s) // text has a JSON form
	return raw
}

// planTask plans a background task: a tool or a sub-agent.
func (p *planner) planTask(ctx context.Context, raw []byte) (ownPlan, error) {
	var out ownPlan
	var in builtin.TaskArguments
	if err := strictjson.Decode(raw, &in, 0); err != nil {
		return out, err
	}
	out.By = step.ByTask
	if in.Agent != "" {
		if in.Tool != "" {
			return out, errors.New("tool and agent exclude each other: a task runs one of them")
		}
		delegator, ok := p.a.mayAsk(p.who)
		if !ok {
			return out, fmt.Errorf("agent %q cannot be called: that requires the tool %s; your tools are %v", in.Agent, builtin.CallAgent, p.tools.names())
		}
		out.runs, out.Task = &delegator, &step.TaskPlan{Title: shortTitle(in.Title), Deadline: tool.DefaultDeadline}
		delegated := builtin.AgentArguments{Agent: in.Agent, Message: in.Message, Title: in.Title}
		// Text can always be marshalled.
		inner, _ := json.Marshal(delegated)
		out.arguments = string(inner)
		return out, p.a.planAgent(ctx, p.ref, &out, delegated)
	}
	t, ok := p.tools.lookup(in.Tool)
	if _, own := t.(byThread); !ok || own {
		return out, fmt.Errorf("unknown tool %q: a task runs one of your other tools, which are %v, or an agent", in.Tool, p.tools.names())
	}
	d := t.Definition().WithDefaults()
	out.runs, out.Task = &d, taskPlan(d, in.Title)
	out.arguments = cmp.Or(string(in.Arguments), "{}")
	return out, d.ValidateArguments(out.arguments)
}

// mayAsk returns the tool with which an agent calls other agents, if it has one.
func (a *Activities) mayAsk(who agent.Agent) (tool.Definition, bool) {
	for _, name := range []string{builtin.CallAgent, builtin.CallAgentHyphen} {
		if slices.Contains(who.Tools, name) {
			d, ok := builtin.Lookup(name)
			return d, ok
		}
	}
	return tool.Definition{}, false
}

func taskPlan(d tool.Definition, title string) *step.TaskPlan {
	return &step.TaskPlan{Tool: d.Name, Title: cmp.Or(shortTitle(title), d.Name), Deadline: d.Deadline, Detached: d.Detached, TaskQueue: d.TaskQueue}
}

const maxTaskTitle = 200 // bytes

// shortTitle cuts a model's title to the length that is shown.
func shortTitle(title string) string { return event.ShortLine(title, maxTaskTitle) }
