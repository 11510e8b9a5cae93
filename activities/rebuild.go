package activities

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
)

// Rebuilt is what a step stored, as far as the history of its workflow tells.
type Rebuilt struct {
	// Before is what the step stored before it acted, Records what it stored with its result. Each was stored at once.
	Before, Records []event.Record
	Logs            []store.ToolLog

	// LogsBefore is the record before which the logs were stored, if they were stored without records.
	LogsBefore string

	// Title is the title that the step generated.
	Title string

	// Lost says what the history does not have.
	Lost []string
}

// History is what the history of a workflow tells beside a step.
type History struct {
	Namespace string

	// Arguments are the arguments of tool calls that ran, by the calls' ids.
	Arguments map[string]string

	// Answered are the ids of the results of tool calls.
	Answered map[string]bool

	// Running are the calls whose background tasks have not ended.
	Running map[string]bool

	// Records are those that steps have been given to store so far.
	Records []event.Record
}

// Rebuild rebuilds what a step stored, from its input and a pointer to its result.
func (h History) Rebuild(input, reply any, at time.Time) (re Rebuilt) {
	if r, ok := reply.(interface{ Lasts() *step.Underway }); ok && r.Lasts().Running {
		return re // the activity that joined the step has its result
	}
	switch in := input.(type) {
	case step.Model:
		out, ok := reply.(*step.ModelReply)
		if !ok {
			return re
		}
		re = rebuildReply(in, *out, h, at)
		if in.Observe != nil {
			re.Before = rebuildObservation(in, out.Agent, h.Records, at)
		}
	case step.Tool:
		if out, ok := reply.(*step.ToolReply); ok {
			re = rebuildResult(in, *out, at)
			if out.Input != nil && !h.Answered[recordid.Result(in.ToolCallID)] {
				re.Lost = append(re.Lost, fmt.Sprintf("what tool %s kept for itself while call %s waits for input", in.ToolName, in.ToolCallID))
			}
		}
	case step.Plan:
		if out, ok := reply.(*step.PlanReply); ok {
			re = rebuildPlan(in, *out, at)
		}
	case step.Event:
		re = rebuildEvent(in, at)
	case step.Title:
		if out, ok := reply.(*step.TitleReply); ok {
			re = rebuildTitle(in, *out, at)
		}
	case step.Delegate:
		if out, ok := reply.(*step.DelegateReply); ok && in.Parent != nil && in.First != nil {
			re = rebuildAnswer(*in.Parent, step.Ref{Namespace: h.Namespace, ThreadID: threadOf(in.First.Payload)}, *out, at)
		}
	case step.Task:
		if out, ok := reply.(*step.TaskReply); ok {
			re = rebuildTask(in, *out, at)
		}
	}
	return re
}

// threadOf returns the thread that the message of a thread itself names.
func threadOf(message json.RawMessage) string {
	var named struct {
		ThreadID string `json:"threadId"`
	}
	_ = json.Unmarshal(message, &named)
	return named.ThreadID
}

// facts returns what the history tells about a call of a reply. arguments is nil if they are unknown.
func (h History) facts(p step.PlannedCall) (arguments *string, answered bool) {
	answered = h.Answered[recordid.Result(p.ID)] || p.By == step.ByAgent && p.SubAgent != nil
	text, ok := h.Arguments[p.ID]
	if !ok && p.Arguments != "" && (p.Guard == nil || p.Guard.Arguments == "" || p.Guard.Arguments == step.ArgumentsDigest(p.Arguments)) {
		text, ok = p.Arguments, true
	}
	if ok {
		arguments = &text
	}
	return arguments, answered
}

// cutNote ends a text of which a history has only the beginning.
const cutNote = "\n\n[The rest of this text was lost: it was restored from the history of its workflow, which has the first %d KiB.]"

// lostArguments is the result of a call that cannot run, because its arguments are lost.
const lostArguments = "Error: the arguments of this call were lost when the store was restored from a backup. Whether it ran is unknown; it was not run again."

func whole(text string, truncated bool) string {
	if !truncated {
		return text
	}
	return text + fmt.Sprintf(cutNote, step.MaxCarriedContent>>10)
}

