package event

import "encoding/json"

// SubtypeTaskProgress is the subtype of [TaskProgress].
const SubtypeTaskProgress = "task_progress"

// TaskProgress is the data of a tool_progress event of a background task. Such an event names the
// call that started the task, and may follow that call's result.
type TaskProgress struct {
	// Subtype is always [SubtypeTaskProgress].
	Subtype string `json:"subtype"`
	TaskID  string `json:"taskId"`

	// Data is any JSON.
	Data json.RawMessage `json:"data"`
}

// Progress returns the live event that reports the task's progress to viewers. Data is any value
// that can be marshalled to JSON.
func (t Task) Progress(data any) (AgentEvent, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return AgentEvent{}, err
	}
	whole, err := json.Marshal(TaskProgress{Subtype: SubtypeTaskProgress, TaskID: t.ID, Data: raw})
	if err != nil {
		return AgentEvent{}, err
	}
	return AgentEvent{Type: EventToolProgress, ToolName: t.Tool, ToolCallID: t.ToolCallID, Agent: t.Agent, Data: whole}, nil
}

// TaskProgress decodes the progress of a background task. It returns false for all other events.
func (e AgentEvent) TaskProgress() (TaskProgress, bool) {
	var p TaskProgress
	ok := e.Type == EventToolProgress && json.Unmarshal(e.Data, &p) == nil && p.Subtype == SubtypeTaskProgress
	return p, ok
}
