package agents

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// progress is a piece of the test's progress.
type progress struct {
	Percent int `json:"percent"`
}

// TestTaskProgress: viewers see the progress of tasks.
func TestTaskProgress(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			work := check.NewJobs()
			w := check.OpenTasks(t, b.Options, work.Tool("build", tool.Background()), check.HandsOver("order", tool.Background()))
			t.Run("S1-04 what a tool reports while it runs", func(t *testing.T) { taskShows(t, w, work) })
			t.Run("S1-04 what is reported from outside", func(t *testing.T) { taskShowsFromOutside(t, w) })
		})
	}
}

// progressed decodes the progress of a task in a frame.
func progressed(t *testing.T, f check.Frame) (p event.TaskProgress, percent int) {
	t.Helper()
	p, ok := f.Event.TaskProgress()
	require.True(t, ok, "%+v", f.Event)
	return p, check.Decode[progress](t, p.Data).Percent
}

func isProgress(f check.Frame) bool { return f.Event.Type == event.EventToolProgress }

func taskShows(t *testing.T, w *harness.Harness, work *check.Jobs) {
	id := w.Open()
	view := check.Watch(t, w, id, "")
	task := check.StartTask(t, w, id, check.Use("build", "a"))
	call := work.Of("a").Begins(t)
	view.Until(t, check.IsTurnEnded)
	call.Progress(progress{10})
	first := view.Until(t, isProgress)
	shown := first[len(first)-1]
	require.Equal(t, "build", shown.Event.ToolName)
	require.Equal(t, "assistant", shown.Event.Agent)
	require.Equal(t, task.ToolCallID, shown.Event.ToolCallID)
	p, percent := progressed(t, shown)
	require.Equal(t, task.ID, p.TaskID)
	require.Equal(t, 10, percent)

	t.Run("after other turns as well", func(t *testing.T) {
		check.Say(w, id, "hello")
		view.Until(t, check.IsTurnEnded)
		call.Progress(progress{50})
		later := view.Until(t, isProgress)
		_, percent := progressed(t, later[len(later)-1])
		require.Equal(t, 50, percent)
	})
	t.Run("whoever was cut off gets what was missed", func(t *testing.T) {
		again := check.Watch(t, w, id, shown.ID)
		seen := again.Until(t, isProgress)
		_, percent := progressed(t, seen[len(seen)-1])
		require.Equal(t, 50, percent)
		require.Equal(t, 2, check.Count(seen, event.EventMessage), "and the messages before it")
		again.Close()
	})
	t.Run("in the middle of a reply", func(t *testing.T) {
		half := w.Provider.Block(2)
		defer half.Release()
		w.Post(id, "count 4")
		check.Arrives(t, half.Reached(), "the middle of the reply")
		call.Progress(progress{70})
		seen := view.Until(t, isProgress)
		_, percent := progressed(t, seen[len(seen)-1])
		require.Equal(t, 70, percent)
		half.Release()
		seen = append(seen, view.Until(t, check.IsTurnEnded)...)
		require.Equal(t, 4, check.Count(seen, event.EventStream))
		require.Zero(t, check.Count(seen, event.EventGap)+check.Count(seen, event.EventReset))
	})
	t.Run("it costs Temporal nothing, and is never stored", func(t *testing.T) {
		check.Settle(w, id)
		events := func() int {
			ran, err := check.RunHistory(w.Ctx(), w.Temporal, signals.TaskWorkflowID(w.TaskQueue, task.ID), "")
			require.NoError(t, err)
			return len(ran) + len(check.HistoryOf(w, id, ""))
		}
		before, records := events(), len(w.Records(id))
		for i := range 20 {
			call.Progress(progress{71 + i})
			_, percent := progressed(t, view.Next(t))
			require.Equal(t, 71+i, percent)
		}
		require.Equal(t, before, events())
		require.Len(t, w.Records(id), records)
		for _, r := range w.Records(id) {
			require.NotContains(t, string(r.Payload), "percent")
		}
		require.Empty(t, check.ModelsOf(w, "percent"), "no model hears of it")
	})
	t.Run("nothing of it comes after its end", func(t *testing.T) {
		work.Of("a").Returns("done")
		check.AwaitTold(t, w, task)
		view.Until(t, check.IsTurnEnded)
		call.Progress(progress{100})
		check.Say(w, id, "hello")
		require.Zero(t, check.Count(view.Until(t, check.IsTurnEnded), event.EventToolProgress))
	})
}

func taskShowsFromOutside(t *testing.T, w *harness.Harness) {
	id := w.Open()
	view := check.Watch(t, w, id, "")
	task := check.StartTask(t, w, id, `use task {"tool":"order","title":"a kettle"}`)
	view.Until(t, check.IsTurnEnded)
	path := "/v1/tasks/" + task.ID + "/progress"
	for percent := 20; percent <= 80; percent += 20 {
		status, out := check.Request(t, w, http.MethodPost, path, map[string]any{"data": progress{percent}})
		require.Equal(t, http.StatusAccepted, status, out)
		f := view.Next(t)
		p, shown := progressed(t, f)
		require.Equal(t, task.ID, p.TaskID)
		require.Equal(t, percent, shown)
		require.Equal(t, "order", f.Event.ToolName)
	}
	require.NotContains(t, fmt.Sprint(w.Types(id)), "progress")
	_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: task.ID})
	require.NoError(t, err)
	check.AwaitTold(t, w, task)
	status, out := check.Request(t, w, http.MethodPost, path, map[string]any{"data": progress{100}})
	require.Equal(t, http.StatusConflict, status, out)
	status, _ = check.Request(t, w, http.MethodPost, "/v1/tasks/"+signals.TaskID(id, 7)+"/progress", map[string]any{"data": progress{100}})
	require.Equal(t, http.StatusNotFound, status)
}
