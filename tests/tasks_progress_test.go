package tests

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTaskProgress: viewers see the progress of tasks.
func TestTaskProgress(t *testing.T) {
	t.Parallel()
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			work := newJobs()
			w := openTasks(t, b.options, work.tool("build", tool.Background()), handsOver("order", tool.Background()))
			t.Run("S1-04 what a tool reports while it runs", func(t *testing.T) { taskShows(t, w, work) })
			t.Run("S1-04 what is reported from outside", func(t *testing.T) { taskShowsFromOutside(t, w) })
		})
	}
}

// progress is a piece of the test's progress.
type progress struct {
	Percent int `json:"percent"`
}

// progressed decodes the progress of a task in a frame.
func progressed(t *testing.T, f frame) (p event.TaskProgress, percent int) {
	t.Helper()
	p, ok := f.event.TaskProgress()
	require.True(t, ok, "%+v", f.event)
	return p, decode[progress](t, p.Data).Percent
}

func isProgress(f frame) bool { return f.event.Type == event.EventToolProgress }

func taskShows(t *testing.T, w *harness.Harness, work *jobs) {
	id := w.Open()
	view := watch(t, w, id, "")
	task := startTask(t, w, id, use("build", "a"))
	call := work.of("a").begins(t)
	view.until(t, isTurnEnded)
	call.Progress(progress{10})
	first := view.until(t, isProgress)
	shown := first[len(first)-1]
	require.Equal(t, "build", shown.event.ToolName)
	require.Equal(t, "assistant", shown.event.Agent)
	require.Equal(t, task.ToolCallID, shown.event.ToolCallID)
	p, percent := progressed(t, shown)
	require.Equal(t, task.ID, p.TaskID)
	require.Equal(t, 10, percent)

	t.Run("after other turns as well", func(t *testing.T) {
		say(w, id, "hello")
		view.until(t, isTurnEnded)
		call.Progress(progress{50})
		later := view.until(t, isProgress)
		_, percent := progressed(t, later[len(later)-1])
		require.Equal(t, 50, percent)
	})
	t.Run("whoever was cut off gets what was missed", func(t *testing.T) {
		again := watch(t, w, id, shown.id)
		seen := again.until(t, isProgress)
		_, percent := progressed(t, seen[len(seen)-1])
		require.Equal(t, 50, percent)
		require.Equal(t, 2, count(seen, event.EventMessage), "and the messages before it")
		again.close()
	})
	t.Run("in the middle of a reply", func(t *testing.T) {
		half := w.Provider.Block(2)
		defer half.Release()
		w.Post(id, "count 4")
		arrives(t, half.Reached(), "the middle of the reply")
		call.Progress(progress{70})
		seen := view.until(t, isProgress)
		_, percent := progressed(t, seen[len(seen)-1])
		require.Equal(t, 70, percent)
		half.Release()
		seen = append(seen, view.until(t, isTurnEnded)...)
		require.Equal(t, 4, count(seen, event.EventStream))
		require.Zero(t, count(seen, event.EventGap)+count(seen, event.EventReset))
	})
	t.Run("it costs Temporal nothing, and is never stored", func(t *testing.T) {
		settle(w, id)
		events := func() int {
			ran, err := runHistory(w.Ctx(), w.Temporal, signals.TaskWorkflowID(w.TaskQueue, task.ID), "")
			require.NoError(t, err)
			return len(ran) + len(historyOf(w, id, ""))
		}
		before, records := events(), len(w.Records(id))
		for i := range 20 {
			call.Progress(progress{71 + i})
			_, percent := progressed(t, view.next(t))
			require.Equal(t, 71+i, percent)
		}
		require.Equal(t, before, events())
		require.Len(t, w.Records(id), records)
		for _, r := range w.Records(id) {
			require.NotContains(t, string(r.Payload), "percent")
		}
		require.Empty(t, modelsOf(w, "percent"), "no model hears of it")
	})
	t.Run("nothing of it comes after its end", func(t *testing.T) {
		work.of("a").returns("done")
		awaitTold(t, w, task)
		view.until(t, isTurnEnded)
		call.Progress(progress{100})
		say(w, id, "hello")
		require.Zero(t, count(view.until(t, isTurnEnded), event.EventToolProgress))
	})
}

func taskShowsFromOutside(t *testing.T, w *harness.Harness) {
	id := w.Open()
	view := watch(t, w, id, "")
	task := startTask(t, w, id, `use task {"tool":"order","title":"a kettle"}`)
	view.until(t, isTurnEnded)
	path := "/v1/tasks/" + task.ID + "/progress"
	for percent := 20; percent <= 80; percent += 20 {
		status, out := request(t, w, http.MethodPost, path, map[string]any{"data": progress{percent}})
		require.Equal(t, http.StatusAccepted, status, out)
		f := view.next(t)
		p, shown := progressed(t, f)
		require.Equal(t, task.ID, p.TaskID)
		require.Equal(t, percent, shown)
		require.Equal(t, "order", f.event.ToolName)
	}
	require.NotContains(t, fmt.Sprint(w.Types(id)), "progress")
	_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: task.ID})
	require.NoError(t, err)
	awaitTold(t, w, task)
	status, out := request(t, w, http.MethodPost, path, map[string]any{"data": progress{100}})
	require.Equal(t, http.StatusConflict, status, out)
	status, _ = request(t, w, http.MethodPost, "/v1/tasks/"+signals.TaskID(id, 7)+"/progress", map[string]any{"data": progress{100}})
	require.Equal(t, http.StatusNotFound, status)
}
