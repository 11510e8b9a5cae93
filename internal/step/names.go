package step

// Names of activities, and of signals between workflows.
const (
	ActivityCallModel = "call_model"
	ActivityRunTool   = "run_tool"
	ActivityRecord    = "record"
	ActivityNotify    = "notify"
	ActivityRunHooks  = "run_hooks"
	ActivityPlanCalls = "plan_calls"

	// ActivityLoadEvent loads the content of an event whose payload is only in the store.
	ActivityLoadEvent = "load_event"

	// ActivityHandleEvent runs the Go function of a rule.
	ActivityHandleEvent = "handle_event"

	// ActivityTitleThread generates a title for a thread.
	ActivityTitleThread = "title_thread"

	// SignalHookDecided is sent by a hook workflow to a thread that has continued as new since it
	// started the workflow. It is not for clients.
	SignalHookDecided = "hook_decided"

	// SignalReport requests [SignalHookDecided] from a hook workflow. It is not for clients.
	SignalReport = "report"

	// ActivityCheckDecision validates the edited arguments or the pattern of a decision.
	ActivityCheckDecision = "check_decision"

	ActivityRunTask = "run_task"

	// SignalTaskReport is sent by a task's workflow to its thread. It is not for clients.
	SignalTaskReport = "task_report"
)

// Names of signals and activities between parent and child threads. They are not for clients.
const (
	// SignalSubAgentEnded reports to the parent thread how a sub-agent ended.
	SignalSubAgentEnded = "subagent_ended"
	// SignalSubAgentApprovals reports to the parent thread that a call of the sub-agent needs
	// approval or input, and SignalSubAgentDecision that it no longer does.
	SignalSubAgentApprovals = "subagent_approvals"
	SignalSubAgentDecision  = "subagent_decision"
	ActivityEndDelegate     = "end_delegate"
)
