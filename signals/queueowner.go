package signals

// QueueOwnerWorkflowID returns the id of the workflow whose memo tells which program serves a task queue of threads. No worker runs it.
func QueueOwnerWorkflowID(taskQueue string) string { return "queue/" + taskQueue }
