package activities

import "time"

// ToolRules are the instructions for tools.
const ToolRules = toolRules

// SetGrace sets the grace period of cancelled steps.
func (a *Activities) SetGrace(d time.Duration) { a.grace = d }

// DownFor returns how long calls skip a model.
func (a *Activities) DownFor(model string) time.Duration {
	d, down := a.down.of(model, time.Now())
	if !down {
		return 0
	}
	return time.Until(d.until)
}
