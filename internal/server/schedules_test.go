package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// schedulesFake are the schedules of Temporal, which never run.
type schedulesFake struct {
	has   map[string]signals.ScheduleView
	limit int
	fail  error // of all operations but those that create and replace
	late  error // of all
}

func (f *schedulesFake) get(id string) (signals.ScheduleView, error) {
	view, there := f.has[id]
	switch {
	case f.late != nil:
		return view, f.late
	case f.fail != nil:
		return view, f.fail
	case signals.ValidateID("id", id) != nil:
		return view, signals.ValidateID("id", id)
	case !there:
		return view, &threadclient.ScheduleError{ID: id, Err: signals.ErrScheduleNotFound}
	}
	return view, nil
}

func (f *schedulesFake) put(s signals.Schedule) (signals.Schedule, error) {
	s = s.WithDefaults()
	f.has[s.ID] = signals.ScheduleView{Schedule: s, Next: []time.Time{tomorrow}, CreatedAt: today}
	return s, f.late
}

func (f *threads) CreateSchedule(_ context.Context, s signals.Schedule) (signals.Schedule, error) {
	if _, there := f.schedules.has[s.ID]; there {
		return s, &threadclient.ScheduleError{ID: s.ID, Err: signals.ErrScheduleExists}
	}
	return f.schedules.put(s)
}

func (f *threads) UpdateSchedule(_ context.Context, s signals.Schedule) (signals.Schedule, error) {
	if _, there := f.schedules.has[s.ID]; !there {
		return s, &threadclient.ScheduleError{ID: s.ID, Err: signals.ErrScheduleNotFound}
	}
	return f.schedules.put(s)
}

func (f *threads) Schedule(_ context.Context, id string) (signals.ScheduleView, error) {
	return f.schedules.get(id)
}

func (f *threads) Schedules(_ context.Context, limit int) ([]signals.ScheduleView, error) {
	f.schedules.limit = limit
	var out []signals.ScheduleView
	for _, view := range f.schedules.has {
		out = append(out, view)
	}
	slices.SortFunc(out, func(a, b signals.ScheduleView) int { return strings.Compare(a.ID, b.ID) })
	return out, errors.Join(f.schedules.fail, f.schedules.late)
}

func (f *threads) setPaused(id, note string, paused bool) error {
	view, err := f.schedules.get(id)
	if err != nil {
		return err
	}
	view.Paused = paused
	if note != "" {
		view.Note = note
	}
	f.schedules.has[id] = view
	return nil
}

func (f *threads) PauseSchedule(_ context.Context, id, note string) error {
	return f.setPaused(id, note, true)
}

func (f *threads) ResumeSchedule(_ context.Context, id, note string) error {
	return f.setPaused(id, note, false)
}

func (f *threads) TriggerSchedule(_ context.Context, id string) error {
	view, err := f.schedules.get(id)
	if err != nil {
		return err
	}
	view.Runs++
	f.schedules.has[id] = view
	return nil
}

func (f *threads) DeleteSchedule(_ context.Context, id string) error {
	_, err := f.schedules.get(id)
	if err == nil {
		delete(f.schedules.has, id)
	}
	return err
}

var (
	today    = time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)
	tomorrow = today.AddDate(0, 0, 1)
)

func scheduleWorld(t *testing.T, change ...func(*server.Config)) *world {
	w := newWorld(t, change...)
	w.threads.schedules.has = map[string]signals.ScheduleView{}
	return w
}

// morning is the body of a schedule.
func morning(change object) object {
	body := object{"id": "daily", "threadId": "t1", "cron": []string{"0 8 * * 1-5"}, "message": object{"content": "What is on today?"}}
	for key, value := range change {
		body[key] = value
		if value == nil {
			delete(body, key)
		}
	}
	return body
}

