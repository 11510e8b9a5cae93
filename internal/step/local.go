package step

import "time"

// JoinWithin is the time within which the process of a step begins the activity that joins it. Otherwise the process
// is gone, and another one runs the step.
const JoinWithin = 10 * time.Second

// Local is the part of a step's input for steps that run as local activities.
type Local struct {
	// Now is the thread's time, for a local activity: Temporal does not tell it the time.
	Now time.Time `json:"now,omitzero"`

	// Held is how long earlier steps have held the workflow task.
	Held time.Duration `json:"held,omitempty"`

	// Quick means that the step is declared as quick.
	Quick bool `json:"quick,omitempty"`

	// Shown means that an earlier run of the step, which Temporal does not count, may have shown viewers a part of its output.
	// Repeated means that the step has run as a local activity before this activity.
	Shown    bool `json:"shown,omitempty"`
	Repeated bool `json:"repeated,omitempty"`
}

// Underway is the part of a step's result for steps that run as local activities.
type Underway struct {
	// Running is set instead of a result if a local activity has ended before its step. An activity on
	// the task queue JoinOn, that of the process of the step, joins it. Empty = the thread's.
	Running bool   `json:"running,omitempty"`
	JoinOn  string `json:"joinOn,omitempty"`

	// Took is the duration of the step in milliseconds, at least 1. 0 = it must not run as a local activity, [TookUnknown] = it
	// is not known.
	Took int64 `json:"took,omitempty"`
}

// TookUnknown is the duration of a step that has found its result, or was refused.
const TookUnknown = -1

// Lasts returns the part of the result.
func (u *Underway) Lasts() *Underway { return u }
