package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestTaskTable(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "tasks.json"))
	require.NoError(t, err)
	var all signals.Tasks
	require.NoError(t, json.Unmarshal(raw, &all))
	utc := TaskOptions{Location: time.UTC}
	var items string
	for _, task := range all.Tasks {
		items += Task(task, utc) + "\n"
	}
	for name, got := range map[string]string{
		"tasks":        Tasks(all.Tasks, utc),
		"tasks.narrow": Tasks(all.Tasks, TaskOptions{Location: time.UTC, Width: 20}),
		"tasks.items":  items,
	} {
		t.Run("S3-54 "+name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
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
