package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// taskStart is a way to start a task with a job, and the expected task.
type taskStart struct {
	how, says, title, tool string
	deadline               time.Duration
}

// TestTasks: an agent starts a task and does not wait for it. It receives the end, and acts on it.
func TestTasks(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	o := harness.Options{Provider: llmtest.Config{Script: check.Reacts(func(seen check.SeenEvent) string {
		if seen.EventType == event.TypeBackgroundTaskFailed {
			return fmt.Sprintf("%s has failed: %s", seen.Payload.Title, seen.Payload.Error)
		}
		return fmt.Sprintf("use note {\"text\":%q}\nthen\n%s is done", seen.Payload.Result, seen.Payload.Title)
	})}}
	w := check.OpenTasks(t, o, work.Tool("build", tool.Background(), tool.Deadline(2*time.Hour)), work.Tool("compile"))
	for _, c := range []taskStart{
		{"a background tool", `use build {"job":%q}`, "build", "build", 2 * time.Hour},
		{"a tool that task runs", `use task {"tool":"compile","arguments":{"job":%q},"title":"nightly"}`, "nightly", "compile", tool.DefaultDeadline},
		{"a background tool that task runs", `use task {"tool":"build","arguments":{"job":%q}}`, "build", "build", 2 * time.Hour},
	} {
		t.Run("S3-01 S3-54 "+c.how, func(t *testing.T) { taskCompletes(t, w, work, c) })
		t.Run("S3-02 X4 fails: "+c.how, func(t *testing.T) { taskFails(t, w, work, c) })
	}
	t.Run("S3-54 two at once, each with its own end", func(t *testing.T) { tasksTogether(t, w, work) })
	t.Run("S3-01 the agent is told when the turn in progress has ended", func(t *testing.T) { taskEndsMeanwhile(t, w, work) })
	t.Run("S3-54 what is no JSON comes as text", func(t *testing.T) {
		for output, want := range map[string]string{"done\n": `"done\n"`, "": `""`, " [1, 2] ": "[1,2]"} {
			task := check.StartTask(t, w, w.Open(), check.Use("build", "output "+output))
			work.Of("output " + output).Returns(output)
			require.Equal(t, want, string(check.AwaitTold(t, w, task).End.Result), "%q", output)
		}
	})
	t.Run("S3-54 of a large result the event has the beginning, and the log has all", func(t *testing.T) {
		task := check.StartTask(t, w, w.Open(), check.Use("build", "large"))
		output := `{"text":"` + strings.Repeat("ä", signals.MaxPayload/2) + `"}`
		work.Of("large").Returns(output)
		cut := check.Decode[struct {
			Truncated bool
			Bytes     int
			Start     string
		}](t, check.AwaitTold(t, w, task).End.Result)
		require.True(t, cut.Truncated)
		require.Equal(t, len(output), cut.Bytes)
		require.Greater(t, len(cut.Start), signals.MaxPayload/16)
		require.True(t, strings.HasPrefix(output, cut.Start))
		log, err := w.Store.ToolLog(w.Ctx(), w.Key(taskThread(t, task)), task.ToolCallID)
		require.NoError(t, err)
		require.True(t, output == string(log.Output))
	})
	t.Run("S3-02 X4 what cannot be a task is told at once, and starts none", func(t *testing.T) { taskRefused(t, w) })
}

func (c taskStart) with(job string) string { return fmt.Sprintf(c.says, job) }

// taskThread is the thread of a task.
func taskThread(t *testing.T, task event.Task) string {
	t.Helper()
	id, _, err := signals.ParseTaskID(task.ID)
	require.NoError(t, err)
	return id
}

// requireStarted checks that a call has started a task, and that the agent has continued.
func requireStarted(t *testing.T, w *harness.Harness, id string, task event.Task, c taskStart) {
	t.Helper()
	require.Equal(t, id, taskThread(t, task))
	require.Equal(t, event.TaskRunning, task.State)
	require.Equal(t, "assistant", task.Agent)
	require.Equal(t, c.title, task.Title)
	require.Equal(t, c.tool, task.Tool)
	require.Equal(t, task.StartedAt.Add(c.deadline), task.Deadline)
	require.Nil(t, task.EndedAt)
	require.Equal(t, task, harness.Payload[event.Task](w, check.RecordOf(w, id, task.ID)))

	messages := w.Messages(id)
	require.Len(t, messages, 4, "the agent goes on at once: nothing has ended")
	require.Equal(t, task.ToolCallID, check.Only(t, messages[1].ToolCalls).ID)
	result := messages[2]
	require.Equal(t, recordid.Result(task.ToolCallID), result.ID)
	require.False(t, result.IsError)
	require.Contains(t, result.Content, "Started in the background as task "+task.ID+".")
	require.Contains(t, messages[3].Content, task.ID, "the model has seen it")
	require.Empty(t, check.OfType(w, id, event.TypeEnv))
}

