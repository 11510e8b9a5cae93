// Package threadclient is a typed client for threads over a Temporal client. It does nothing that
// another Temporal client could not do with the contract of package signals. It adds typed errors,
// the wait for a turn across continue-as-new, and the registration of search attributes.
//
// The methods of a [Client], by concern:
//
//   - threads: Open, Update, Control, State, List, Workers
//   - messages and other events: Post, PostOrOpen, PostSignal, Publish
//   - turns: Turn, StartTurn, StartTurnOrOpen
//   - the queue: Queue, Item, Processing, Next, SetStatus, Retry
//   - approvals: Approvals, ListApprovals, Decide, Revoke, ToolResult, AnswerInput
//   - background tasks: Tasks, Task, CompleteTask, CancelTask
//   - schedules: CreateSchedule, UpdateSchedule, Schedule, Schedules, PauseSchedule,
//     ResumeSchedule, TriggerSchedule, DeleteSchedule
//
// Errors wrap those of package signals: [signals.ErrThreadNotFound], [signals.ErrThreadClosed],
// [signals.ErrRefused] and others.
package threadclient
