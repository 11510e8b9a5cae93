package signals

import "github.com/threadmill/threadmill/event"

// DecideOf returns the decision that a message contains, made by its sender: see
// [event.ParseContent]. The caller must still validate it with [Decide.Validate].
func DecideOf(m event.ToolResultMessage, sender string) Decide {
	d := Decide{
		Decision: m.Data.Decision, Scope: m.Data.Scope, By: sender, Agent: m.TargetAgentID,
		ToolName: m.Data.ToolName, ToolArgs: m.Data.ToolArgs, WorkingDirectory: m.Data.WorkingDirectory,
	}
	d.ToolCallID, d.Round = event.ParseApprovalCallID(m.ToolCallID)
	if d.Round == 1 {
		d.Round = 0 // Clients that do not know rounds send none for the first.
	}
	return d
}
