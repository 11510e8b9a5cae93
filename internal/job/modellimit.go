package job

// Names of the workflow that owns the limits of a model provider, of its update and of its activity.
// They are not for clients.
const (
	ModelLimitWorkflow    = "model_limit"
	UpdateReportUsage     = "report_usage"
	ActivitySetQueueLimit = "set_queue_limit"
)

// ModelTaskQueue returns the task queue of the calls of a limited model provider. taskQueue is that
// of the threads.
func ModelTaskQueue(taskQueue, provider string) string { return taskQueue + "/model/" + provider }

// ModelLimitWorkflowID returns the id of the workflow that owns the limits of a model queue.
func ModelLimitWorkflowID(modelQueue string) string { return "model-limit/" + modelQueue }
