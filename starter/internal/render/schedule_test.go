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

func TestSchedules(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "schedules.json"))
	require.NoError(t, err)
	var all []signals.ScheduleView
	require.NoError(t, json.Unmarshal(raw, &all))
	utc := ScheduleOptions{Location: time.UTC}
	var items string
	for _, s := range all {
		items += Schedule(s, utc) + "\n"
	}
	for name, got := range map[string]string{
		"schedules":        Schedules(all, utc),
		"schedules.narrow": Schedules(all, ScheduleOptions{Location: time.UTC, Width: 20}),
		"schedules.items":  items,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
	require.Empty(t, Schedules(nil, utc))
	hostile := signals.ScheduleView{Schedule: signals.Schedule{ID: "s1", Note: "a\u202eb\u009bc\nd", Message: &event.NewMessage{Content: "a\u202eb\u009bc\nd"}}}
	for _, text := range []string{Schedules([]signals.ScheduleView{hostile}, utc), Schedule(hostile, utc)} {
		require.Contains(t, text, `a\u202eb\u009bc d`, "what others write cannot control the terminal")
	}
}
