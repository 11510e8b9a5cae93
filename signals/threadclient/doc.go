// Package threadclient is a typed client for threads over a Temporal client. It adds nothing
// that another Temporal client could not do with the contract of package signals, and spells
// out the errors, the wait for a turn across continue-as-new, and the search attributes that
// a Temporal namespace needs.
//
// The methods of a [Client], by concern:
//
//   - threads: Open, Update, Control, State, List, Workers
//   - messages and other events: Post, PostOrOpen, PostSignal, Publish
//   - turns: Turn, StartTurn, StartTurnOrOpen
//   - the queue: Queue, Item, Processing, Next, SetStatus, Retry
//   - approvals: Approvals, ListApprovals, Decide, Revoke, ToolResult
//   - background tasks: Tasks, Task, CompleteTask, CancelTask
//   - schedules: CreateSchedule, UpdateSchedule, Schedule, Schedules, PauseSchedule,
//     ResumeSchedule, TriggerSchedule, DeleteSchedule
//
// Errors wrap those of package signals: [signals.ErrNotFound], [signals.ErrClosed],
// [signals.ErrRefused] and others.
package threadclient
