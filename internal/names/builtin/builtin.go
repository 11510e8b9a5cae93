// Package builtin describes the built-in tools of threads. An agent has those that it names; an
// application's tool of the same name takes precedence.
package builtin

import (
	"encoding/json"
	"slices"

	"github.com/threadmill/threadmill/tool"
)

// Names of the tools.
const (
	// GetEventInfo reads environment events of the thread.
	GetEventInfo = "get_event_info"

	// CallAgent asks another agent. CallAgentHyphen is its older name.
	CallAgent       = "call_agent"
	CallAgentHyphen = "call-agent"

	// Task runs another tool of the agent, or another agent, in the background.
	Task = "task"

	ListTasks  = "list_tasks"
	GetTask    = "get_task"
	CancelTask = "cancel_task"

	// IngestDocument makes a document searchable; its arguments are those of an ingestion. SearchKnowledge finds passages.
	IngestDocument  = "ingest_document"
	SearchKnowledge = "search_knowledge"

	// ReadResult reads the rest of a result that was cut.
	ReadResult = "read_result"
)

// TaskArguments are the arguments of task: a tool with its arguments, or an agent with a message.
type TaskArguments struct {
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Message   string          `json:"message,omitempty"`
	Title     string          `json:"title,omitempty"`
}

// AgentArguments are the arguments of call_agent.
type AgentArguments struct {
	Agent   string `json:"agent"`
	Message string `json:"message"`
	Title   string `json:"title,omitempty"`
}

// TaskIDArguments are the arguments of get_task and cancel_task.
type TaskIDArguments struct {
	TaskID string `json:"taskId"`
}

const taskIDSchema = `{"type":"object","properties":{"taskId":{"type":"string","description":"The id of the task, or what stands behind its ~"}},"required":["taskId"],"additionalProperties":false}`

const callAgentSchema = `{"type":"object","properties":{` +
	`"agent":{"type":"string","description":"The name of the agent to ask"},` +
	`"message":{"type":"string","description":"What the agent is to do. It sees nothing else of this conversation"},` +
	`"title":{"type":"string","description":"A few words on what it is about, for people"}},"required":["agent","message"],"additionalProperties":false}`

const callAgentText = "Ask another agent to do something, and get its answer. It works on its own and sees only your message."

var definitions = []tool.Definition{
	{Name: CallAgent, Description: callAgentText, Parameters: json.RawMessage(callAgentSchema)},
	{Name: CallAgentHyphen, Description: callAgentText, Parameters: json.RawMessage(callAgentSchema)},
	{
		Name: Task,
		Description: "Run one of your other tools, or ask another agent, in the background. You get the id of the task at once and can go on; " +
			"you are told when the task has completed or failed. Use it for what takes long.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"tool":{"type":"string","description":"The name of the tool to run"},` +
			`"arguments":{"type":"object","description":"The arguments of that tool"},` +
			`"agent":{"type":"string","description":"Instead of a tool: the name of the agent to ask"},` +
			`"message":{"type":"string","description":"What that agent is to do"},` +
			`"title":{"type":"string","description":"A few words on what the task is about, for people"}},"additionalProperties":false}`),
	},
	{
		Name:        ListTasks,
		Description: "List the background tasks of this conversation: those that run, and the last ones that have ended.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	},
	{
		Name:        GetTask,
		Description: "Show how a background task of this conversation stands.",
		Parameters:  json.RawMessage(taskIDSchema),
	},
	{
		Name: IngestDocument,
		Description: "Read a document into the knowledge base, so that you and others can search it. It works in the background: a message from RAG in this conversation " +
			"tells when it is done.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"source":{"type":"string","description":"The address of the document, such as https://example.com/handbook.pdf, or with text any name for it"},` +
			`"text":{"type":"string","description":"The content of a document that has no address, as Markdown"},` +
			`"title":{"type":"string","description":"Its title, if it has none of its own"},` +
			`"collection":{"type":"string","description":"The collection that it belongs to. Default: default"},` +
			`"namespace":{"type":"string","description":"Another name for collection"},` +
			`"metadata":{"type":"object","description":"Kept with the document"},` +
			`"forceReindex":{"type":"boolean","description":"Read it again even if it has not changed"}},"required":["source"],"additionalProperties":false}`),
	},
	{
		Name:        CancelTask,
		Description: "Cancel a background task of this conversation.",
		Parameters:  json.RawMessage(taskIDSchema),
	},
}

// Lookup returns the definition of a tool that the thread itself runs: all but get_event_info, search_knowledge and
// read_result, which read the store.
func Lookup(name string) (tool.Definition, bool) {
	at := slices.IndexFunc(definitions, func(d tool.Definition) bool { return d.Name == name })
	if at < 0 {
		return tool.Definition{}, false
	}
	return definitions[at].WithDefaults(), true
}

// Names returns the names of the tools.
func Names() []string {
	names := []string{GetEventInfo, SearchKnowledge, ReadResult}
	for _, d := range definitions {
		names = append(names, d.Name)
	}
	return names
}