// rebuildReply rebuilds the records of a model call.
func rebuildReply(in step.Model, out step.ModelReply, h History, at time.Time) (re Rebuilt) {
	m := out.Message
	if out.Route != nil || out.Outage != nil || m.Interrupted && m.Content == "" {
		return re // nothing was stored
	}
	eventID := step.TurnEvent(in.Root, in.EventID)
	add := func(id, typ string, payload any) {
		re.Records = append(re.Records, event.NewRecord(id, typ, in.TraceID, in.EventID, at, payload).In(eventID))
	}
	add(recordid.LLMCall(in.MessageID), event.TypeLLMCall, event.LLMCall{
		Agent: out.Agent, Model: out.Model, MessageID: in.MessageID, Step: in.Step, Attempt: 1, Usage: out.Usage,
	})
	if m.Truncated {
		re.Lost = append(re.Lost, fmt.Sprintf("the text of reply %s after its first %d KiB", m.ID, step.MaxCarriedContent>>10))
	}
	m.Content, m.Truncated = whole(m.Content, m.Truncated), false
	m.Usage = out.Usage
	results := re.calls(in, out, &m, h, at)
	final := event.Final{Agent: out.Agent}
	if m.Content != "" || len(m.ToolCalls) > 0 {
		final.MessageID = in.MessageID
		c := modelCall{in: in}
		undecided := c.undecided(step.ModelReply{MessageDecision: out.MessageDecision, CallsDecision: out.CallsDecision}, m)
		re.Records = append(re.Records, event.NewRecord(m.ID, event.TypeMessage, in.TraceID, in.EventID, at, m).In(eventID).WithUndecided(undecided...))
	}
	hold := in.Gated || out.Gated
	switch {
	case len(m.ToolCalls) > 0:
		add(recordid.Calls(in.MessageID), event.TypeToolCall, event.ToolCallEvent{ThreadID: in.Thread.ThreadID, AgentName: out.Agent, ToolCalls: m.ToolCalls})
		if !hold {
			re.Records = append(re.Records, requests(in.Run, out.Agent, out.Calls, m.ToolCalls, at)...)
		}
		re.Records = append(re.Records, results...)
	case !m.Interrupted && !hold:
		add(recordid.Final(in.MessageID), event.TypeFinal, final)
		if out.EndStored {
			re.Records = append(re.Records, endedBy(in, final, at))
		}
	}
	return re
}

// rebuildObservation rebuilds the messages that describe an agent's event. It returns none if the event is not among
// records, since the store then has it.
func rebuildObservation(in step.Model, agentName string, records []event.Record, at time.Time) []event.Record {
	e, ok, err := observed(*in.Observe, records)
	if !ok || err != nil {
		return nil
	}
	return observation(in, agentName, e, at)
}

