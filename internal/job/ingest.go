package job

import "fmt"

// Names for the ingestion of documents.
const (
	// IngestWorkflow ingests one revision of a document. Its input is an [IngestStep], and its id an
	// [IngestWorkflowID].
	IngestWorkflow = "ingest"

	// EmbedWorkflow adds vectors of the current embedder to the documents and entities of a namespace. Its input is an
	// [EmbedStep], and its id an [EmbedWorkflowID].
	EmbedWorkflow = "embed"

	// ExtractWorkflow finds entities in the queued texts of a namespace. Its input is an [ExtractStep], and its id an
	// [ExtractWorkflowID]. SignalExtract wakes it.
	ExtractWorkflow = "extract"
	SignalExtract   = "extract"

	// ActivityExtract queues the text in which an event asks to find entities, and ActivityExtractEntities does the oldest
	// extraction that is queued.
	ActivityExtract         = "extract"
	ActivityExtractEntities = "extract_entities"

	// ActivityIngest begins an ingestion that an event asks for. It runs on the task queue of the thread, and the
	// others on the [KnowledgeTaskQueue].
	ActivityIngest              = "ingest"
	ActivityFetchDocument       = "fetch_document"
	ActivitySplitDocument       = "split_document"
	ActivityContextualizeChunks = "contextualize_chunks"
	ActivityEmbedChunks         = "embed_chunks"
	ActivityFinishDocument      = "finish_document"
)

// KnowledgeTaskQueue returns the task queue of the steps that ingest documents: they never take the slots of the steps of
// threads. taskQueue is that of the threads.
func KnowledgeTaskQueue(taskQueue string) string { return taskQueue + "/knowledge" }

// IngestWorkflowID returns the id of the workflow that ingests a revision of a document.
func IngestWorkflowID(namespace, documentID string, revision int) string {
	return fmt.Sprintf("ingest/%s/%s/%d", namespace, documentID, revision)
}

// EmbedWorkflowID returns the id of the workflow that adds vectors to the documents and entities of a namespace.
func EmbedWorkflowID(namespace string) string { return "embed/" + namespace }

// ExtractWorkflowID returns the id of the workflow that finds entities in the texts of a namespace.
func ExtractWorkflowID(namespace string) string { return "extract/" + namespace }

// ExtractStep is the input of the workflow that finds entities in the texts of a namespace, and of its steps.
type ExtractStep struct {
	Namespace string `json:"namespace"`
}

// ExtractedEntities is the result of "extract_entities": the id of the extraction that was done, "" if there was none.
type ExtractedEntities struct {
	ID string `json:"id,omitempty"`
}

// EntityExtraction is the payload of an event of type "entity_extract".
type EntityExtraction struct {
	// Content is the text in which entities are to be found.
	Content string `json:"content"`

	// SourceType is what the text is, such as message, and SourceID its id. Default: event, and the id of the event.
	SourceType string `json:"sourceType,omitempty"`
	SourceID   string `json:"sourceId,omitempty"`

	// Namespace is ignored, with a warning in the log: entities belong to the namespace of the thread.
	Namespace string `json:"namespace,omitempty"`
}

// IngestStep is the input of the workflow that ingests a revision of a document, and of its steps.
type IngestStep struct {
	Namespace string `json:"namespace"`
	Document  string `json:"document"`
	Revision  int    `json:"revision"`

	// Source is for readers of the history.
	Source string `json:"source,omitempty"`

	// Force ingests the document even if it has not changed.
	Force bool `json:"force,omitempty"`

	// Embedder is that of an [EmbedStep], whose Namespace is embedded. Empty = that of the worker.
	Embedder string `json:"embedder,omitempty"`
}

// EmbedStep is the input of the workflow that embeds the documents and entities of a namespace. Done counts the chunks of earlier
// runs.
type EmbedStep struct {
	Namespace string `json:"namespace"`
	Done      int    `json:"done,omitempty"`

	// Embedder makes the vectors: workers that have another one, such as those of the version before, leave it the work.
	Embedder string `json:"embedder"`
}

// FetchedDocument is the result of "fetch_document".
type FetchedDocument struct {
	Bytes int `json:"bytes"`

	// Unchanged means that the visible revision has the same content.
	Unchanged bool `json:"unchanged,omitempty"`
}

// ParsedDocument is the result of "split_document".
type ParsedDocument struct {
	Format string `json:"format"`
	Title  string `json:"title,omitempty"`
	Chunks int    `json:"chunks"`

	// Contextualize means that the chunks get contexts next.
	Contextualize bool `json:"contextualize,omitempty"`
}

// ContextualizeStep is the input of "contextualize_chunks". From is the index of its first chunk.
type ContextualizeStep struct {
	IngestStep
	From int `json:"from,omitempty"`
}

// ContextualizedChunks is the result of "contextualize_chunks". Without counts those of the chunks that got no context.
type ContextualizedChunks struct {
	Chunks  int `json:"chunks"`
	Without int `json:"without,omitempty"`
}

// EmbeddedChunks is the result of "embed_chunks". More means that further chunks may have no vector. Names are those of entities
// that got a vector, after all chunks of a namespace.
type EmbeddedChunks struct {
	Chunks int  `json:"chunks"`
	More   bool `json:"more,omitempty"`
	Names  int  `json:"names,omitempty"`
}

// IngestResult is the result of the workflow of an ingestion.
type IngestResult struct {
	Status IngestStatus `json:"status"`
	Error  string       `json:"error,omitempty"`
	Format string       `json:"format,omitempty"`
	Title  string       `json:"title,omitempty"`
	Bytes  int          `json:"bytes,omitempty"`
	Chunks int          `json:"chunks,omitempty"`
}

// FinishStep is the input of "finish_document".
type FinishStep struct {
	IngestStep
	Result IngestResult `json:"result"`
}

// IngestStatus says how an ingestion ended.
type IngestStatus string

// The ends of an ingestion.
const (
	IngestIndexed IngestStatus = "indexed"
	IngestFailed  IngestStatus = "failed"

	// IngestUnchanged means that the content is that of the visible revision.
	IngestUnchanged IngestStatus = "unchanged"

	// IngestSuperseded means that the document was deleted, or that a newer revision has begun.
	IngestSuperseded IngestStatus = "superseded"
)

// SupersededType is the type of the application error of a step whose revision was superseded.
const SupersededType = "superseded"
