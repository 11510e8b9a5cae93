package signals

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Names for schedules.
const (

	// NotFoundType is the type of the application error of a run whose thread does not exist. For a
	// closed thread, the type is [ClosedType]; for an invalid post, [RefusedType].
	NotFoundType = "not_found"
)

// Schedule posts an environment event or a message repeatedly. It is stored as a Temporal Schedule:
// see
// [ScheduleID].
type Schedule struct {
	// 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit; unique in the namespace. Default: a new
	// ULID.
	ID string `json:"id,omitempty" maxLength:"128"`

	// The thread to which it posts.
	ThreadID string `json:"threadId" maxLength:"128"`

	// Expressions of five fields (minute, hour, day of month, month, day of week), or @hourly, @daily, @weekly,
	// @monthly, @yearly. Where both days are restricted, both must match. At least one of cron and every is required;
	// with both, the times of both count.
	Cron []string `json:"cron,omitempty" maxItems:"20" example:"[\"0 8 * * 1-5\"]"`

	// An interval of whole seconds, counted from 1970 (UTC) and not from the creation.
	Every Duration `json:"every,omitempty" pattern:"^(0?|[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+)$" patternDescription:"a duration such as 90s, 15m or 1h30m" example:"15m"`

	// Shifts the interval; less than every.
	Offset Duration `json:"offset,omitempty" pattern:"^(0?|[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+)$" patternDescription:"a duration such as 90s, 15m or 1h30m" example:"5m"`

	// Time zone of cron, an IANA name. Default: UTC.
	Timezone string `json:"timezone,omitempty" example:"Europe/Berlin"`

	// Delays each run by a random time up to this, at most 24h and never beyond the next run. Default: none.
	Jitter Duration `json:"jitter,omitempty" pattern:"^(0?|[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+)$" patternDescription:"a duration such as 90s, 15m or 1h30m" example:"30s"`

	// No run is before this.
	StartAt time.Time `json:"startAt,omitzero"`

	// No run is after this.
	EndAt time.Time `json:"endAt,omitzero"`

	// Number of remaining runs, manual runs not counted. Default: 0, no limit.
	Remaining int `json:"remaining,omitempty" minimum:"0"`

	// What to make up for after an outage: nothing that is more than a minute late, one run, or all. Default: once.
	Missed Missed `json:"missed,omitempty" enum:"skip,once,all"`

	// Exactly one of Event and Message is posted. The run gives the event its id and its
	// timestamp. A message needs its content only; its default sender is the user "schedule".
	Event   *event.EnvEvent   `json:"event,omitempty"`
	Message *event.NewMessage `json:"message,omitempty"`

	// Open the thread if it does not exist.
	Open bool `json:"open,omitempty"`

	// The agents of a thread that it opens. Default: the default agent.
	Agents []string `json:"agents,omitempty" maxItems:"100"`

	// The title of a thread that it opens, at most 400 bytes. Default: one is generated, if the server generates
	// titles.
	Title string `json:"title,omitempty" maxLength:"400"`

	// Run only by hand. Missed times are not made up for.
	Paused bool `json:"paused,omitempty"`

	// For people.
	Note string `json:"note,omitempty" maxLength:"1000"`
}

// Missed says which runs a schedule makes up for after an outage.
type Missed string

// The values of [Missed]. In an outage of Temporal, no runs start; in an outage of the workers or
// the thread, runs start but cannot deliver.
const (
	// MissedSkip skips late runs: a run must start within [SkipWindow] of its time and deliver
	// within another SkipWindow.
	MissedSkip Missed = "skip"

	// MissedOnce makes up for the first missed run only: times that pass while a run is waiting or
	// late are skipped. A run is at most [CatchUpWindow] late.
	MissedOnce Missed = "once"

	// MissedAll makes up for every run, in order, one at a time, at most [CatchUpWindow] late.
	// Temporal buffers about 1,000 runs and drops the rest.
	MissedAll Missed = "all"
)

