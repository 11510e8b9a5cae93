package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tool/clock"
	"github.com/threadmill/threadmill/tool/tooltest"
)

func TestCurrentTime(t *testing.T) {
	noon := time.Date(2026, 7, 1, 23, 30, 0, 123, time.UTC)
	tl := clock.New(clock.Config{Now: func() time.Time { return noon }})
	tooltest.Conforms(t, tl)
	d := tl.Definition()
	require.Equal(t, "current_time", d.Name)
	require.True(t, d.Quick)
	require.True(t, d.Idempotent)

	for arguments, want := range map[string]string{
		``:                                `{"time":"2026-07-01T23:30:00Z","weekday":"Wednesday","timezone":"UTC"}`,
		`{"timezone":"Europe/Berlin"}`:    `{"time":"2026-07-02T01:30:00+02:00","weekday":"Thursday","timezone":"Europe/Berlin"}`,
		`{"timezone":"America/New_York"}`: `{"time":"2026-07-01T19:30:00-04:00","weekday":"Wednesday","timezone":"America/New_York"}`,
		`{"timezone":""}`:                 `{"time":"2026-07-01T23:30:00Z","weekday":"Wednesday","timezone":"UTC"}`,
	} {
		out := tooltest.Run(t, tl, arguments)
		require.NoError(t, out.Err)
		require.Equal(t, want, out.Result.Output)
	}
}

func TestUnknownZone(t *testing.T) {
	for _, zone := range []string{"Mars/Olympus", "Local", "../etc/passwd"} {
		out := tooltest.Run(t, clock.New(clock.Config{}), `{"timezone":"`+zone+`"}`)
		require.ErrorContains(t, out.Err, `timezone: "`+zone+`" is not the IANA name of a time zone; use one such as Europe/Berlin`)
	}
}

func TestDefaults(t *testing.T) {
	before := time.Now().Truncate(time.Second)
	oslo, err := time.LoadLocation("Europe/Oslo")
	require.NoError(t, err)
	out := tooltest.Run(t, clock.New(clock.Config{Timezone: oslo}), `{}`)
	require.NoError(t, out.Err)
	require.Contains(t, out.Result.Output, `"timezone":"Europe/Oslo"`)
	at, err := time.Parse(time.RFC3339, out.Result.Output[len(`{"time":"`):len(`{"time":"`)+len("2026-07-02T01:30:00+02:00")])
	require.NoError(t, err)
	require.WithinRange(t, at, before, time.Now())
}