func TestCreateSchedule(t *testing.T) {
	w := scheduleWorld(t)
	t.Run("a message", func(t *testing.T) {
		got := w.call("POST", "/v1/schedules", morning(nil)).ok(t, http.StatusCreated)
		assert.Equal(t, "/v1/schedules/daily", got.header.Get("Location"))
		assert.JSONEq(t, `{"id":"daily","threadId":"t1","cron":["0 8 * * 1-5"],"timezone":"UTC","missed":"once",
			"message":{"content":"What is on today?"},"next":["2026-01-03T08:00:00Z"],"recent":[],"runs":0,"version":1,"createdAt":"2026-01-02T08:00:00Z"}`, got.text)
	})
	t.Run("an event, with everything", func(t *testing.T) {
		body := object{
			"id": "full", "threadId": "t1", "cron": []string{"@daily", "0 12 * * *"}, "every": "90m", "offset": "5m", "timezone": "Europe/Berlin",
			"jitter": "30s", "startAt": "2026-01-02T09:00:00+01:00", "endAt": "2027-01-02T08:00:00Z", "remaining": 7, "missed": "all",
			"event": object{"type": "day.begun", "metadata": object{"env_name": "calendar", "source": "env", "team": []int{1}}, "payload": object{"n": 1}},
			"open":  true, "agents": []string{"bot"}, "paused": true, "note": "holidays",
		}
		got := w.call("POST", "/v1/schedules", body).ok(t, http.StatusCreated)
		kept := w.threads.schedules.has["full"].Schedule
		assert.Equal(t, 90*time.Minute, time.Duration(kept.Every))
		assert.Equal(t, 5*time.Minute, time.Duration(kept.Offset))
		assert.Equal(t, 30*time.Second, time.Duration(kept.Jitter))
		assert.True(t, kept.StartAt.Equal(today))
		assert.Equal(t, signals.MissedAll, kept.Missed)
		assert.Equal(t, "calendar", kept.Event.Metadata.EnvName)
		assert.JSONEq(t, "[1]", string(kept.Event.Metadata.Extra["team"]))
		for _, added := range []string{"next", "recent", "runs", "version", "createdAt"} {
			require.Contains(t, got.body, added)
			delete(got.body, added)
		}
		assert.Equal(t, "1h30m", got.body["every"])
		got.body["every"] = "90m"
		assert.EqualValues(t, 7, got.body["remaining"])
		body["remaining"], body["agents"], body["cron"] = 7.0, []any{"bot"}, []any{"@daily", "0 12 * * *"}
		body["event"].(object)["metadata"].(object)["team"] = []any{1.0}
		body["event"].(object)["payload"].(object)["n"] = 1.0
		assert.Equal(t, body, got.body, "it comes back as it was given")
	})
	t.Run("without an id", func(t *testing.T) {
		got := w.call("POST", "/v1/schedules", morning(object{"id": nil})).ok(t, http.StatusCreated)
		assert.Len(t, got.body["id"], 26)
	})
	t.Run("an id that is taken", func(t *testing.T) {
		got := w.call("POST", "/v1/schedules", morning(nil))
		got.problem(t, 409)
		assert.Contains(t, got.text, `schedule \"daily\" already exists`)
	})
	t.Run("one that Temporal cannot describe any more is made all the same", func(t *testing.T) {
		w.threads.schedules.fail = serviceerror.NewUnavailable("down")
		defer func() { w.threads.schedules.fail = nil }()
		got := w.call("POST", "/v1/schedules", morning(object{"id": "lost"})).ok(t, http.StatusCreated)
		assert.Equal(t, "lost", got.body["id"])
		assert.Empty(t, got.body["next"])
	})
}

