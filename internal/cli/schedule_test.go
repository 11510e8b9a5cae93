package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// schedulesFake has the schedules of the world and the calls on them.
type schedulesFake struct {
	made  []signals.Schedule
	views []signals.ScheduleView
	limit int
	done  []string
	err   error // of Schedule
}

func (w *world) knownSchedule(id string) error {
	if id == "gone" {
		return &threadclient.ScheduleError{ID: id, Err: signals.ErrScheduleNotFound}
	}
	return nil
}

func (w *world) CreateSchedule(_ context.Context, s signals.Schedule) (signals.Schedule, error) {
	if s.ID == "taken" {
		return s, &threadclient.ScheduleError{ID: s.ID, Err: signals.ErrScheduleExists}
	}
	w.change(func() { w.schedules.made = append(w.schedules.made, s) })
	return s, nil
}

func (w *world) UpdateSchedule(_ context.Context, s signals.Schedule) (signals.Schedule, error) {
	w.did("replace", s.ID)
	return s, w.knownSchedule(s.ID)
}

func (w *world) Schedule(_ context.Context, id string) (signals.ScheduleView, error) {
	for _, view := range w.schedules.views {
		if view.ID == id {
			return view, w.schedules.err
		}
	}
	view := signals.ScheduleView{Schedule: signals.Schedule{ID: id}, Next: []time.Time{time.Date(2026, 1, 2, 8, 0, 0, 0, time.Local)}}
	return view, errors.Join(w.schedules.err, w.knownSchedule(id))
}

func (w *world) Schedules(_ context.Context, limit int) ([]signals.ScheduleView, error) {
	w.change(func() { w.schedules.limit = limit })
	return w.schedules.views, nil
}

func (w *world) did(what ...string) {
	w.change(func() { w.schedules.done = append(w.schedules.done, strings.Join(what, " ")) })
}

func (w *world) PauseSchedule(_ context.Context, id, note string) error {
	w.did("pause", id, note)
	return w.knownSchedule(id)
}

func (w *world) ResumeSchedule(_ context.Context, id, note string) error {
	w.did("resume", id, note)
	return w.knownSchedule(id)
}

func (w *world) TriggerSchedule(_ context.Context, id string) error {
	w.did("trigger", id)
	return w.knownSchedule(id)
}

func (w *world) DeleteSchedule(_ context.Context, id string) error {
	w.did("delete", id)
	return w.knownSchedule(id)
}

