package worldview

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/turn"
	"github.com/threadmill/threadmill/store"
)

// ApprovalMessage is the message that asks the clients of a world about a call. Its own call is
// [event.RequestApproval].
func ApprovalMessage(q event.ApprovalRequest, messageID, chatID string, at time.Time) (event.WorldMessage, error) {
	text := fmt.Sprintf("%s wants to run %s", q.Agent, q.ToolName)
	if q.Reason != "" {
		text += ": " + q.Reason
	}
	arguments, err := json.Marshal(event.RequestApprovalArgs{
		OriginalToolCall: event.OriginalToolCall{
			ID: q.ToolCallID, Name: q.ToolName, Args: parameters(q.Arguments), WorkingDirectory: q.WorkingDirectory,
		},
		Message: text, Options: event.ApprovalOptions(),
	})
	calls := []event.ToolCall{{
		ID:       event.ApprovalCallID(q.ToolCallID, q.Round),
		Function: event.Function{Name: event.RequestApproval, Arguments: string(arguments)},
	}}
	return event.WorldMessage{
		Sender: q.Agent, Role: event.RoleAssistant, Timestamp: at, MessageID: messageID, ChatID: chatID,
		AgentName: q.Agent, AgentID: q.Agent, ReplyToMessageID: q.MessageID, ToolCalls: calls, ToolCallStatus: open(calls),
	}, err
}

// request returns the events of an approval request. A call that was approved but needs approval
// again is pending again.
func (pr *projector) request(item feed.Item) events {
	q := item.Event.Request
	if q.Reminder > 0 {
		return events{pr.system(item, fmt.Sprintf("%s (%s) still waits for a decision", q.ToolName, q.ToolCallID))}
	}
	msg, err := ApprovalMessage(*q, item.Record.ID, pr.Key.ThreadID, pr.at(item))
	if err != nil {
		return nil
	}
	out := events{pr.worldMessageEvent(item, msg), nil}
	if q.Round > 1 {
		out[1] = pr.statusUpdate(item, q.MessageID, q.ToolCallID, event.ToolCallStatus{})
	}
	return out
}

// decision returns the events of a decision on a call.
func (pr *projector) decision(ctx context.Context, item feed.Item) (events, error) {
	a := item.Event.Approval
	call := fmt.Sprintf("%s (%s)", a.ToolName, a.ToolCallID)
	switch {
	case a.Decision == event.DecisionRevoked:
		return events{pr.system(item, fmt.Sprintf("%s takes the approval of %s back", a.By, a.ToolCallID))}, nil
	case a.Missing > 0:
		return events{pr.system(item, fmt.Sprintf("%s approves %s; %d more have to", a.By, call, a.Missing))}, nil
	}
	q, found, err := pr.requestOf(ctx, *a)
	if err != nil {
		return nil, err
	}
	if !found {
		return events{pr.activity(item, "approval", a.By, automaticDecision(*a, call))}, nil
	}
	msg := decisionMessage(*a, q, item.Record.ID, pr.Key.ThreadID, pr.at(item))
	status := msg.ToolCallStatus[msg.ToolCallID]
	return events{
		pr.worldMessageEvent(item, msg),
		pr.statusUpdate(item, recordid.Request(q), msg.ToolCallID, status),
		pr.statusUpdate(item, q.MessageID, q.ToolCallID, status),
	}, nil
}

// automaticDecision describes a decision without a request.
func automaticDecision(a event.Approval, call string) string {
	if a.Decision == event.DecisionApprove {
		return fmt.Sprintf("%s runs, as the approval of %s grants", call, a.Grant)
	}
	return fmt.Sprintf("%s is denied: %s", call, a.Reason)
}

// requestOf returns the request that a decision answers, if there was one.
func (pr *projector) requestOf(ctx context.Context, a event.Approval) (q event.ApprovalRequest, found bool, err error) {
	records, err := pr.Records(ctx, recordid.Request(event.ApprovalRequest{ToolCallID: a.ToolCallID, Round: a.Round}))
	if err != nil || len(records) == 0 {
		return q, false, err
	}
	return q, json.Unmarshal(records[0].Payload, &q) == nil, nil
}

// decisionMessage is a decision as a tool's message: the result of the call that asked people.
func decisionMessage(a event.Approval, q event.ApprovalRequest, messageID, chatID string, at time.Time) event.WorldMessage {
	arguments := q.Arguments
	if a.Arguments != "" {
		arguments = a.Arguments
	}
	result := decided(&a)
	data := event.ToolResultData{
		Decision: result.Decision, Scope: result.Scope, ToolName: a.ToolName, ToolArgs: parameters(arguments), WorkingDirectory: a.WorkingDirectory,
	}
	text, _ := data.Text() // the arguments are JSON
	id := event.ApprovalCallID(a.ToolCallID, a.Round)
	return event.WorldMessage{
		Sender: a.By, Content: text, Role: event.RoleTool, Timestamp: at, MessageID: messageID, ChatID: chatID,
		AgentName: a.Agent, AgentID: a.Agent, ToolCallID: id, ReplyToMessageID: recordid.Request(q),
		ToolCallStatus: map[string]event.ToolCallStatus{id: {Complete: true, Result: result}},
	}
}

// decided returns a decision as clients know it, or nil. An expired request is a denial.
func decided(a *event.Approval) *event.ToolCallDecision {
	if a == nil {
		return nil
	}
	out := event.ToolCallDecision{Decision: a.Decision, Scope: a.Scope, Timestamp: a.DecidedAt}
	if out.Decision != event.DecisionApprove {
		out.Decision = event.DecisionDeny
	}
	if out.Scope == "" {
		out.Scope = event.ScopeOnce
	}
	return &out
}

// statusOf returns the status of a call, which may be nil, or, with a round, of the request for its approval.
func statusOf(c *turn.Call, round int) event.ToolCallStatus {
	a, done := c.Decided(), c != nil && c.Result != nil
	if round > 0 {
		a, done = c.DecidedIn(round), false
	}
	return event.ToolCallStatus{Complete: done || a != nil, Result: decided(a)}
}

// callStates returns the current states of calls. Rounds of approval follow one another.
func (pr *projector) callStates(ctx context.Context, calls ...string) (*turn.Calls, error) {
	var all []event.Record
	for round := event.FirstRound; ; round++ {
		ids := make([]string, 0, 2*len(calls))
		for _, call := range calls {
			first := recordid.Result(call)
			if round > event.FirstRound {
				first = recordid.Request(event.ApprovalRequest{ToolCallID: call, Round: round})
			}
			ids = append(ids, first, recordid.Decision(call, round))
		}
		for some := range slices.Chunk(ids, store.MaxLimit) {
			records, err := pr.Records(ctx, some...)
			if err != nil {
				return nil, err
			}
			all = append(all, records...)
		}
		out := feed.Calls(all)
		calls = slices.DeleteFunc(slices.Clone(calls), func(id string) bool { return out.Find(id).DecidedIn(round) == nil })
		if len(calls) == 0 {
			return out, nil
		}
	}
}