func TestScheduleMistakes(t *testing.T) {
	w := scheduleWorld(t)
	for location, change := range map[string]object{
		"body.id":                           {"id": "a/b"},
		"body.threadId":                     {"threadId": "a/b"},
		"body.cron":                         {"cron": nil},
		"body.cron[0]":                      {"cron": []string{"0 25 * * *"}},
		"body.every":                        {"every": "soon"},
		"body.offset":                       {"offset": "5m"},
		"body.jitter":                       {"jitter": "48h"},
		"body.timezone":                     {"timezone": "Mars/Olympus"},
		"body.endAt":                        {"startAt": "2026-01-02T08:00:00Z", "endAt": "2026-01-02T08:00:00Z"},
		"body.missed":                       {"missed": "some"},
		"body.remaining":                    {"remaining": -1},
		"body.event":                        {"message": nil},
		"body.event.type":                   {"message": nil, "event": object{"type": "llm_call"}},
		"body.event.metadata.source":        {"message": nil, "event": object{"type": "x", "metadata": object{"source": 1}}},
		"body.message.content":              {"message": object{"content": ""}},
		"body.message.metadata.schedule_id": {"message": object{"content": "hi", "metadata": object{"schedule_id": "x"}}},
		"body.agents":                       {"agents": []string{"bot"}},
		"body.agents[0]":                    {"open": true, "agents": []string{"nobody"}},
		"body.note":                         {"note": strings.Repeat("n", signals.MaxNote+1)},
		"body.often":                        {"often": true},
	} {
		t.Run(location, func(t *testing.T) {
			got := w.call("POST", "/v1/schedules", morning(change))
			assert.Contains(t, got.problem(t, 422), location, got.text)
		})
	}
	require.Empty(t, w.threads.schedules.has)
	w.call("POST", "/v1/schedules", "{").problem(t, 400)
	w.call("GET", "/v1/schedules?limit=0", nil).problem(t, 422)
	w.call("GET", "/v1/schedules?limit=1001", nil).problem(t, 422)
}

func TestScheduleOperations(t *testing.T) {
	w := scheduleWorld(t)
	const path = "/v1/schedules/daily"
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/schedules", morning(nil)).status)
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/schedules", morning(object{"id": "another", "note": "n"})).status)

	t.Run("list", func(t *testing.T) {
		got := w.call("GET", "/v1/schedules", nil).ok(t, http.StatusOK)
		all := got.body["schedules"].([]any)
		require.Len(t, all, 2)
		assert.Equal(t, "another", all[0].(object)["id"])
		assert.Equal(t, 100, w.threads.schedules.limit)
		w.call("GET", "/v1/schedules?limit=7", nil)
		assert.Equal(t, 7, w.threads.schedules.limit)
	})
	t.Run("get, with its runs", func(t *testing.T) {
		view := w.threads.schedules.has["daily"]
		view.Recent = []signals.ScheduleRun{{ScheduledAt: today, StartedAt: today, EventID: "e", WorkflowID: "w", RunID: "r", Status: "failed", Error: "it is closed"}}
		view.Runs, view.LateRuns, view.OverlappedRuns, view.Done, view.UpdatedAt = 3, 1, 2, true, tomorrow
		w.threads.schedules.has["daily"] = view
		got := w.call("GET", path, nil).ok(t, http.StatusOK)
		assert.JSONEq(t, `{"id":"daily","threadId":"t1","cron":["0 8 * * 1-5"],"timezone":"UTC","missed":"once","message":{"content":"What is on today?"},
			"version":1,"next":["2026-01-03T08:00:00Z"],"done":true,"runs":3,"lateRuns":1,"overlappedRuns":2,"createdAt":"2026-01-02T08:00:00Z","updatedAt":"2026-01-03T08:00:00Z",
			"recent":[{"scheduledAt":"2026-01-02T08:00:00Z","startedAt":"2026-01-02T08:00:00Z","eventId":"e","workflowId":"w","runId":"r","status":"failed","error":"it is closed"}]}`, got.text)
	})
	t.Run("pause and resume", func(t *testing.T) {
		got := w.call("POST", path+"/pause", object{"note": "holidays"}).ok(t, http.StatusOK)
		assert.Equal(t, true, got.body["paused"])
		assert.Equal(t, "holidays", got.body["note"])
		got = w.call("POST", path+"/resume", nil).ok(t, http.StatusOK)
		assert.NotContains(t, got.body, "paused")
		assert.Equal(t, "holidays", got.body["note"])
		w.call("POST", path+"/pause", object{"note": strings.Repeat("n", signals.MaxNote+1)}).problem(t, 422)
	})
	t.Run("trigger", func(t *testing.T) {
		w.call("POST", path+"/trigger", nil).ok(t, http.StatusAccepted)
		assert.Equal(t, 4, w.threads.schedules.has["daily"].Runs)
	})
	t.Run("replace", func(t *testing.T) {
		got := w.call("PUT", path, morning(object{"id": nil, "cron": nil, "every": "15m"})).ok(t, http.StatusOK)
		assert.Equal(t, "daily", got.body["id"])
		assert.Equal(t, "15m", got.body["every"])
		assert.NotContains(t, got.body, "cron")
		assert.NotContains(t, got.body, "note", "what is left out is not kept")
		assert.Equal(t, []string{"body.id"}, w.call("PUT", path, morning(object{"id": "x"})).problem(t, 422))
		assert.Equal(t, []string{"body.cron"}, w.call("PUT", path, morning(object{"cron": nil})).problem(t, 422))
	})
	t.Run("delete", func(t *testing.T) {
		w.call("DELETE", path, nil).ok(t, http.StatusNoContent)
		w.call("DELETE", path, nil).problem(t, 404)
	})
	for _, id := range []string{"daily", "a%2Fb", "-"} {
		for _, op := range []string{"GET ", "DELETE ", "POST /pause", "POST /resume", "POST /trigger", "PUT "} {
			t.Run(op+" of no schedule "+id, func(t *testing.T) {
				method, rest, _ := strings.Cut(op, " ")
				var body any
				if method == "PUT" {
					body = morning(object{"id": nil})
				}
				got := w.call(method, "/v1/schedules/"+id+rest, body)
				got.problem(t, 404)
				assert.Contains(t, got.text, "there is no schedule")
			})
		}
	}
}

