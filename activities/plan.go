package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/builtin"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// plan tells the workflow how a call is to be run. A call that cannot run asks
// nobody: running it gives the model its error.
func (a *Activities) plan(ctx context.Context, ref thread.Ref, who agent.Agent, call event.ToolCall) thread.PlannedCall {
	p := thread.PlannedCall{ID: call.ID, Name: call.Function.Name, Unfit: true, Quick: true}
	t, ok := a.toolOf(who, p.Name)
	if !ok {
		return p
	}
	d := t.Definition().WithDefaults()
	if tool.CheckArguments(d, call.Function.Arguments) != nil {
		return p
	}
	p.Unfit, p.Quick = false, d.Quick
	if d.Background {
		p.By, p.Task = thread.ByTask, taskPlan(d, "")
	}
	if _, own := t.(byThread); own {
		todo, err := a.planOwn(ctx, ref, who, call)
		if err != nil {
			p.Unfit, p.Quick = true, true
			return p
		}
		p.Quick, p.By, p.Task, p.TaskID, p.Sub = false, todo.By, todo.Task, todo.TaskID, todo.Sub
		if todo.runs != nil {
			// What runs in the end asks, as well as the task itself.
			ask(&p, who, *todo.runs, call)
		}
	}
	ask(&p, who, d, call)
	return p
}

// ask notes that a person has to approve the call, if the agent's policy for a tool says so.
func ask(p *thread.PlannedCall, who agent.Agent, d tool.Definition, call event.ToolCall) {
	if !p.NeedsApproval && policy(who, d) == agent.Always {
		p.NeedsApproval, p.Arguments, p.Reason = true, thread.CarryArguments(call.Function.Arguments), d.ApprovalReason
	}
}

// policy is the agent's policy for a tool. The names of call_agent stand for each other.
func policy(who agent.Agent, d tool.Definition) agent.Policy {
	for _, name := range []string{builtin.CallAgent, builtin.CallAgentHyphen} {
		if d.Name != builtin.CallAgent && d.Name != builtin.CallAgentHyphen {
			break
		}
		if who.Approvals[name] == agent.Always {
			return agent.Always
		}
	}
	return who.Approval(d.Name, d.NeedsApproval)
}

// PlanCalls plans calls that hooks have changed or made, and stores who has to approve:
// people are asked about what will run.
func (a *Activities) PlanCalls(ctx context.Context, in thread.PlanStep) (thread.PlanReply, error) {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return thread.PlanReply{}, err
	}
	who, err := a.agentFor(ctx, in.Thread, in.Agent, in.Tools)
	if err != nil {
		return thread.PlanReply{}, err
	}
	calls, err := a.callsOf(ctx, in.Thread, in.MessageID)
	if err != nil {
		return thread.PlanReply{}, err
	}
	out := thread.PlanReply{Agent: who.Name, Model: who.Model, MaxSteps: who.Limits.WithDefaults().MaxSteps}
	var requests []event.Record
	now := time.Now()
	for _, call := range calls {
		if !slices.Contains(in.Only, call.ID) {
			continue
		}
		p := a.plan(ctx, in.Thread, who, call)
		if p.NeedsApproval {
			requests = append(requests, request(call, p, who.Name, in.TraceID, in.EventID, now))
		}
		out.Calls = append(out.Calls, p)
	}
	if len(out.Calls) != len(in.Only) {
		return out, configError(fmt.Errorf("message %s has %d of the %d calls to plan", in.MessageID, len(out.Calls), len(in.Only)))
	}
	if len(requests) > 0 {
		if _, err := a.append(ctx, in.Thread, store.Batch{Records: requests}, thread.Flush{}); err != nil {
			return thread.PlanReply{}, err
		}
	}
	return out, nil
}

// request is the record that asks people about a call.
func request(call event.ToolCall, p thread.PlannedCall, agentName, traceID, eventID string, now time.Time) event.Record {
	return event.NewRecord(call.ID+".request", event.TypeApprovalRequest, traceID, eventID, now, event.ApprovalRequest{
		ToolCallID: call.ID, ToolName: p.Name, Arguments: call.Function.Arguments, Agent: agentName, Reason: p.Reason, RequestedAt: now,
	})
}

// callsOf returns the calls of a stored message as hooks have left them.
func (a *Activities) callsOf(ctx context.Context, ref thread.Ref, messageID string) ([]event.ToolCall, error) {
	decisionID := event.InterceptionID(thread.CallsID(messageID))
	records, err := a.cfg.Store.RecordsByID(ctx, store.Key(ref), messageID, decisionID)
	if err != nil {
		return nil, readError(err)
	}
	var calls []event.ToolCall
	for _, rec := range records {
		if calls, err = edited(calls, rec); err != nil {
			return nil, configError(fmt.Errorf("reading record %s: %w", rec.ID, err))
		}
	}
	return calls, nil
}

// edited applies a record to the calls of a message: the message itself, or what hooks
// have decided on its calls.
func edited(calls []event.ToolCall, rec event.Record) ([]event.ToolCall, error) {
	if rec.Type != event.TypeHook {
		var m event.Message
		err := json.Unmarshal(rec.Payload, &m)
		return m.ToolCalls, err
	}
	var decision event.Interception
	if err := json.Unmarshal(rec.Payload, &decision); err != nil {
		return nil, err
	}
	if decision.Outcome == event.Replaced && decision.ToolCalls != nil {
		return decision.ToolCalls, nil
	}
	return calls, nil
}

// agentFor reads an agent, with no more tools than the turn allows.
func (a *Activities) agentFor(ctx context.Context, ref thread.Ref, name string, tools *[]string) (agent.Agent, error) {
	who, err := a.cfg.Agents.Agent(ctx, ref.Namespace, name)
	if err != nil {
		return who, agentError(err)
	}
	return allowed(who, tools), nil
}

// allowed takes away the tools that a turn does not allow.
func allowed(who agent.Agent, tools *[]string) agent.Agent {
	if tools != nil {
		who.Tools = slices.DeleteFunc(slices.Clone(who.Tools), func(name string) bool { return !slices.Contains(*tools, name) })
	}
	return who
}
