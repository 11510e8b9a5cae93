package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
)

// plan plans a call. A call that cannot run needs no approval: running it gives the model its
// error.
func (p *planner) plan(ctx context.Context, call event.ToolCall) step.PlannedCall {
	out, parts, err := p.draft(ctx, call)
	if err != nil {
		return invalidCall(call)
	}
	p.policy(ctx, &out, parts...)
	if out.NeedsApproval && out.Guard != nil && p.pending[out.Guard.Digest] != "" {
		out.NeedsApproval, out.Duplicate = false, p.pending[out.Guard.Digest]
	}
	return out
}

// invalidCall returns the plan of a call that cannot run.
func invalidCall(call event.ToolCall) step.PlannedCall {
	return step.PlannedCall{ID: call.ID, Name: call.Function.Name, Invalid: true, Quick: true}
}

// draft returns the plan of a call before approvals are checked, and its parts. The error, for the
// model, says why the call cannot run.
func (p *planner) draft(ctx context.Context, call event.ToolCall) (step.PlannedCall, []part, error) {
	out, arguments := step.PlannedCall{ID: call.ID, Name: call.Function.Name}, call.Function.Arguments
	t, ok := p.tools.lookup(out.Name)
	if !ok {
		return out, nil, p.tools.unknown(out.Name)
	}
	d := t.Definition().WithDefaults()
	if err := d.ValidateArguments(arguments); err != nil {
		return out, nil, err
	}
	if d.Client && len(arguments) > step.MaxWholeContent {
		return out, nil, fmt.Errorf("the arguments are %d bytes; a client takes at most %d", len(arguments), step.MaxWholeContent)
	}
	outer, err := p.part(d, arguments)
	if err != nil {
		return out, nil, err
	}
	out.Quick, out.TaskQueue = d.Quick, d.TaskQueue
	parts := []part{outer}
	if d.Background {
		out.By, out.Task = step.ByTask, taskPlan(d, "")
	}
	if d.Client {
		out.By, out.ClientTime, out.Arguments = step.ByClient, d.Deadline, arguments
	}
	if _, own := t.(byThread); own {
		todo, err := p.planOwn(ctx, call)
		if err != nil {
			return out, nil, err
		}
		out.Quick, out.By, out.Task, out.TaskID, out.SubAgent = false, todo.By, todo.Task, todo.TaskID, todo.SubAgent
		out.Ingest = todo.Ingest
		if todo.runs != nil {
			// The tool that the task runs is checked as well as the task itself.
			inner, err := p.part(*todo.runs, todo.arguments)
			if err != nil {
				return out, nil, err
			}
			parts = append(parts, inner)
		}
		for i := range parts {
			parts[i].resolved = withAgent(parts[i].call.Arguments, todo.agent)
		}
	}
	return out, parts, nil
}

// withAgent returns arguments with the agent's registered name: names are case-insensitive, and
// rules must not be bypassed with another spelling.
func withAgent(arguments, agentName string) string {
	var fields map[string]any
	if agentName == "" || json.Unmarshal([]byte(arguments), &fields) != nil || fields["agent"] == nil {
		return ""
	}
	fields["agent"] = agentName
	// Decoded JSON can always be marshalled.
	raw, _ := json.Marshal(fields)
	return string(raw)
}

// planCalls plans calls that hooks changed or created, and stores their approval requests.
func (a *Activities) planCalls(ctx context.Context, in step.Plan) (step.PlanReply, error) {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return step.PlanReply{}, err
	}
	who, err := a.agentFor(ctx, in.Thread, in.Agent, in.Tools)
	if err != nil {
		return step.PlanReply{}, err
	}
	calls, err := a.callsOf(ctx, in.Thread, in.MessageID)
	if err != nil {
		return step.PlanReply{}, err
	}
	out := step.PlanReply{Agent: who.Name, Model: who.Model, MaxSteps: who.Limits.WithDefaults().MaxSteps, OnWaiting: who.OnWaiting}
	var requests []event.Record
	var size argumentBytes
	now := time.Now()
	planner := a.planner(ctx, in.Thread, who, in.WorkingDirectory)
	if !in.Again {
		planner.pending = in.Pending
	}
	for _, call := range calls {
		if !slices.Contains(in.Only, call.ID) {
			continue
		}
		p := planner.plan(ctx, call)
		if id := in.Decisions[call.ID]; id != "" {
			if p, err = a.replan(ctx, planner, call, id); err != nil {
				return step.PlanReply{}, err
			}
		}
		p = size.bound(p, call)
		if p.NeedsApproval && !in.Again {
			requests = append(requests, request(call, p, who.Name, in.MessageID, in.TraceID, in.EventID, now).In(step.TurnEvent(in.Root, in.EventID)))
		}
		out.Calls = append(out.Calls, p)
	}
	if len(out.Calls) != len(in.Only) {
		return out, configError(fmt.Errorf("message %s has %d of the %d calls to plan", in.MessageID, len(out.Calls), len(in.Only)))
	}
	if len(requests) > 0 {
		if _, err := a.append(ctx, in.Thread, store.Batch{Records: requests}, step.Flush{}); err != nil {
			return step.PlanReply{}, err
		}
	}
	return out, nil
}

// request returns the record of an approval request.
func request(call event.ToolCall, p step.PlannedCall, agentName, messageID, traceID, eventID string, now time.Time) event.Record {
	q := p.Request(agentName, messageID, call.Function.Arguments, now)
	return event.NewRecord(recordid.Request(q), event.TypeApprovalRequest, traceID, eventID, now, q)
}

// callsOf returns the calls of a stored message with the changes of hooks.
func (a *Activities) callsOf(ctx context.Context, ref step.Ref, messageID string) ([]event.ToolCall, error) {
	decisionID := recordid.Interception(recordid.Calls(messageID))
	records, err := a.cfg.Store.RecordsByID(ctx, ref, messageID, decisionID)
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

// edited applies a record to the calls of a message: the message itself, or a decision of hooks on
// its calls.
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
	if decision.Outcome == event.OutcomeReplaced && decision.ToolCalls != nil {
		return decision.ToolCalls, nil
	}
	return calls, nil
}

// agentFor returns an agent with only the tools that the turn allows.
func (a *Activities) agentFor(ctx context.Context, ref step.Ref, name string, tools []string) (agent.Agent, error) {
	who, err := a.cfg.Agents.Agent(ctx, ref.Namespace, name)
	if err != nil {
		return who, agentError(err)
	}
	return allowed(who, tools), nil
}

// agentsAt is an agent source that reads no agent again while the stored agents stay the same.
type agentsAt interface {
	AgentAt(ctx context.Context, namespace, name string, change int64) (agent.Agent, error)
}

// agentAt returns an agent after an append.
func (a *Activities) agentAt(ctx context.Context, ref step.Ref, name string, done store.Appended) (agent.Agent, error) {
	if agents, ok := a.cfg.Agents.(agentsAt); ok {
		return agents.AgentAt(ctx, ref.Namespace, name, done.AgentChange)
	}
	return a.cfg.Agents.Agent(ctx, ref.Namespace, name)
}

// allowed removes the tools that a turn does not allow.
func allowed(who agent.Agent, tools []string) agent.Agent {
	if tools != nil {
		who.Tools = event.CommonTools(who.Tools, tools)
	}
	return who
}
