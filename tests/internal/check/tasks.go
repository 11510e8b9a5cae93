package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// job is one run of a tool of [Jobs]: it runs until the test or its context ends it.
type job struct {
	Begun   chan tool.Call
	end     chan jobEnd
	Stopped chan struct{}
}

type jobEnd struct {
	output string
	err    error
}

// Jobs are shared by tools: each call names its job.
type Jobs struct {
	mu   sync.Mutex
	jobs map[string]*job
}

// Told is how a thread received the end of a task, and the agent's reply.
type Told struct {
	Event event.EnvEvent
	End   event.TaskEnd
	Turn  signals.TurnResult
}

// SeenEvent is the result of get_event_info for the end of a task.
type SeenEvent struct {
	EventID   string            `json:"event_id"`
	EventType string            `json:"event_type"`
	Timestamp int64             `json:"timestamp"`
	Metadata  event.EnvMetadata `json:"metadata"`
	Payload   event.TaskEnd     `json:"payload"`
}

// Begins waits for the job to begin.
func (j *job) Begins(t *testing.T) tool.Call {
	t.Helper()
	limit := time.NewTimer(testenv.Patience)
	defer limit.Stop()
	select {
	case call := <-j.Begun:
		return call
	case <-limit.C:
		require.Fail(t, "the job never begins")
		return tool.Call{}
	}
}

func (j *job) Returns(output string) { j.end <- jobEnd{output: output} }

func (j *job) Fails(err error) { j.end <- jobEnd{err: err} }

// NewJobs returns jobs that nobody has begun.
func NewJobs() *Jobs { return &Jobs{jobs: map[string]*job{}} }

// Of returns the job with a name.
func (js *Jobs) Of(name string) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	j, ok := js.jobs[name]
	if !ok {
		j = &job{Begun: make(chan tool.Call, 100), end: make(chan jobEnd, 1), Stopped: make(chan struct{}, 1)}
		js.jobs[name] = j
	}
	return j
}

// Tool does jobs.
func (js *Jobs) Tool(name string, opts ...tool.Option) tool.Tool {
	return tool.MustFunc(name, "Does a job.", func(ctx context.Context, call tool.Call, in struct {
		Job string `json:"job"`
	},
	) (string, error) {
		j := js.Of(in.Job)
		j.Begun <- call
		select {
		case end := <-j.end:
			return end.output, end.err
		case <-ctx.Done():
			j.Stopped <- struct{}{}
			return "", ctx.Err()
		}
	}, opts...)
}

// HandsOver is a tool whose work is completed from outside.
func HandsOver(name string, opts ...tool.Option) tool.Tool {
	return tool.MustFunc(name, "Hands a job over.", func(context.Context, tool.Call, map[string]any) (string, error) {
		return "", tool.ErrPending
	}, opts...)
}

// OpenTasks builds a world with one agent, which has these tools and those for tasks.
func OpenTasks(t *testing.T, o harness.Options, tools ...tool.Tool) *harness.Harness {
	t.Helper()
	o.Tools = append(tools, o.Tools...)
	if o.Agents == nil {
		o.Agents = []agent.Agent{TaskAgent(o.Tools...)}
	}
	return harness.New(t, o)
}

// TaskAgent is an agent with tools that run in the background.
func TaskAgent(tools ...tool.Tool) agent.Agent {
	a := agent.Agent{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "task", "list_tasks", "get_task", "cancel_task"}}
	for _, tl := range tools {
		a.Tools = append(a.Tools, tl.Definition().Name)
	}
	return a
}

// StartTask posts a message that starts one task, waits for the end of that turn, and returns the
// task.
func StartTask(t *testing.T, w *harness.Harness, thread, says string) event.Task {
	t.Helper()
	before := TasksOf(w, thread)
	out := Say(w, thread, says)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	after := TasksOf(w, thread)
	require.Len(t, after, len(before)+1, "%s", out.Message.Content)
	return after[len(after)-1]
}

// TasksOf are the tasks of a thread.
func TasksOf(w *harness.Harness, thread string) []event.Task {
	w.T.Helper()
	out, err := w.Threads.Tasks(w.Ctx(), thread)
	require.NoError(w.T, err)
	return out.Tasks
}

// TaskOf is a task as the API shows it.
func TaskOf(w *harness.Harness, id string) event.Task {
	w.T.Helper()
	out, err := w.Threads.Task(w.Ctx(), id)
	require.NoError(w.T, err)
	return out
}

// Use is the line that calls a tool with a job.
func Use(toolName, jobName string) string { return fmt.Sprintf(`use %s {"job":%q}`, toolName, jobName) }

// EndEventID is the id of the event for the end of a task.
func EndEventID(w *harness.Harness, taskID string) string {
	return signals.EventID(w.TaskQueue, taskID, "ended")
}

// AwaitTold waits until the agent has received the end of a task, and has replied.
func AwaitTold(t *testing.T, w *harness.Harness, task event.Task) Told {
	t.Helper()
	thread, _, err := signals.ParseTaskID(task.ID)
	require.NoError(t, err)
	id := EndEventID(w, task.ID)
	out := Told{Turn: Wholly(w, thread, Await(t, w, thread, id))}
	record := RecordOf(w, thread, id)
	require.Equal(t, event.TypeEnv, record.Type)
	out.Event = harness.Payload[event.EnvEvent](w, record)
	out.End = Decode[event.TaskEnd](t, out.Event.Payload)
	return out
}

// TaskEvents are a thread's stored events for the ends of tasks.
func TaskEvents(w *harness.Harness, thread string) []event.EnvEvent {
	w.T.Helper()
	var out []event.EnvEvent
	for _, r := range OfType(w, thread, event.TypeEnv) {
		if e := harness.Payload[event.EnvEvent](w, r); strings.HasPrefix(e.Type, "background_task.") {
			out = append(out, e)
		}
	}
	return out
}

// Reacts makes a model that follows lines, which depend on the event, when it is asked to process
// one.
func Reacts(lines func(seen SeenEvent) string) func(llm.Request) string {
	return func(req llm.Request) string {
		last := len(req.Messages) - 1
		for last > 0 && req.Messages[last].Role != event.RoleUser {
			last--
		}
		var seen SeenEvent
		if last < 1 || !strings.HasPrefix(req.Messages[last].Content, "Process event: ") {
			return ""
		}
		if err := json.Unmarshal([]byte(req.Messages[last-1].Content), &seen); err != nil {
			return "I was shown no event: " + err.Error()
		}
		return lines(seen)
	}
}
