package observe

// Conventions is the source of the GenAI names: they are in development, and the packages semconv of OpenTelemetry
// for Go end with v1.41.0.
const Conventions = "https://github.com/open-telemetry/semantic-conventions-genai/tree/06ec68e722c45a7218e23ea1bc1339fe4e21ecae"

// Operations: the values of gen_ai.operation.name, and the beginnings of the names of spans.
const (
	OperationChat        = "chat"
	OperationEmbeddings  = "embeddings"
	OperationExecuteTool = "execute_tool"
	OperationInvokeAgent = "invoke_agent"
	OperationRetrieval   = "retrieval"
)

// Attributes of [Conventions].
const (
	AttrOperation      = "gen_ai.operation.name"
	AttrProvider       = "gen_ai.provider.name"
	AttrConversation   = "gen_ai.conversation.id"
	AttrAgent          = "gen_ai.agent.name"
	AttrRequestModel   = "gen_ai.request.model"
	AttrResponseModel  = "gen_ai.response.model"
	AttrFinishReasons  = "gen_ai.response.finish_reasons"
	AttrFirstChunk     = "gen_ai.response.time_to_first_chunk"
	AttrInputTokens    = "gen_ai.usage.input_tokens"
	AttrOutputTokens   = "gen_ai.usage.output_tokens"
	AttrCacheRead      = "gen_ai.usage.cache_read.input_tokens"
	AttrCacheWrite     = "gen_ai.usage.cache_write.input_tokens"
	AttrReasoning      = "gen_ai.usage.reasoning.output_tokens"
	AttrTokenType      = "gen_ai.token.type"
	AttrModality       = "gen_ai.token.modality"
	AttrToolName       = "gen_ai.tool.name"
	AttrToolCallID     = "gen_ai.tool.call.id"
	AttrToolArguments  = "gen_ai.tool.call.arguments"
	AttrToolResult     = "gen_ai.tool.call.result"
	AttrInputMessages  = "gen_ai.input.messages"
	AttrOutputMessages = "gen_ai.output.messages"
	AttrErrorType      = "error.type"
)

// Attributes of Threadmill.
const (
	AttrNamespace = "threadmill.namespace"
	AttrEvent     = "threadmill.event.id"
	AttrTrace     = "threadmill.trace.id"
	AttrOutcome   = "threadmill.outcome"
	AttrStep      = "threadmill.step"
	AttrAttempt   = "threadmill.attempt"
	AttrOperate   = "threadmill.store.operation"
	AttrStream    = "threadmill.stream"
)

// Metrics of [Conventions].
const (
	MetricInferenceDuration = "gen_ai.client.inference.duration"
	MetricFirstChunk        = "gen_ai.client.inference.time_to_first_chunk"
	MetricInputTokens       = "gen_ai.client.inference.usage.input_tokens"
	MetricOutputTokens      = "gen_ai.client.inference.usage.output_tokens"
	MetricCacheRead         = "gen_ai.client.inference.usage.cache_read.input_tokens"
	MetricCacheWrite        = "gen_ai.client.inference.usage.cache_write.input_tokens"
	MetricReasoning         = "gen_ai.client.inference.usage.reasoning.output_tokens"
	MetricOperationDuration = "gen_ai.client.operation.duration"
	MetricToolDuration      = "gen_ai.execute_tool.duration"

	// MetricTokenUsage has been replaced by the counters; dashboards still expect it.
	MetricTokenUsage = "gen_ai.client.token.usage"
)

// Metrics of Threadmill.
const (
	MetricTurns           = "threadmill.turns"
	MetricTurnDuration    = "threadmill.turn.duration"
	MetricQueueTime       = "threadmill.queue.time"
	MetricQueueDepth      = "threadmill.queue.depth"
	MetricStepDuration    = "threadmill.step.duration"
	MetricStepRetries     = "threadmill.step.retries"
	MetricStepsLost       = "threadmill.steps.lost"
	MetricApprovals       = "threadmill.approvals.waiting"
	MetricApprovalAge     = "threadmill.approvals.oldest_age"
	MetricApprovalWait    = "threadmill.approval.wait"
	MetricStoreDuration   = "threadmill.store.duration"
	MetricStreamLag       = "threadmill.stream.lag"
	MetricStreamPublished = "threadmill.stream.published"
	MetricViewers         = "threadmill.viewers"
	MetricRetained        = "threadmill.retention.threads"
	MetricPrunedLogs      = "threadmill.retention.tool_logs"
	MetricRetentionAge    = "threadmill.retention.last_pass_age"
)
