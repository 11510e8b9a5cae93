package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestTaskTable(t *testing.T) {
	all, utc := read[signals.Tasks](t, "tasks.json"), TableOptions{Location: time.UTC}
	var items string
	for _, task := range all.Tasks {
		items += Task(task, utc) + "\n"
	}
	for name, got := range map[string]string{
		"tasks":        Tasks(all.Tasks, utc),
		"tasks.narrow": Tasks(all.Tasks, TableOptions{Location: time.UTC, Width: 20}),
		"tasks.items":  items,
	} {
		t.Run("S3-54 "+name, func(t *testing.T) {
			golden(t, name, got)
		})
	}
	require.Empty(t, Tasks(nil, utc))
	hostile := event.Task{ID: "t1~t1", Title: "a\u202eb\u009bc", Error: "a\u202eb\u009bc\nd"}
	for _, text := range []string{Tasks([]event.Task{hostile}, utc), Task(hostile, utc)} {
		require.Contains(t, text, `a\u202eb\u009bc d`, "what others write cannot control the terminal")
	}
	require.Equal(t, "task      t1~t1\nstate     failed\nerror     no\n", Task(event.Task{ID: "t1~t1", State: event.TaskFailed, Error: "no"}, utc),
		"what is not known is left out")
}
