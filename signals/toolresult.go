package signals

import "github.com/threadmill/threadmill/event"

// DecideOf is the decision that a message carries, made by its sender: see
// [event.ParseContent]. What it says of the call must be as in the request. It has still to
// be checked, as any other.
func DecideOf(m event.ToolResultMessage, sender string) Decide {
	d := Decide{
		Decision: m.Data.Decision, Scope: m.Data.Scope, By: sender, Agent: m.TargetAgentID,
		ToolName: m.Data.ToolName, ToolArgs: m.Data.ToolArgs, WorkingDirectory: m.Data.WorkingDirectory,
	}
	d.ToolCallID, d.Round = event.ParseApprovalCallID(m.ToolCallID)
	if d.Round == 1 {
		d.Round = 0 // as clients say it that know of no rounds
	}
	return d
}
