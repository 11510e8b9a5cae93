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

// CallModel and RunTool are activities, to run them as local ones. SetHold sets how long they hold the workflow task, and how
// long they then wait to be joined.
func (a *Activities) CallModel() any { return a.callModel }
func (a *Activities) RunTool() any   { return a.runTool }

func (a *Activities) SetHold(hold, join time.Duration) {
	a.underway.holdFor, a.underway.joinWithin = hold, join
}

// SetContextMemory sets the memory for contexts in flight, and ContextsWait reports whether a call waits for its share.
func (a *Activities) SetContextMemory(bytes int64) { a.contexts = newContextRoom(bytes) }

func (a *Activities) ContextsWait() bool {
	if !a.contexts.TryAcquire(1) {
		return true
	}
	a.contexts.Release(1)
	return false
}

// TakeTurns takes all places of model calls that begin, and TurnsWait reports whether a call waits for one. TurnsFree is how many are free.
func (a *Activities) TakeTurns() (free func()) {
	taken := 0
	for a.TurnsFree() > 0 {
		a.turns.ask("test")
		taken++
	}
	return func() {
		for range taken {
			a.turns.leave()
		}
	}
}

func (a *Activities) TurnsWait() bool {
	a.turns.mu.Lock()
	defer a.turns.mu.Unlock()
	return len(a.turns.waiting) > 0
}

func (a *Activities) TurnsFree() int {
	a.turns.mu.Lock()
	defer a.turns.mu.Unlock()
	return a.turns.free
}

// TakeContexts takes all memory for contexts in flight.
func (a *Activities) TakeContexts() (free func(), taken bool) {
	return func() { a.contexts.Release(a.contexts.size) }, a.contexts.TryAcquire(a.contexts.size)
}
