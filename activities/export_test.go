package activities

import "time"

// ToolRules are the instructions for tools.
const ToolRules = toolRules

// SetGrace sets the grace period of cancelled steps.
func (a *Activities) SetGrace(d time.Duration) { a.grace = d }