// Limits on how late a run may start.
const (
	SkipWindow    = time.Minute
	CatchUpWindow = 365 * 24 * time.Hour
)

// ScheduleView is a schedule with its state. Paused, Note and Remaining are current.
type ScheduleView struct {
	Schedule

	// The next times, at most ten; of a paused schedule, as if it were not.
	Next []time.Time `json:"next" nullable:"false"`

	// No times or runs remain. Temporal deletes such a schedule after a week.
	Done bool `json:"done,omitempty"`

	// The last runs, at most ten, the newest last.
	Recent []ScheduleRun `json:"recent" nullable:"false"`

	// The last run that has ended, if it failed.
	Failing *ScheduleRun `json:"failing,omitempty"`

	// Number of runs that began.
	Runs int `json:"runs"`

	// Number of runs skipped because they would have been too late.
	LateRuns int `json:"lateRuns,omitempty"`

	// Number of runs skipped because another was still in progress.
	OverlappedRuns int `json:"overlappedRuns,omitempty"`

	// When the schedule was created.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	// When it was changed last.
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	// Its time, without jitter, or when it was started by hand.
	ScheduledAt time.Time `json:"scheduledAt"`

	// When the run started.
	StartedAt time.Time `json:"startedAt"`

	// The id of the event or message that it posts.
	EventID string `json:"eventId"`

	// The workflow of the run.
	WorkflowID string `json:"workflowId"`

	// The run of the workflow.
	RunID string `json:"runId"`

	// Left out in lists, and once Temporal has deleted the run.
	Status string `json:"status,omitempty" enum:"running,completed,failed,timed_out,canceled,terminated"`

	// Why it failed.
	Error string `json:"error,omitempty"`
}

// ScheduleID returns the id of the Temporal Schedule.
func ScheduleID(namespace, id string) string { return "schedule/" + namespace + "/" + id }

// ParseScheduleID returns the namespace and the schedule id in the id of a Temporal Schedule.
func ParseScheduleID(scheduleID string) (namespace, id string, err error) {
	return parseScheduled("schedule/", scheduleID)
}

func parseScheduled(prefix, s string) (namespace, id string, err error) {
	rest, ok := strings.CutPrefix(s, prefix)
	namespace, id, found := strings.Cut(rest, "/")
	if !ok || !found {
		return "", "", fmt.Errorf("id %q is not %s<namespace>/<schedule id>", s, prefix)
	}
	if err := ValidateID("namespace", namespace); err != nil {
		return "", "", err
	}
	return namespace, id, ValidateID("id", id)
}

// ScheduledRun is one run of a schedule.
type ScheduledRun struct {
	Namespace  string
	ScheduleID string

	// At is the time of the run, in whole seconds.
	At time.Time
}

// runTime is Temporal's format for the time of a run, in UTC.
const runTime = "2006-01-02T15:04:05Z"

// ParseScheduledRun parses the workflow id of a run.
func ParseScheduledRun(workflowID string) (ScheduledRun, error) {
	dash := len(workflowID) - len(runTime) - 1
	if dash < 0 || workflowID[dash] != '-' {
		return ScheduledRun{}, fmt.Errorf("workflow id %q is not deliver/<namespace>/<schedule id>-<time>", workflowID)
	}
	at, err := time.Parse(runTime, workflowID[dash+1:])
	if err != nil {
		return ScheduledRun{}, fmt.Errorf("workflow id %q does not end with the time of a run: %w", workflowID, err)
	}
	namespace, id, err := parseScheduled("deliver/", workflowID[:dash])
	return ScheduledRun{Namespace: namespace, ScheduleID: id, At: at}, err
}

// EventID returns the id of the run's post. It is the same for every retry, so the thread ignores
// duplicates.
func (r ScheduledRun) EventID() string {
	return EventID(ScheduleID(r.Namespace, r.ScheduleID), r.At.Format(runTime))
}