// TestScheduleVersions: whoever changed a schedule, and with which client, the definition before a change through the API is kept.
func TestScheduleVersions(t *testing.T) {
	w := scheduleWorld(t)
	const path = "/v1/schedules/daily"
	// versions says of each version its number, author and interval, the newest first.
	versions := func() (out []string) {
		got := w.call("GET", path+"/versions", nil).ok(t, http.StatusOK)
		for _, v := range got.body["versions"].([]any) {
			v := v.(object)
			every := "deleted"
			if v["deleted"] == nil {
				definition := v["definition"].(object)
				require.Equal(t, object{"content": "What is on today?"}, definition["message"], "as it was given")
				for _, state := range []string{"paused", "note", "remaining"} {
					require.NotContains(t, definition, state)
				}
				every = definition["every"].(string)
			}
			out = append(out, fmt.Sprint(v["version"], " ", v["by"], " ", every))
		}
		return out
	}
	every := func(interval string, change object) object {
		body := morning(object{"cron": nil, "every": interval})
		maps.Copy(body, change)
		return body
	}
	w.call("GET", path+"/versions", nil).problem(t, 404)

	w.call("POST", "/v1/schedules?by=ann", every("1h", nil)).ok(t, http.StatusCreated)
	got := w.call("PUT", path+"?by=bob&ifVersion=1", every("2h", object{"note": "slower", "remaining": 3})).ok(t, http.StatusOK)
	require.EqualValues(t, 2, got.body["version"])
	require.Equal(t, []string{"2 bob 2h", "1 ann 1h"}, versions())

	t.Run("a version that is not the newest is not replaced", func(t *testing.T) {
		for _, change := range []answer{w.call("PUT", path+"?ifVersion=1", every("3h", nil)), w.call("DELETE", path+"?ifVersion=1", nil)} {
			change.problem(t, 409)
			require.Contains(t, change.text, `schedule \"daily\" has been changed meanwhile: its newest version is 2, not 1`)
		}
		require.Equal(t, []string{"2 bob 2h", "1 ann 1h"}, versions())
		w.call("PUT", path+"?ifVersion=x", every("3h", nil)).problem(t, 422)
	})
	t.Run("a pause is no version, nor is the same again", func(t *testing.T) {
		w.call("POST", path+"/pause", object{"note": "holidays"}).ok(t, http.StatusOK)
		w.call("PUT", path+"?by=eve", every("2h", nil)).ok(t, http.StatusOK)
		require.Equal(t, []string{"2 bob 2h", "1 ann 1h"}, versions())
	})
	t.Run("what another client of Temporal has made", func(t *testing.T) {
		there := func(interval time.Duration) {
			view := w.threads.schedules.has["daily"]
			view.Every = signals.Duration(interval)
			w.threads.schedules.has["daily"] = view
		}
		there(4 * time.Hour)
		require.Equal(t, []string{"3 <nil> 4h", "2 bob 2h", "1 ann 1h"}, versions())
		require.EqualValues(t, 3, w.call("GET", path, nil).body["version"])
		there(5 * time.Hour)
		require.Equal(t, []string{"3 <nil> 5h", "2 bob 2h", "1 ann 1h"}, versions(), "only the last is known")
		w.call("PUT", path+"?ifVersion=3", every("6h", nil)).ok(t, http.StatusOK)
		require.Equal(t, []string{"4 api 6h", "3 <nil> 5h", "2 bob 2h", "1 ann 1h"}, versions(), "it was kept before it was replaced")
	})
	t.Run("deleted, and restored", func(t *testing.T) {
		w.call("DELETE", path+"?by=bob", nil).ok(t, http.StatusNoContent)
		require.Equal(t, []string{"5 bob deleted", "4 api 6h"}, versions()[:2])
		w.call("GET", path, nil).problem(t, 404)
		require.EqualValues(t, 6, w.call("POST", "/v1/schedules", every("1h", nil)).ok(t, http.StatusCreated).body["version"])
		delete(w.threads.schedules.has, "daily") // by another client
		require.Equal(t, []string{"7 <nil> deleted", "6 api 1h"}, versions()[:2])
	})
}

