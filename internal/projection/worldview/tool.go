package worldview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// callsMessage is the message whose call an item is about, if the item says so.
func callsMessage(item feed.Item) string {
	if item.Record == nil {
		return ""
	}
	if msg, ok := resultMessage(item); ok {
		return msg.ReplyToMessageID
	}
	id := strings.TrimSuffix(item.Record.ID, event.InterceptionID(""))
	if reply, ok := event.ReplyOfCalls(id); ok {
		return reply
	}
	return ""
}

// resultMessage is the message of a tool's result.
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
	// As the viewer is to see it.
	msg.Content = item.Event.Output
	return msg, true
}

// result derives the events of a result of a tool, or of a message of the world itself.
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
	approval, out := stands[msg.ToolCallID].approval(), make(events, 4)
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

// executed is the event of a call that has run with approval, nil if it was not run after all.
func (pr *projector) executed(ctx context.Context, item feed.Item, msg event.Message, approval event.Approval) (*event.WorldEvent, error) {
	if not, err := pr.notRun(ctx, msg); err != nil || not {
		return nil, err
	}
	arguments, err := pr.runArguments(ctx, msg, approval)
	if err != nil {
		return nil, err
	}
	// As the viewer is to see it: a call that a grant covers stands in no request.
	shown := pr.show(ctx, event.AgentEvent{
		Type: event.EventToolCall, ToolName: msg.ToolName, ToolArgs: arguments, ToolCallID: msg.ToolCallID, Agent: msg.AgentID,
	})
	msg.ToolName = shown.ToolName
	return pr.event(item, event.WorldToolExecutionEvent, "", pr.execution(msg, approval, shown.ToolArgs)), nil
}

// notRun reports whether it is on record that the call of a result has not run: it was denied
// right before, or no client has answered. Of other errors that is not known.
func (pr *projector) notRun(ctx context.Context, msg event.Message) (bool, error) {
	if !msg.IsError {
		// The log of a call that has begun a task is the task's, and may come later.
		return false, nil
	}
	asked, err := pr.Records(ctx, event.ClientCallID(msg.ToolCallID))
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

// runArguments are the arguments that the call of a result ran with.
func (pr *projector) runArguments(ctx context.Context, msg event.Message, approval event.Approval) (string, error) {
	if approval.Arguments != "" {
		return approval.Arguments, nil
	}
	of := msg.ReplyToMessageID
	records, err := pr.Records(ctx, of, event.InterceptionID(event.CallsID(of)))
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

// callsIn are the calls of a message, or those that hooks have put in their place.
func callsIn(r event.Record) []event.ToolCall {
	var p struct {
		ToolCalls []event.ToolCall `json:"toolCalls"`
	}
	_ = json.Unmarshal(r.Payload, &p) // of any other form, it has none
	return p.ToolCalls
}

// execution tells of a call that has run with approval.
func (pr *projector) execution(msg event.Message, approval event.Approval, arguments string) event.WorldToolExecution {
	out := event.WorldToolExecution{
		AgentID: msg.AgentID, ToolName: msg.ToolName, Command: msg.ToolName, Parameters: parameters(arguments),
		Directory: approval.WorkingDirectory, ExitCode: exitCode(msg), ChatID: pr.Key.ThreadID,
	}
	var known struct{ Command, Directory string }
	_ = json.Unmarshal([]byte(arguments), &known) // of other tools there is neither
	if known.Command != "" {
		out.Command = known.Command
	}
	if known.Directory != "" {
		out.Directory = known.Directory
	}
	return out
}

// exitCode is that of a command, if the result says it.
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
