package worldview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// callsMessage returns the id of the message with an item's call, if the item names it.
func callsMessage(item feed.Item) string {
	if item.Record == nil {
		return ""
	}
	if msg, ok := resultMessage(item); ok {
		return msg.ReplyToMessageID
	}
	id := strings.TrimSuffix(item.Record.ID, recordid.Interception(""))
	if reply, ok := recordid.ReplyOfCalls(id); ok {
		return reply
	}
	return ""
}

// resultMessage returns the message of a tool's result.
func resultMessage(item feed.Item) (event.Message, bool) {
	if item.Event.Type != event.EventToolResult {
		return event.Message{}, false
	}
	var msg event.Message
	if item.Record.Type == event.TypeHook {
		var decided event.Interception
		if json.Unmarshal(item.Record.Payload, &decided) != nil || decided.Message == nil {
			return msg, false
		}
		msg = *decided.Message
	} else if json.Unmarshal(item.Record.Payload, &msg) != nil {
		return msg, false
	}
	// The viewer's version.
	msg.Content = item.Event.Output
	return msg, true
}

// result returns the events of a tool's result, or of a message of the world itself.
func (pr *projector) result(ctx context.Context, item feed.Item) (events, error) {
	msg, ok := resultMessage(item)
	switch {
	case !ok:
		return nil, nil
	case item.Record.Type == event.TypeHook:
		return events{pr.update(item, msg.ID, pr.messageOf(msg, pr.at(item)))}, nil
	case msg.ToolCallID == "":
		return events{pr.messageEvent(item, msg)}, nil
	}
	stands, err := pr.callStates(ctx, msg.ToolCallID)
	if err != nil {
		return nil, err
	}
	approval, out := stands.Find(msg.ToolCallID).Decided(), make(events, 4)
	if approval != nil && approval.Decision == event.DecisionApprove {
		if out[0], err = pr.executed(ctx, item, msg, *approval); err != nil {
			return nil, err
		}
	}
	if msg.IsError {
		out[1] = pr.tool(item, event.WorldToolError, event.WorldToolCall{Error: msg.Content})
	} else {
		out[1] = pr.tool(item, event.WorldToolResult, event.WorldToolCall{Result: msg.Content})
	}
	status := event.ToolCallStatus{Complete: true, Result: decided(approval)}
	said := pr.messageOf(msg, pr.at(item))
	said.ToolCallStatus = map[string]event.ToolCallStatus{msg.ToolCallID: status}
	out[2], out[3] = pr.worldMessageEvent(item, said), pr.statusUpdate(item, msg.ReplyToMessageID, msg.ToolCallID, status)
	return out, nil
}

// executed returns the event of a call that ran with approval, or nil if it did not run.
func (pr *projector) executed(ctx context.Context, item feed.Item, msg event.Message, approval event.Approval) (*event.WorldEvent, error) {
	if not, err := pr.notRun(ctx, msg); err != nil || not {
		return nil, err
	}
	arguments, err := pr.runArguments(ctx, msg, approval)
	if err != nil {
		return nil, err
	}
	// The viewer's version: a call that a grant covers has no request.
	shown := pr.show(ctx, event.AgentEvent{
		Type: event.EventToolCall, ToolName: msg.ToolName, ToolArgs: arguments, ToolCallID: msg.ToolCallID, Agent: msg.AgentID,
	})
	msg.ToolName = shown.ToolName
	return pr.event(item, event.WorldToolExecutionEvent, "", pr.execution(msg, approval, shown.ToolArgs)), nil
}

// notRun reports whether a result is known to belong to a call that did not run: it was denied
// right before, or no client responded. For other errors this is unknown.
func (pr *projector) notRun(ctx context.Context, msg event.Message) (bool, error) {
	if !msg.IsError {
		// The tool log of a call that started a task belongs to the task, and may come later.
		return false, nil
	}
	asked, err := pr.Records(ctx, recordid.ClientCall(msg.ToolCallID))
	if err != nil {
		return false, err
	}
	if len(asked) > 0 {
		_, answered := msg.Metadata["by"]
		return !answered, nil
	}
	log, err := pr.store.ToolLog(ctx, pr.Key, msg.ToolCallID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("reading the log of call %s of %s: %w", msg.ToolCallID, pr.Key, err)
	}
	return log.Status == store.ToolDenied, nil
}

// runArguments returns the arguments with which the call of a result ran.
func (pr *projector) runArguments(ctx context.Context, msg event.Message, approval event.Approval) (string, error) {
	if approval.Arguments != "" {
		return approval.Arguments, nil
	}
	of := msg.ReplyToMessageID
	records, err := pr.Records(ctx, of, recordid.Interception(recordid.Calls(of)))
	if err != nil {
		return "", err
	}
	arguments := ""
	for _, r := range records {
		for _, call := range callsIn(r) {
			if call.ID == msg.ToolCallID {
				arguments = call.Function.Arguments
			}
		}
	}
	return arguments, nil
}

// callsIn returns the calls of a message, or those that replaced them in a decision of hooks.
func callsIn(r event.Record) []event.ToolCall {
	var p struct {
		ToolCalls []event.ToolCall `json:"toolCalls"`
	}
	_ = json.Unmarshal(r.Payload, &p) // other payloads have no calls
	return p.ToolCalls
}

// execution describes a call that ran with approval.
func (pr *projector) execution(msg event.Message, approval event.Approval, arguments string) event.WorldToolExecution {
	out := event.WorldToolExecution{
		AgentID: msg.AgentID, ToolName: msg.ToolName, Command: msg.ToolName, Parameters: parameters(arguments),
		Directory: approval.WorkingDirectory, ExitCode: exitCode(msg), ChatID: pr.Key.ThreadID,
	}
	var known struct{ Command, Directory string }
	_ = json.Unmarshal([]byte(arguments), &known) // other tools have neither field
	if known.Command != "" {
		out.Command = known.Command
	}
	if known.Directory != "" {
		out.Directory = known.Directory
	}
	return out
}

// exitCode returns the exit code in a command's result, if there is one.
func exitCode(msg event.Message) int {
	var output struct {
		ExitCode *int `json:"exitCode"`
	}
	if json.Unmarshal([]byte(msg.Content), &output) == nil && output.ExitCode != nil {
		return *output.ExitCode
	}
	if msg.IsError {
		return 1
	}
	return 0
}
