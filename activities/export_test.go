package activities

import "time"

// ToolRules is what models are told about tools.
const ToolRules = toolRules

// SetGrace sets how long what was told to stop may take to do so.
func (a *Activities) SetGrace(d time.Duration) { a.grace = d }