// TestScheduleVersionsWithoutStore: nothing is replaced whose version cannot be kept.
func TestScheduleVersionsWithoutStore(t *testing.T) {
	var down outage
	w := scheduleWorld(t, func(c *server.Config) { c.Store = down.of(c.Store) })
	w.call("POST", "/v1/schedules", morning(nil)).ok(t, http.StatusCreated)
	down.down.Store(true)
	w.call("PUT", "/v1/schedules/daily", morning(object{"cron": []string{"@hourly"}})).problem(t, 503)
	w.call("DELETE", "/v1/schedules/daily", nil).problem(t, 503)
	require.Equal(t, []string{"0 8 * * 1-5"}, w.threads.schedules.has["daily"].Cron)
	w.call("POST", "/v1/schedules", morning(object{"id": "new"})).ok(t, http.StatusCreated)
	down.down.Store(false)
	require.EqualValues(t, 1, w.call("GET", "/v1/schedules/new", nil).ok(t, http.StatusOK).body["version"])
}

func TestSchedulesWithoutTemporal(t *testing.T) {
	w := scheduleWorld(t)
	for late, status := range map[error]int{
		serviceerror.NewUnavailable("secret address"): 503, context.DeadlineExceeded: 503, errors.New("a secret"): 500,
		errors.Join(signals.ErrRefused, errors.New("unknown time zone")): 422,
	} {
		w.threads.schedules.late = late
		for _, op := range []string{"GET /v1/schedules", "GET /v1/schedules/daily", "DELETE /v1/schedules/daily", "POST /v1/schedules/daily/trigger", "POST /v1/schedules"} {
			method, path, _ := strings.Cut(op, " ")
			var body any
			if op == "POST /v1/schedules" {
				w.threads.schedules.has = map[string]signals.ScheduleView{}
				body = morning(nil)
			}
			got := w.call(method, path, body)
			got.problem(t, status)
			assert.NotContains(t, got.text, "secret", op)
			if status == 503 {
				assert.NotEmpty(t, got.header.Get("Retry-After"))
				assert.Contains(t, got.text, "Temporal did not answer within 10s")
			}
		}
	}
}