// requireShownEnd checks that the agent received the end of a task as three messages and a query,
// and that there are no other messages. It returns the agent's reply.
func requireShownEnd(t *testing.T, w *harness.Harness, id string, got check.Told) event.Message {
	t.Helper()
	require.Equal(t, signals.TurnCompleted, got.Turn.Status)
	require.Equal(t, event.SourceTool, got.Event.Metadata.Source)
	require.Equal(t, id, got.Event.Metadata.TriggerSessionID)
	require.Equal(t, "assistant", got.Event.Metadata.TriggerAgentName)
	messages := w.Messages(id)
	at := slices.IndexFunc(messages, func(m event.Message) bool { return m.ID == recordid.Observed(got.Event.ID) })
	require.Positive(t, at)
	messages = messages[at:]
	require.Contains(t, messages[0].Content, "Observed event: "+got.Event.Type)
	require.Equal(t, "call_"+got.Event.ID, check.Only(t, messages[1].ToolCalls).ID)
	require.Equal(t, "call_"+got.Event.ID, messages[2].ToolCallID)
	var shown check.SeenEvent
	require.NoError(t, json.Unmarshal([]byte(messages[2].Content), &shown))
	require.Equal(t, got.End, shown.Payload)
	for _, m := range messages[3:] {
		require.NotEqual(t, event.CreatedByUser, m.SenderType, "no input of a user")
	}
	asked := check.ModelsOf(w, "Event ID: "+got.Event.ID)
	require.NotEmpty(t, asked)
	require.Contains(t, asked[0].Messages[0].Content, rule.BackgroundTaskPrompt, "S3-28")
	check.RequireAnswered(t, asked[0].Messages)
	check.RequireSettled(t, w, id)
	return messages[len(messages)-1]
}

// requireEnded checks the state and the records of an ended task.
func requireEnded(t *testing.T, w *harness.Harness, task event.Task, state event.TaskState) event.Task {
	t.Helper()
	ended := check.TaskOf(w, task.ID)
	require.Equal(t, state, ended.State)
	require.NotNil(t, ended.EndedAt)
	require.False(t, ended.EndedAt.Before(task.StartedAt))
	require.Equal(t, ended, harness.Payload[event.Task](w, check.RecordOf(w, taskThread(t, task), task.ID+".ended")))
	return ended
}

func taskCompletes(t *testing.T, w *harness.Harness, work *check.Jobs, c taskStart) {
	id, j := w.Open(), work.Of("completes: "+c.how)
	task := check.StartTask(t, w, id, c.with("completes: "+c.how))
	requireStarted(t, w, id, task, c)
	call := j.Begins(t)
	require.Equal(t, task.ID, call.TaskID)
	require.Equal(t, task.ToolCallID, call.ID)
	require.JSONEq(t, fmt.Sprintf(`{"job":%q}`, "completes: "+c.how), call.Arguments)
	require.Equal(t, "hello", check.Say(w, id, "hello").Message.Content, "people talk on meanwhile")

	j.Returns(`{"url":"https://example.com/7"}`)
	got := check.AwaitTold(t, w, task)
	require.Equal(t, event.TypeBackgroundTaskCompleted, got.Event.Type)
	require.Equal(t, task.ID, got.End.TaskID)
	require.Equal(t, c.title, got.End.Title)
	require.Equal(t, c.tool, got.End.Tool)
	require.JSONEq(t, `{"url":"https://example.com/7"}`, string(got.End.Result))
	require.Empty(t, got.End.Error)
	reply := requireShownEnd(t, w, id, got)
	require.Contains(t, reply.Content, c.title+" is done")
	require.Equal(t, reply.Content, got.Turn.Message.Content)
	messages := w.Messages(id)[6:]
	require.Len(t, messages, 6, "three that show it what has happened, a call, its result, a reply")
	require.Equal(t, `noted: {"url":"https://example.com/7"}`, messages[4].Content, "it acts on the result")
	require.Empty(t, requireEnded(t, w, task, event.TaskCompleted).Error)
	require.Len(t, check.TaskEvents(w, id), 1)
}

