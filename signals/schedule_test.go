package signals_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

var at = time.Date(2026, 1, 2, 8, 30, 0, 0, time.UTC)

// hourly is a schedule that is right.
func hourly(change ...func(*signals.Schedule)) signals.Schedule {
	s := signals.Schedule{
		ID: "s1", ThreadID: "t1", Cron: []string{"@hourly"},
		Message: &event.NewMessage{Content: "the hour is over"},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestScheduleIDs(t *testing.T) {
	namespace, id, err := signals.ParseScheduleID(signals.ScheduleID("acme", "s-1.a"))
	require.NoError(t, err)
	require.Equal(t, "acme/s-1.a", namespace+"/"+id)
	for _, wrong := range []string{"", "schedule/acme", "schedule//s1", "schedule/acme/", "schedule/acme/a/b", "thread/acme/s1", "daily"} {
		_, _, err := signals.ParseScheduleID(wrong)
		require.Error(t, err, wrong)
	}

	run, err := signals.ParseScheduledRun(job.DeliverWorkflowID("acme", "s-1") + "-2026-01-02T08:30:00Z")
	require.NoError(t, err)
	require.Equal(t, signals.ScheduledRun{Namespace: "acme", ScheduleID: "s-1", At: at}, run)
	for _, wrong := range []string{
		"", "deliver/acme/s1", "deliver/acme/s1-soon", "deliver/acme/s1-2026-01-02T08:30:99Z", "-2026-01-02T08:30:00Z",
		"deliver/acme-2026-01-02T08:30:00Z", "thread/acme/s1-2026-01-02T08:30:00Z", "deliver/acme/s12026-01-02T08:30:00Z",
	} {
		_, err := signals.ParseScheduledRun(wrong)
		require.Error(t, err, wrong)
	}
}

func TestEventIDsOfRuns(t *testing.T) {
	run := signals.ScheduledRun{Namespace: "acme", ScheduleID: "s1", At: at}
	require.NoError(t, signals.ValidateEventID("id", run.EventID()))
	require.Equal(t, "c3b9471b-e7bf-5dc4-ad0d-df902aa1ca40", run.EventID(), "the same in every version: a run may be tried by another than the one before")
	zone := run
	zone.At = run.At.In(time.FixedZone("there", 3600)).UTC()
	require.Equal(t, run.EventID(), zone.EventID())
	for _, other := range []signals.ScheduledRun{
		{Namespace: "acme", ScheduleID: "s1", At: at.Add(time.Second)},
		{Namespace: "acme", ScheduleID: "s2", At: at},
		{Namespace: "other", ScheduleID: "s1", At: at},
	} {
		require.NotEqual(t, run.EventID(), other.EventID())
	}
}

func TestCheckSchedule(t *testing.T) {
	require.NoError(t, hourly().Validate())
	full := hourly(func(s *signals.Schedule) {
		s.Cron = []string{"*/15 0-6,20 1,15 JAN-mar/2 Mon-Fri", "0 0 * * 7", "5/10 * * * *", "@midnight"}
		s.Every, s.Offset, s.Jitter = signals.Duration(time.Hour), signals.Duration(59*time.Minute), signals.Duration(signals.MaxJitter)
		s.Timezone, s.StartAt, s.EndAt = "America/Argentina/Ushuaia", at, at.Add(time.Second)
		s.Missed, s.Remaining, s.Paused, s.Note = signals.MissedAll, 3, true, strings.Repeat("n", signals.MaxNote)
		s.Open, s.Agents, s.Title = true, []string{"assistant", "bob"}, strings.Repeat("t", signals.MaxTitle)
		s.Message = nil
		s.Event = &event.EnvEvent{Type: "day.begun", Payload: json.RawMessage(`{"n":1}`), Metadata: event.EnvMetadata{
			TriggerSessionID: "t1", Source: event.SourceUser, Extra: map[string]json.RawMessage{"team": json.RawMessage(`["a"]`)},
		}}
	})
	require.NoError(t, full.Validate())

	for name, c := range map[string]struct {
		change  func(*signals.Schedule)
		field   string
		problem string
	}{
		"id":           {func(s *signals.Schedule) { s.ID = "a/b" }, "id", "must be 1 to 128"},
		"no thread":    {func(s *signals.Schedule) { s.ThreadID = "" }, "threadId", "must be 1 to 128"},
		"no time":      {func(s *signals.Schedule) { s.Cron = nil }, "cron", "or every is required"},
		"much cron":    {func(s *signals.Schedule) { s.Cron = make([]string, signals.MaxCron+1) }, "cron", "has 21 expressions, must have at most 20"},
		"wrong cron":   {func(s *signals.Schedule) { s.Cron = []string{"@daily", "60 * * * *"} }, "cron[1]", `the minute "60" is not 0 to 59`},
		"too often":    {func(s *signals.Schedule) { s.Every = signals.Duration(500 * time.Millisecond) }, "every", "is 500ms, must be whole seconds"},
		"half seconds": {func(s *signals.Schedule) { s.Every = signals.Duration(1500 * time.Millisecond) }, "every", "is 1.5s, must be whole seconds"},
		"never":        {func(s *signals.Schedule) { s.Every = -1 }, "every", "must be whole seconds"},
		"only offset":  {func(s *signals.Schedule) { s.Offset = signals.Duration(time.Second) }, "offset", "requires every"},
		"long offset": {func(s *signals.Schedule) {
			s.Every, s.Offset = signals.Duration(time.Minute), signals.Duration(time.Minute)
		}, "offset", "is 1m, must be whole seconds, 0s or more and less than every"},
		"negative offset": {func(s *signals.Schedule) {
			s.Every, s.Offset = signals.Duration(time.Minute), signals.Duration(-time.Second)
		}, "offset", "must be whole seconds"},
		"jitter":        {func(s *signals.Schedule) { s.Jitter = signals.Duration(signals.MaxJitter + time.Second) }, "jitter", "0s to 24h"},
		"fine jitter":   {func(s *signals.Schedule) { s.Jitter = 1 }, "jitter", "whole milliseconds"},
		"remaining":     {func(s *signals.Schedule) { s.Remaining = -1 }, "remaining", "is -1, must be positive"},
		"end before":    {func(s *signals.Schedule) { s.StartAt, s.EndAt = at, at }, "endAt", "must be after startAt"},
		"zone":          {func(s *signals.Schedule) { s.Timezone = "Mars/Olympus" }, "timezone", `"Mars/Olympus" is not the name of a time zone`},
		"this zone":     {func(s *signals.Schedule) { s.Timezone = "Local" }, "timezone", "is not the name of a time zone"},
		"zone's file":   {func(s *signals.Schedule) { s.Timezone = "../zone" }, "timezone", "is not the name of a time zone"},
		"missed":        {func(s *signals.Schedule) { s.Missed = "some" }, "missed", `"some" is not one of skip, once, all`},
		"note":          {func(s *signals.Schedule) { s.Note = strings.Repeat("n", signals.MaxNote+1) }, "note", "at most 1000 bytes"},
		"agents":        {func(s *signals.Schedule) { s.Agents = []string{"bob"} }, "agents", "require open"},
		"many agents":   {func(s *signals.Schedule) { s.Open, s.Agents = true, make([]string, 101) }, "agents", "at most 100"},
		"agent":         {func(s *signals.Schedule) { s.Open, s.Agents = true, []string{"b/b"} }, "agents[0]", "must be 1 to 128"},
		"title":         {func(s *signals.Schedule) { s.Title = "Standup" }, "title", "requires open"},
		"long title":    {func(s *signals.Schedule) { s.Open, s.Title = true, strings.Repeat("é", 201) }, "title", "is 402 bytes, must be at most 400"},
		"wrapped title": {func(s *signals.Schedule) { s.Open, s.Title = true, "a\nb" }, "title", "control character"},
		"nothing":       {func(s *signals.Schedule) { s.Message = nil }, "event", "or message is required"},
		"both":          {func(s *signals.Schedule) { s.Event = &event.EnvEvent{Type: "x"} }, "event", "and message exclude each other"},
		"empty message": {func(s *signals.Schedule) { s.Message.Content = "" }, "message.content", "is required"},
		"large message": {func(s *signals.Schedule) { s.Message.Content = strings.Repeat("x", signals.MaxPayload) }, "message", "must be at most 262144"},
		"odd message":   {func(s *signals.Schedule) { s.Message.Metadata = map[string]any{"n": math.NaN()} }, "message.metadata", "has no JSON form"},
		"other thread":  {func(s *signals.Schedule) { s.Message.ThreadID = "t2" }, "message.threadId", `is "t2", but this thread is "t1"`},
		"taken key":     {func(s *signals.Schedule) { s.Message.Metadata = map[string]any{"scheduled_at": 1} }, "message.metadata.scheduled_at", "is set by each run"},
	} {
		t.Run(name, func(t *testing.T) {
			s := hourly(c.change)
			var field *event.FieldError
			require.ErrorAs(t, s.Validate(), &field)
			require.Equal(t, c.field, field.Field)
			require.Contains(t, field.Problem, c.problem)
		})
	}
	for name, c := range map[string]struct {
		event event.EnvEvent
		field string
	}{
		"no type":      {event.EnvEvent{}, "event.type"},
		"a reserved":   {event.EnvEvent{Type: "llm_call"}, "event.type"},
		"an id":        {event.EnvEvent{Type: "x", ID: "e1"}, "event.id"},
		"a time":       {event.EnvEvent{Type: "x", Timestamp: 1}, "event.timestamp"},
		"no JSON":      {event.EnvEvent{Type: "x", Payload: json.RawMessage("{")}, "event.payload"},
		"source":       {event.EnvEvent{Type: "x", Metadata: event.EnvMetadata{Source: "moon"}}, "event.metadata.source"},
		"other thread": {event.EnvEvent{Type: "x", Metadata: event.EnvMetadata{TriggerSessionID: "t2"}}, "event.metadata.trigger_session_id"},
		"taken key":    {event.EnvEvent{Type: "x", Metadata: event.EnvMetadata{Extra: map[string]json.RawMessage{"schedule_id": nil}}}, "event.metadata.schedule_id"},
		"odd metadata": {event.EnvEvent{Type: "x", Metadata: event.EnvMetadata{Extra: map[string]json.RawMessage{"a": json.RawMessage("{")}}}, "event.metadata"},
		"no question":  {event.EnvEvent{Type: event.TypeUserQuery, Payload: json.RawMessage(`{}`)}, "event.payload.content"},
	} {
		t.Run("an event with "+name, func(t *testing.T) {
			var field *event.FieldError
			require.ErrorAs(t, hourly(func(s *signals.Schedule) { s.Message, s.Event = nil, &c.event }).Validate(), &field)
			require.Equal(t, c.field, field.Field)
		})
	}
}

func TestCron(t *testing.T) {
	check := func(expression string) error {
		return hourly(func(s *signals.Schedule) { s.Cron = []string{expression} }).Validate()
	}
	for _, right := range []string{"* * * * *", "0 8 * * 1-5", "  0\t8 * * sun ", "59 23 31 12 7", "0,30 */2 1-31/5 Feb,10 SAT", "@yearly", "@annually", "@monthly", "@weekly", "@daily"} {
		require.NoError(t, check(right), right)
	}
	for wrong, problem := range map[string]string{
		"":                             "has 0 fields, must have five",
		"0 8 * *":                      "has 4 fields, must have five",
		"0 0 8 * * 1":                  "has 6 fields, must have five",
		"CRON_TZ=Asia/Tokyo 0 8 * * *": "has 6 fields",
		"@every 5m":                    `"@every 5m" is not one of @hourly, @daily`,
		"@reboot":                      "is not one of",
		"a * * * *":                    `the minute "a" is not 0 to 59`,
		"-1 * * * *":                   `the minute "-1" is not 0 to 59`,
		"+1 * * * *":                   `the minute "+1" is not 0 to 59`,
		"0 24 * * *":                   `the hour "24" is not 0 to 23`,
		"0 8 0 * *":                    `the day of month "0" is not 1 to 31`,
		"0 8 * 13 *":                   `the month "13" is not 1 to 12 or jan to dec`,
		"0 8 * march *":                `the month "march" is not 1 to 12 or jan to dec`,
		"0 8 * * 8":                    `the day of week "8" is not 0 to 7 or sun to sat`,
		"0 8 * * mon-":                 "is not 0 to 7",
		"0 8 * * fri-mon":              "is a range that ends before it begins",
		"0 8 * * 1-2-3":                "is not 0 to 7",
		"*/0 * * * *":                  "has a step that is not 1 to 59",
		"*/x * * * *":                  "has a step that is not 1 to 59",
		"0/5/5 * * * *":                "has a step that is not 1 to 59",
		"1,,2 * * * *":                 `the minute "" is not 0 to 59`,
		"? * * * *":                    "is not 0 to 59",
	} {
		require.ErrorContains(t, check(wrong), problem, wrong)
	}
}

func TestDelivery(t *testing.T) {
	run := signals.ScheduledRun{Namespace: "acme", ScheduleID: "s1", At: at}
	t.Run("a message", func(t *testing.T) {
		s := hourly(func(s *signals.Schedule) { s.Open, s.Agents, s.Title = true, []string{"bob"}, "Hours" })
		s.Message.Metadata = map[string]any{"ticket": "7"}
		d, err := s.Delivery(run)
		require.NoError(t, err)
		require.Equal(t, signals.Delivery{Namespace: "acme", ThreadID: "t1", Open: true, Agents: []string{"bob"}, Title: "Hours", Post: d.Post}, d)
		require.Equal(t, run.EventID(), d.Post.ID)
		require.Equal(t, event.TypeMessage, d.Post.Type)
		require.JSONEq(t, `{"threadId":"t1","senderId":"schedule","senderType":"user","content":"the hour is over",
			"metadata":{"ticket":"7","schedule_id":"s1","scheduled_at":"2026-01-02T08:30:00Z"}}`, string(d.Post.Payload))
		require.NoError(t, d.Post.Validate("t1"))
		require.Equal(t, event.Metadata{"ticket": "7"}, s.Message.Metadata, "the schedule's own stays as it is")
	})
	t.Run("S3-03 S3-05 S3-06 an event", func(t *testing.T) {
		s := hourly(func(s *signals.Schedule) {
			s.Message = nil
			s.Event = &event.EnvEvent{Type: "day.begun", Payload: json.RawMessage(`{"n":1}`), Metadata: event.EnvMetadata{
				EnvName: "calendar", Extra: map[string]json.RawMessage{"team": json.RawMessage(`["a"]`)},
			}}
		})
		d, err := s.Delivery(run)
		require.NoError(t, err)
		require.True(t, d.Post.IsEnv())
		require.Equal(t, run.EventID(), d.Post.ID)
		require.Equal(t, "day.begun", d.Post.Type)
		require.Equal(t, at.UnixMilli(), d.Post.Timestamp)
		require.JSONEq(t, `{"n":1}`, string(d.Post.Payload))
		require.JSONEq(t, `{"trigger_session_id":"t1","source":"system","env_name":"calendar","team":["a"],
			"schedule_id":"s1","scheduled_at":"2026-01-02T08:30:00Z"}`, string(d.Post.Metadata))
		require.NoError(t, d.Post.Validate("t1"))
		require.Len(t, s.Event.Metadata.Extra, 1, "the schedule's own stays as it is")
	})
	t.Run("as it comes from JSON", func(t *testing.T) {
		var s signals.Schedule
		require.NoError(t, json.Unmarshal([]byte(`{"threadId":"t1","every":"15m","event":{"type":"tick"}}`), &s))
		require.NoError(t, s.Validate())
		d, err := s.Delivery(run)
		require.NoError(t, err)
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		var again signals.Schedule
		require.NoError(t, json.Unmarshal(raw, &again))
		same, err := again.Delivery(run)
		require.NoError(t, err)
		require.Equal(t, d.Post.ID, same.Post.ID)
		require.JSONEq(t, string(d.Post.Metadata), string(same.Post.Metadata))
		require.NotContains(t, string(raw), "At\"", "times that are not set are left out")
	})
}

func TestScheduleDefaults(t *testing.T) {
	s := signals.Schedule{}.WithDefaults()
	require.Len(t, s.ID, 26)
	require.Equal(t, "UTC", s.Timezone)
	require.Equal(t, signals.MissedOnce, s.Missed)
	set := hourly(func(s *signals.Schedule) { s.Timezone, s.Missed = "Asia/Tokyo", signals.MissedSkip })
	require.Equal(t, set, set.WithDefaults())
}

func TestDuration(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "15m": 15 * time.Minute, "24h": 24 * time.Hour, "1h30m": 90 * time.Minute,
		"1h0m30s": time.Hour + 30*time.Second, "10m10s": 610 * time.Second, "250ms": 250 * time.Millisecond,
	} {
		var got signals.Duration
		require.NoError(t, json.Unmarshal([]byte(`"`+text+`"`), &got), text)
		require.Equal(t, d, time.Duration(got), text)
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		var again signals.Duration
		require.NoError(t, json.Unmarshal(raw, &again))
		require.Equal(t, got, again)
	}
	require.Equal(t, "15m", signals.Duration(15*time.Minute).String())
	require.Equal(t, "24h", signals.Duration(24*time.Hour).String())
	require.Equal(t, "1m30s", signals.Duration(90*time.Second).String())
	require.Equal(t, "0s", signals.Duration(0).String())
	var d signals.Duration
	require.ErrorContains(t, json.Unmarshal([]byte(`"soon"`), &d), `"soon" is not a duration such as 90s`)
}