func TestScheduleAdd(t *testing.T) {
	w := newWorld(t)
	t.Run("a message, with everything", func(t *testing.T) {
		code, out, errs := w.run("", "schedule", "add", "t1", "--id", "standup", "--cron", "0 9 * * 1-5", "--cron", "@daily", "--timezone", "Europe/Berlin",
			"--every", "90m", "--offset", "5m", "--jitter", "30s", "--start", "2026-01-02T08:00:00+01:00", "--end", "2027-01-01T00:00:00Z", "--runs", "7",
			"--missed", "all", "-m", "What is on today?", "--as", "ann", "--metadata", "team=a=b", "--open", "--agent", "bob", "--title", "Standup", "--paused", "--note", "for the team")
		require.Equal(t, exitOK, code, errs)
		require.Equal(t, "standup\n", out)
		require.Equal(t, "it runs next at 2026-01-02 08:00:00\n", errs)
		begin, err := time.Parse(time.RFC3339, "2026-01-02T08:00:00+01:00")
		require.NoError(t, err)
		require.True(t, w.schedules.made[0].StartAt.Equal(begin))
		w.schedules.made[0].StartAt = begin
		require.Equal(t, signals.Schedule{
			ID: "standup", ThreadID: "t1", Cron: []string{"0 9 * * 1-5", "@daily"}, Timezone: "Europe/Berlin",
			Every: signals.Duration(90 * time.Minute), Offset: signals.Duration(5 * time.Minute), Jitter: signals.Duration(30 * time.Second),
			StartAt: begin, EndAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), Remaining: 7, Missed: signals.MissedAll,
			Message: &event.NewMessage{SenderID: "ann", Content: "What is on today?", Metadata: map[string]any{"team": "a=b"}},
			Open:    true, Agents: []string{"bob"}, Title: "Standup", Paused: true, Note: "for the team",
		}, w.schedules.made[0])
	})
	t.Run("an event, from stdin", func(t *testing.T) {
		code, out, errs := w.run(`{"n": 12345678901234567890}`+"\n", "schedule", "add", "t1", "--every", "15m", "--event", "inbox.check", "--payload", "-",
			"--metadata", "source=env", "--metadata", "env_name=mail", "--metadata", "folder=support", "--json")
		require.Equal(t, exitOK, code, errs)
		var view signals.ScheduleView
		require.NoError(t, json.Unmarshal([]byte(out), &view))
		s := w.schedules.made[1]
		require.Equal(t, s.ID, view.ID)
		require.Len(t, s.ID, 26)
		require.Equal(t, &event.EnvEvent{Type: "inbox.check", Payload: json.RawMessage(`{"n": 12345678901234567890}`), Metadata: event.EnvMetadata{
			Source: event.SourceEnv, EnvName: "mail", Extra: map[string]json.RawMessage{"folder": json.RawMessage(`"support"`)},
		}}, s.Event)
		require.Equal(t, signals.MissedOnce, s.Missed)
	})
	t.Run("what never runs is said to", func(t *testing.T) {
		w.schedules.views = []signals.ScheduleView{{Schedule: signals.Schedule{ID: "never"}, Done: true}}
		_, out, errs := w.run("", "schedule", "add", "t1", "--id", "never", "--cron", "0 0 31 2 *", "-m", "hi")
		require.Equal(t, "never\n", out)
		require.Equal(t, "it has no further runs\n", errs)
	})
	t.Run("paused, it runs not yet", func(t *testing.T) {
		w.schedules.views = []signals.ScheduleView{{Schedule: signals.Schedule{ID: "p", Paused: true}, Next: []time.Time{time.Now()}}}
		_, _, errs := w.run("", "schedule", "add", "t1", "--id", "p", "--cron", "@daily", "--paused", "-m", "hi")
		require.Equal(t, "it is paused\n", errs)
	})
	t.Run("what was made is not a failure", func(t *testing.T) {
		w.schedules.err = errors.New("down")
		defer func() { w.schedules.err = nil }()
		code, out, errs := w.run("", "schedule", "add", "t1", "--id", "x", "--cron", "@daily", "-m", "hi")
		require.Equal(t, exitOK, code)
		require.Equal(t, "x\n", out)
		require.Equal(t, "its next run is not known: down\n", errs)
	})
	t.Run("replaced", func(t *testing.T) {
		out := w.ok("schedule", "add", "t1", "--id", "x", "--cron", "@daily", "-m", "hi", "--replace")
		require.Equal(t, "x\n", out)
		require.Equal(t, []string{"replace x"}, w.schedules.done)
	})
	t.Run("taken", func(t *testing.T) {
		code, _, errs := w.run("", "schedule", "add", "t1", "--id", "taken", "--cron", "@daily", "-m", "hi")
		require.Equal(t, exitFailed, code)
		require.Equal(t, `starter: schedule "taken" already exists: "starter schedule show taken" shows it, --replace replaces it`+"\n", errs)
	})
}