func taskFails(t *testing.T, w *harness.Harness, work *check.Jobs, c taskStart) {
	id, j := w.Open(), work.Of("fails: "+c.how)
	task := check.StartTask(t, w, id, c.with("fails: "+c.how))
	requireStarted(t, w, id, task, c)
	j.Begins(t)
	j.Fails(errors.New("the disk is full"))
	got := check.AwaitTold(t, w, task)
	require.Equal(t, event.TypeBackgroundTaskFailed, got.Event.Type)
	require.Equal(t, event.TaskEnd{TaskID: task.ID, Title: c.title, Tool: c.tool, Error: "Error: the disk is full"}, got.End)
	require.Equal(t, c.title+" has failed: Error: the disk is full", requireShownEnd(t, w, id, got).Content)
	require.Equal(t, "Error: the disk is full", requireEnded(t, w, task, event.TaskFailed).Error)
	require.Len(t, check.TaskEvents(w, id), 1)
}

func tasksTogether(t *testing.T, w *harness.Harness, work *check.Jobs) {
	id := w.Open()
	out := check.Say(w, id, check.Use("build", "one")+"\n"+check.Use("build", "two"))
	require.Equal(t, signals.TurnCompleted, out.Status)
	tasks := check.TasksOf(w, id)
	require.Len(t, tasks, 2)
	require.NotEqual(t, tasks[0].ToolCallID, tasks[1].ToolCallID)
	byID := map[string]event.Task{tasks[0].ID: tasks[0], tasks[1].ID: tasks[1]}
	one, two := work.Of("one").Begins(t), work.Of("two").Begins(t)
	require.NotEqual(t, one.TaskID, two.TaskID)

	work.Of("two").Returns("2")
	got := check.AwaitTold(t, w, byID[two.TaskID])
	require.Equal(t, "2", string(got.End.Result), "the one that was started last ends first")
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, 1, state.Tasks)
	require.Equal(t, event.TaskRunning, check.TaskOf(w, one.TaskID).State)

	work.Of("one").Fails(errors.New("no"))
	require.Equal(t, event.TypeBackgroundTaskFailed, check.AwaitTold(t, w, byID[one.TaskID]).Event.Type)
	require.Equal(t, []string{two.TaskID, one.TaskID}, []string{check.TasksOf(w, id)[0].ID, check.TasksOf(w, id)[1].ID}, "in the order in which they have ended")
	require.Len(t, check.TaskEvents(w, id), 2)
	check.RequireSettled(t, w, id)
}

func taskEndsMeanwhile(t *testing.T, w *harness.Harness, work *check.Jobs) {
	id := w.Open()
	task := check.StartTask(t, w, id, check.Use("build", "meanwhile"))
	work.Of("meanwhile").Begins(t)
	half := w.Provider.Block(2)
	defer half.Release()
	posted := w.Post(id, "count 4")
	check.Arrives(t, half.Reached(), "the middle of the turn")
	work.Of("meanwhile").Returns("7")
	require.Eventually(t, func() bool { return check.TaskOf(w, task.ID).State == event.TaskCompleted }, testenv.Patience, testenv.Tick)
	queue, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, posted, queue.Processing.ID)
	require.Equal(t, check.EndEventID(w, task.ID), check.Only(t, queue.Items).ID, "it waits")
	require.Len(t, w.Messages(id), 5, "and nobody has heard of it")
	half.Release()
	require.Equal(t, signals.TurnCompleted, check.AwaitTold(t, w, task).Turn.Status)
	said := check.SaidIn(w, id)
	require.Equal(t, "assistant: 1 2 3 4", said[5], "the turn ends first")
	require.Contains(t, said[6], "Observed event: background_task.completed")
}

func taskRefused(t *testing.T, w *harness.Harness) {
	for says, why := range map[string]string{
		`use task {}`:                                      "unknown tool",
		`use task {"tool":"nope"}`:                         "unknown tool",
		`use task {"tool":"task"}`:                         "unknown tool",
		`use task {"tool":"shell_cmd"}`:                    "unknown tool",
		`use task {"tool":"compile"}`:                      "job: is required",
		`use task {"tool":"compile","agent":"assistant"}`:  "exclude each other",
		`use task {"tool":"compile","arguments":"run it"}`: "arguments: must be an object",
		`use build {"jib":"a"}`:                            "job: is required",
		`use get_task {"taskId":"t1"}`:                     "no task",
		`use cancel_task {"taskId":"other~t1"}`:            "no task",
	} {
		id := w.Open()
		require.Equal(t, signals.TurnCompleted, check.Say(w, id, says).Status, says)
		result := w.Messages(id)[2]
		require.True(t, result.IsError, says)
		require.Contains(t, result.Content, why, says)
		require.Empty(t, check.TasksOf(w, id), says)
		require.Empty(t, check.OfType(w, id, event.TypeTask), says)
	}
}
