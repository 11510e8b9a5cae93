package render

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestEnvEvent(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()
	for name, test := range map[string]struct {
		event event.EnvEvent
		opts  Options
		want  string
	}{
		"what and when":          {event.EnvEvent{Type: "file.changed", Timestamp: at, Payload: json.RawMessage(`{"path":"a.go"}`)}, Options{}, "03:04:05  file.changed  {\"path\":\"a.go\"}\n"},
		"nothing more":           {event.EnvEvent{Type: "ping", Timestamp: at, Payload: json.RawMessage(`null`)}, Options{}, "03:04:05  ping\n"},
		"as far as it fits":      {event.EnvEvent{Type: "ping", Timestamp: at, Payload: json.RawMessage(`"0123456789"`)}, Options{Width: 5}, "03:04:05  ping  \"012…\n"},
		"where the viewer is":    {event.EnvEvent{Type: "ping", Timestamp: at}, Options{Location: time.FixedZone("", 3600)}, "04:04:05  ping\n"},
		"in colours":             {event.EnvEvent{Type: "ping", Timestamp: at}, Options{}, "\x1b[2m03:04:05\x1b[0m\x1b[1m  ping\x1b[0m\n"},
		"a failure in red":       {event.EnvEvent{Type: "tool.error", Timestamp: at}, Options{}, "\x1b[2m03:04:05\x1b[0m\x1b[31m  tool.error\x1b[0m\n"},
		"none rules the display": {event.EnvEvent{Type: "a\x1b[2Jb\nc", Timestamp: at, Payload: json.RawMessage("\"\x1b\"")}, Options{}, "03:04:05  a\\u001b[2Jb c  \"\\u001b\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.opts.Location == nil {
				test.opts.Location = time.UTC
			}
			require.Equal(t, test.want, shown(strings.Contains(test.want, "\x1b"), New(test.opts).EnvEvent(test.event)))
		})
	}
}