func TestScheduleUsage(t *testing.T) {
	for _, c := range []struct {
		args    []string
		problem string
	}{
		{[]string{"add"}, "schedule add takes <thread>: missing <thread>"},
		{[]string{"add", "t1", "--cron", "@daily"}, "by either --message or --event"},
		{[]string{"add", "t1", "--cron", "@daily", "-m", "hi", "--event", "x"}, "by either --message or --event"},
		{[]string{"add", "t1", "-m", "hi"}, "cron: or every is required"},
		{[]string{"add", "t1", "--cron", "61 * * * *", "-m", "hi"}, `cron[0]: the minute "61" is not 0 to 59`},
		{[]string{"add", "t1", "--every", "soon", "-m", "hi"}, "invalid argument"},
		{[]string{"add", "t1", "--every", "10ms", "-m", "hi"}, "every: is 10ms, must be whole seconds"},
		{[]string{"add", "t1", "--cron", "@daily", "--timezone", "Mars", "-m", "hi"}, "timezone: "},
		{[]string{"add", "t1", "--cron", "@daily", "--start", "monday", "-m", "hi"}, `--start is "monday", must be a time such as`},
		{[]string{"add", "t1", "--cron", "@daily", "--end", "monday", "-m", "hi"}, `--end is "monday", must be a time such as`},
		{[]string{"add", "t1", "--cron", "@daily", "--missed", "some", "-m", "hi"}, `missed: "some" is not one of skip, once, all`},
		{[]string{"add", "t1", "--cron", "@daily", "-m", ""}, "message.content: is required"},
		{[]string{"add", "t1", "--cron", "@daily", "-m", "hi", "--payload", "{}"}, "--payload is that of an event"},
		{[]string{"add", "t1", "--cron", "@daily", "-m", "hi", "--metadata", "x"}, `--metadata is "x", must be key=value`},
		{[]string{"add", "t1", "--cron", "@daily", "--event", "x", "--as", "ann"}, "--as is the sender of a message"},
		{[]string{"add", "t1", "--cron", "@daily", "--event", "x", "--payload", "{"}, "the payload is not JSON"},
		{[]string{"add", "t1", "--cron", "@daily", "--event", "x", "--metadata", "="}, "must be key=value"},
		{[]string{"add", "t1", "--cron", "@daily", "--event", "x", "--metadata", "schedule_id=1"}, "event.metadata.schedule_id: is set by each run"},
		{[]string{"add", "t1", "--cron", "@daily", "-m", "hi", "--agent", "bob"}, "agents: require open"},
		{[]string{"add", "t1", "--cron", "@daily", "-m", "hi", "--replace"}, "--replace needs the --id"},
		{[]string{"add", "a/b", "--cron", "@daily", "-m", "hi"}, `threadId: "a/b" must be 1 to 128`},
		{[]string{"show", "a/b"}, `schedule: "a/b" must be 1 to 128`},
		{[]string{"list", "--limit", "0"}, "--limit is 0, must be 1 to 1000"},
		{[]string{"pause", "x", "--note", strings.Repeat("n", signals.MaxNote+1)}, "note: must be at most 1000 bytes"},
		{[]string{"sing"}, `unknown command "schedule sing"`},
	} {
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			w := newWorld(t)
			w.fails(exitUsage, c.problem, append([]string{"schedule"}, c.args...)...)
			require.Empty(t, w.schedules.made)
		})
	}
}

func TestScheduleShow(t *testing.T) {
	w := newWorld(t)
	code, out, errs := w.run("", "schedule", "list")
	require.Equal(t, exitOK, code)
	require.Empty(t, out)
	require.Equal(t, `no schedules in namespace "default"`+"\n", errs)

	w.schedules.views = []signals.ScheduleView{{
		Schedule: signals.Schedule{ID: "standup", ThreadID: "t1", Cron: []string{"0 9 * * 1-5"}, Timezone: "UTC", Message: &event.NewMessage{Content: "What is on?"}},
		Next:     []time.Time{time.Date(2026, 1, 2, 9, 0, 0, 0, time.Local)}, Recent: []signals.ScheduleRun{}, Runs: 3,
	}}
	out = w.ok("schedule", "list", "--limit", "7")
	require.Equal(t, `STATE   SCHEDULE  THREAD  WHEN             NEXT                 RUNS  POSTS
active  standup   t1      0 9 * * 1-5 UTC  2026-01-02 09:00:00  3     message: What is on?
`, out)
	require.Equal(t, 7, w.schedules.limit)
	_, out, _ = w.run("", "schedule", "list", "--json")
	var all struct{ Schedules []signals.ScheduleView }
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Equal(t, "standup", all.Schedules[0].ID)

	out = w.ok("schedule", "show", "standup")
	require.True(t, strings.HasPrefix(out, "schedule  standup\nstate     active\nthread    t1\n"), out)
	_, out, _ = w.run("", "schedule", "show", "standup", "--json")
	var view signals.ScheduleView
	require.NoError(t, json.Unmarshal([]byte(out), &view))
	require.Equal(t, 3, view.Runs)
}

func TestScheduleChanges(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ args, out string }{
		{"pause standup --note holidays", "standup paused\n"},
		{"pause standup", "standup paused\n"},
		{"resume standup --note back", "standup resumed\n"},
		{"trigger standup", "standup triggered\n"},
		{"delete standup", "standup deleted\n"},
	} {
		out := w.ok(append([]string{"schedule"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.out, out)
	}
	require.Equal(t, []string{"pause standup holidays", "pause standup ", "resume standup back", "trigger standup", "delete standup"}, w.schedules.done)
	for _, name := range []string{"show", "pause", "resume", "trigger", "delete"} {
		code, out, errs := w.run("", "schedule", name, "gone")
		require.Equal(t, exitFailed, code)
		require.Empty(t, out)
		require.Equal(t, `starter: there is no schedule "gone" in namespace "default": "starter schedule list" shows those that there are`+"\n", errs)
	}
}
