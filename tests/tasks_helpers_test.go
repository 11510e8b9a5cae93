package tests

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
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// job is one run of a tool of [jobs]: it runs until the test or its context ends it.
type job struct {
	begun   chan tool.Call
	end     chan jobEnd
	stopped chan struct{}
}

type jobEnd struct {
	output string
	err    error
}

// begins waits for the job to begin.
func (j *job) begins(t *testing.T) tool.Call {
	t.Helper()
	limit := time.NewTimer(waitLong)
	defer limit.Stop()
	select {
	case call := <-j.begun:
		return call
	case <-limit.C:
		require.Fail(t, "the job never begins")
		return tool.Call{}
	}
}

func (j *job) returns(output string) { j.end <- jobEnd{output: output} }

func (j *job) fails(err error) { j.end <- jobEnd{err: err} }

// jobs are shared by tools: each call names its job.
type jobs struct {
	mu   sync.Mutex
	jobs map[string]*job
}

func newJobs() *jobs { return &jobs{jobs: map[string]*job{}} }

// of returns the job with a name.
func (js *jobs) of(name string) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	j, ok := js.jobs[name]
	if !ok {
		j = &job{begun: make(chan tool.Call, 100), end: make(chan jobEnd, 1), stopped: make(chan struct{}, 1)}
		js.jobs[name] = j
	}
	return j
}

// tool does jobs.
func (js *jobs) tool(name string, opts ...tool.Option) tool.Tool {
	return tool.MustFunc(name, "Does a job.", func(ctx context.Context, call tool.Call, in struct {
		Job string `json:"job"`
	},
	) (string, error) {
		j := js.of(in.Job)
		j.begun <- call
		select {
		case end := <-j.end:
			return end.output, end.err
		case <-ctx.Done():
			j.stopped <- struct{}{}
			return "", ctx.Err()
		}
	}, opts...)
}

// handsOver is a tool whose work is completed from outside.
func handsOver(name string, opts ...tool.Option) tool.Tool {
	return tool.MustFunc(name, "Hands a job over.", func(context.Context, tool.Call, map[string]any) (string, error) {
		return "", tool.ErrPending
	}, opts...)
}

// openTasks builds a world with one agent, which has these tools and those for tasks.
func openTasks(t *testing.T, o harness.Options, tools ...tool.Tool) *harness.Harness {
	t.Helper()
	o.Tools = append(tools, o.Tools...)
	if o.Agents == nil {
		o.Agents = []agent.Agent{taskAgent(o.Tools...)}
	}
	return harness.New(t, o)
}

func taskAgent(tools ...tool.Tool) agent.Agent {
	a := agent.Agent{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "task", "list_tasks", "get_task", "cancel_task"}}
	for _, tl := range tools {
		a.Tools = append(a.Tools, tl.Definition().Name)
	}
	return a
}

// startTask posts a message that starts one task, waits for the end of that turn, and returns the
// task.
func startTask(t *testing.T, w *harness.Harness, thread, says string) event.Task {
	t.Helper()
	before := tasksOf(w, thread)
	out := say(w, thread, says)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	after := tasksOf(w, thread)
	require.Len(t, after, len(before)+1, "%s", out.Message.Content)
	return after[len(after)-1]
}

func tasksOf(w *harness.Harness, thread string) []event.Task {
	w.T.Helper()
	out, err := w.Threads.Tasks(w.Ctx(), thread)
	require.NoError(w.T, err)
	return out.Tasks
}

func taskOf(w *harness.Harness, id string) event.Task {
	w.T.Helper()
	out, err := w.Threads.Task(w.Ctx(), id)
	require.NoError(w.T, err)
	return out
}

// use is the line that calls a tool with a job.
func use(toolName, jobName string) string { return fmt.Sprintf(`use %s {"job":%q}`, toolName, jobName) }

// endEventID is the id of the event for the end of a task.
func endEventID(w *harness.Harness, taskID string) string {
	return signals.EventID(w.TaskQueue, taskID, "ended")
}

// told is how a thread received the end of a task, and the agent's reply.
type told struct {
	event event.EnvEvent
	end   event.TaskEnd
	turn  signals.TurnResult
}

// awaitTold waits until the agent has received the end of a task, and has replied.
func awaitTold(t *testing.T, w *harness.Harness, task event.Task) told {
	t.Helper()
	thread, _, err := signals.ParseTaskID(task.ID)
	require.NoError(t, err)
	id := endEventID(w, task.ID)
	out := told{turn: wholly(w, thread, await(t, w, thread, id))}
	record := recordOf(w, thread, id)
	require.Equal(t, event.TypeEnv, record.Type)
	out.event = harness.Payload[event.EnvEvent](w, record)
	out.end = decode[event.TaskEnd](t, out.event.Payload)
	return out
}

// taskEvents are a thread's stored events for the ends of tasks.
func taskEvents(w *harness.Harness, thread string) []event.EnvEvent {
	w.T.Helper()
	var out []event.EnvEvent
	for _, r := range ofType(w, thread, event.TypeEnv) {
		if e := harness.Payload[event.EnvEvent](w, r); strings.HasPrefix(e.Type, "background_task.") {
			out = append(out, e)
		}
	}
	return out
}

// seenEvent is the result of get_event_info for the end of a task.
type seenEvent struct {
	EventID   string            `json:"event_id"`
	EventType string            `json:"event_type"`
	Timestamp int64             `json:"timestamp"`
	Metadata  event.EnvMetadata `json:"metadata"`
	Payload   event.TaskEnd     `json:"payload"`
}

// reacts makes a model that follows lines, which depend on the event, when it is asked to process
// one.
func reacts(lines func(seen seenEvent) string) func(llm.Request) string {
	return func(req llm.Request) string {
		last := len(req.Messages) - 1
		for last > 0 && req.Messages[last].Role != event.RoleUser {
			last--
		}
		var seen seenEvent
		if last < 1 || !strings.HasPrefix(req.Messages[last].Content, "Process event: ") {
			return ""
		}
		if err := json.Unmarshal([]byte(req.Messages[last-1].Content), &seen); err != nil {
			return "I was shown no event: " + err.Error()
		}
		return lines(seen)
	}
}
