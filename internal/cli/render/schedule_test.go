package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestSchedules(t *testing.T) {
	all, utc := read[[]signals.ScheduleView](t, "schedules.json"), TableOptions{Location: time.UTC}
	var items string
	for _, s := range all {
		items += Schedule(s, utc) + "\n"
	}
	for name, got := range map[string]string{
		"schedules":        Schedules(all, utc),
		"schedules.narrow": Schedules(all, TableOptions{Location: time.UTC, Width: 20}),
		"schedules.items":  items,
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, got)
		})
	}
	require.Empty(t, Schedules(nil, utc))
	hostile := signals.ScheduleView{Schedule: signals.Schedule{ID: "s1", Note: "a\u202eb\u009bc\nd", Message: &event.NewMessage{Content: "a\u202eb\u009bc\nd"}}}
	for _, text := range []string{Schedules([]signals.ScheduleView{hostile}, utc), Schedule(hostile, utc)} {
		require.Contains(t, text, `a\u202eb\u009bc d`, "what others write cannot control the terminal")
	}
}