// calls sets the calls of a reply, and returns the results of those that must not run.
func (re *Rebuilt) calls(in step.Model, out step.ModelReply, m *event.Message, h History, at time.Time) (results []event.Record) {
	for _, p := range out.Calls {
		call := event.ToolCall{ID: p.ID, Function: event.Function{Name: p.Name, Arguments: "{}"}}
		arguments, answered := h.facts(p)
		switch {
		case arguments != nil:
			call.Function.Arguments = *arguments
		case p.SubAgent != nil:
			call.Function.Arguments = encode(builtin.AgentArguments{Agent: p.SubAgent.Agent, Message: p.SubAgent.Message, Title: p.SubAgent.Title})
		default:
			re.Lost = append(re.Lost, "the arguments of call "+p.ID)
			if !answered || h.Running[p.ID] {
				input := step.Tool{Run: in.Run, ToolCallID: p.ID, ToolName: p.Name}
				input.Agent = out.Agent
				lost := rebuildResult(input, step.ToolReply{ToolCallID: p.ID, Status: string(store.ToolUnknown), Result: lostArguments}, at)
				re.Logs = append(re.Logs, lost.Logs...) // a task does not run either
				if !answered {
					results = append(results, lost.Records...)
				}
			}
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return results
}

// requests returns the requests for approval of planned calls.
func requests(in step.Run, agentName string, plans []step.PlannedCall, calls []event.ToolCall, at time.Time) (out []event.Record) {
	for i, p := range plans {
		if p.NeedsApproval {
			out = append(out, request(calls[i], p, agentName, in.MessageID, in.TraceID, in.EventID, at).In(step.TurnEvent(in.Root, in.EventID)))
		}
	}
	return out
}

// rebuildPlan rebuilds the requests for approval that planning stored.
func rebuildPlan(in step.Plan, out step.PlanReply, at time.Time) (re Rebuilt) {
	if in.Again {
		return re
	}
	calls := make([]event.ToolCall, len(out.Calls))
	for i, p := range out.Calls {
		calls[i] = event.ToolCall{ID: p.ID, Function: event.Function{Name: p.Name, Arguments: p.Arguments}}
	}
	re.Records = requests(in.Run, out.Agent, out.Calls, calls, at)
	return re
}

// rebuildResult rebuilds the result of a tool call, or its request for input.
func rebuildResult(in step.Tool, out step.ToolReply, at time.Time) (re Rebuilt) {
	eventID := step.TurnEvent(in.Root, in.EventID)
	log := store.ToolLog{
		ToolCallID: in.ToolCallID, ToolName: storable(in.ToolName), Agent: in.Agent, TraceID: in.TraceID,
		Input: asJSON(out.Arguments), Status: store.ToolStatus(out.Status), Attempt: 1, StartedAt: at, FinishedAt: &at,
	}
	if q := out.Input; q != nil {
		log.Status = store.ToolWaiting
		re.Logs = []store.ToolLog{log}
		re.Records = append(re.Records, event.NewRecord(recordid.InputRequest(in.ToolCallID, q.Round), event.TypeInputRequest, in.TraceID, in.EventID, at, inputRecord{InputRequest: *q}).In(eventID))
		return re
	}
	if out.Approval != nil {
		return re
	}
	if out.Truncated {
		re.Lost = append(re.Lost, fmt.Sprintf("the result of call %s after its first %d KiB", in.ToolCallID, step.MaxCarriedContent>>10))
	}
	text := whole(out.Result, out.Truncated)
	log.Output = asJSON(text)
	re.Logs = []store.ToolLog{log}
	m := event.Message{
		ID: recordid.Result(in.ToolCallID), ThreadID: in.Thread.ThreadID, SenderID: in.ToolName, SenderType: event.CreatedByTool, Role: event.RoleTool,
		Content: text, ToolCallID: in.ToolCallID, ToolName: in.ToolName, IsError: log.Status != store.ToolSucceeded, AgentID: in.Agent, ReplyToMessageID: in.MessageID,
	}
	record := event.NewRecord(m.ID, event.TypeMessage, in.TraceID, in.EventID, at, m).In(eventID)
	if in.Undecided || out.Decision != nil && !out.Decision.Silent {
		record = record.WithUndecided(event.TypeMessage)
	}
	re.Records = append(re.Records, record)
	return re
}

// RebuildStart rebuilds the start of a tool that a worker may have run: only an idempotent one runs again. input
// is the input of activity run_tool.
func RebuildStart(input any, at time.Time) store.ToolLog {
	in, _ := input.(step.Tool)
	return store.ToolLog{
		ToolCallID: in.ToolCallID, ToolName: storable(in.ToolName), Agent: in.Agent, TraceID: in.TraceID,
		Input: json.RawMessage("{}"), Status: store.ToolStarted, Attempt: 1, StartedAt: at,
	}
}

// rebuildEvent rebuilds the end of a turn whose event a rule has handled.
func rebuildEvent(in step.Event, at time.Time) (re Rebuilt) {
	if in.Ends != "" {
		re.Records = []event.Record{ended(in.Ends, step.TurnEvent(in.Root, in.EventID), in.TraceID, nil, nil, in.Rule, at)}
	}
	return re
}

// rebuildTitle rebuilds the record of a generated title.
func rebuildTitle(in step.Title, out step.TitleReply, at time.Time) (re Rebuilt) {
	if out.Title != "" && out.Route == nil {
		re.Title = out.Title
		re.Records = []event.Record{event.NewRecord(in.RecordID, event.TypeStatus, "", "", at,
			event.StatusChange{Status: event.StatusUpdated, Title: out.Title, Detail: "title", By: titledBy})}
	}
	return re
}

// rebuildAnswer rebuilds the result of a call in the parent thread of a sub-agent.
func rebuildAnswer(to step.Parent, by step.Ref, out step.DelegateReply, at time.Time) (re Rebuilt) {
	if to.Background != nil || out.Status == "" || out.Cancelled {
		return re
	}
	if out.Truncated {
		re.Lost = append(re.Lost, fmt.Sprintf("the answer of sub-agent %s after its first %d KiB", by.ThreadID, step.MaxCarriedContent>>10))
	}
	record, log := answer(to, by, whole(out.Answer, out.Truncated), out.Failed, at)
	return Rebuilt{Records: []event.Record{record}, Logs: []store.ToolLog{log}, Lost: re.Lost}
}

// rebuildTask rebuilds the log of a background task's tool.
func rebuildTask(in step.Task, out step.TaskReply, at time.Time) (re Rebuilt) {
	log := store.ToolLog{
		ToolCallID: in.Task.ToolCallID, ToolName: storable(in.Task.Tool), Agent: in.Task.Agent, TraceID: in.Task.TraceID,
		Input: json.RawMessage("{}"), Status: store.ToolSucceeded, Attempt: 1, StartedAt: in.Task.StartedAt, FinishedAt: &at, Output: out.Result,
	}
	switch {
	case out.Cancelled:
		log.Status, log.Output = store.ToolInterrupted, asJSON(out.Error)
	case out.Error != "":
		log.Status, log.Output = store.ToolFailed, asJSON(out.Error)
	}
	re.Logs, re.LogsBefore = []store.ToolLog{log}, recordid.TaskEnded(in.Task.ID)
	return re
}
