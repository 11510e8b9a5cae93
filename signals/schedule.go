package signals

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Names for schedules.
const (
	// DeliverWorkflow is one run of a schedule: it posts to the schedule's thread. Its input is the
	// [Schedule], and its id a [DeliverWorkflowID] followed by the time of the run, which Temporal
	// appends.
	DeliverWorkflow = "deliver"

	ActivityDeliver = "deliver"

	// NotFoundType is the type of the application error of a run whose thread does not exist. For a
	// closed thread, the type is [ClosedType]; for an invalid post, [RefusedType].
	NotFoundType = "not_found"
)

// Schedule posts an environment event or a message repeatedly. It is stored as a Temporal Schedule:
// see
// [ScheduleID].
type Schedule struct {
	// ID is unique in the namespace. Default: a new id.
	ID string `json:"id,omitempty"`

	// ThreadID is the thread that receives the posts. Required.
	ThreadID string `json:"threadId"`

	// Cron are expressions of five fields (minute, hour, day of month, month, day of week), or
	// @hourly, @daily, @weekly, @monthly, @yearly. If both days are restricted, both must match.
	Cron []string `json:"cron,omitempty"`

	// Every is an interval of whole seconds, at least one, counted from 1970 (UTC); Offset shifts
	// it. At least one of Cron and Every is required. With both, the schedule runs at the times of
	// both.
	Every  Duration `json:"every,omitempty"`
	Offset Duration `json:"offset,omitempty"`

	// Timezone is the IANA name of the time zone of Cron. Default "UTC".
	Timezone string `json:"timezone,omitempty"`

	// Jitter delays each run by a random time up to this duration, at most a day and never beyond
	// the next run. Default none.
	Jitter Duration `json:"jitter,omitempty"`

	// StartAt and EndAt limit the times of runs, both inclusive. Zero = no limit.
	StartAt time.Time `json:"startAt,omitzero"`
	EndAt   time.Time `json:"endAt,omitzero"`

	// Remaining is the number of runs left, without manual runs. 0 = no limit.
	Remaining int `json:"remaining,omitempty"`

	// Missed says which runs are made up for after an outage. Default [MissedOnce].
	Missed Missed `json:"missed,omitempty"`

	// Event or Message is the content of the posts; exactly one is required. Each run sets the
	// event's id and timestamp. A message requires only its content; its default sender is the user
	// "schedule".
	Event   *event.EnvEvent   `json:"event,omitempty"`
	Message *event.NewMessage `json:"message,omitempty"`

	// Open opens the thread with these agents if it does not exist. Without agents, it has the
	// default agent.
	Open   bool     `json:"open,omitempty"`
	Agents []string `json:"agents,omitempty"`

	// Paused schedules run only by hand. Runs missed while paused are not made up for.
	Paused bool `json:"paused,omitempty"`

	// Note is a comment for people.
	Note string `json:"note,omitempty"`
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

// ScheduleView is the current state of a schedule, including Paused, Note and Remaining.
type ScheduleView struct {
	Schedule

	// Next are the next times, at most ten. For a paused schedule, they are the times without the
	// pause.
	Next []time.Time `json:"next"`

	// Done means that there are no more times or no runs remain. Temporal deletes such a schedule
	// after a week.
	Done bool `json:"done,omitempty"`

	// Recent are the last runs, at most ten, newest last.
	Recent []ScheduleRun `json:"recent"`

	// Runs counts the runs that started, LateRuns those skipped because they were too late, and
	// OverlappedRuns those skipped because another run was in progress.
	Runs           int `json:"runs"`
	LateRuns       int `json:"lateRuns,omitempty"`
	OverlappedRuns int `json:"overlappedRuns,omitempty"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	// ScheduledAt is the time of the run, without jitter, or the time at which it was started by
	// hand. StartedAt is when it started.
	ScheduledAt time.Time `json:"scheduledAt"`
	StartedAt   time.Time `json:"startedAt"`

	// EventID is the id of the posted event or message.
	EventID string `json:"eventId"`

	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`

	// Status is "running", "completed", "failed", "timed_out", "canceled" or "terminated". Error is
	// the reason of a failure. Both are empty in a list of schedules, and after Temporal has
	// deleted the run.
	Status string `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ScheduleID returns the id of the Temporal Schedule.
func ScheduleID(namespace, id string) string { return "schedule/" + namespace + "/" + id }

// ParseScheduleID returns the namespace and the schedule id in the id of a Temporal Schedule.
func ParseScheduleID(scheduleID string) (namespace, id string, err error) {
	return parseScheduled("schedule/", scheduleID)
}

// DeliverWorkflowID returns the workflow id of a schedule's runs. Temporal appends "-" and the
// time.
func DeliverWorkflowID(namespace, id string) string { return "deliver/" + namespace + "/" + id }

func parseScheduled(prefix, s string) (namespace, id string, err error) {
	rest, ok := strings.CutPrefix(s, prefix)
	namespace, id, found := strings.Cut(rest, "/")
	if !ok || !found {
		return "", "", fmt.Errorf("id %q is not %s<namespace>/<schedule id>", s, prefix)
	}
	if err := CheckID("namespace", namespace); err != nil {
		return "", "", err
	}
	return namespace, id, CheckID("id", id)
}

// Run is one run of a schedule.
type Run struct {
	Namespace  string
	ScheduleID string

	// At is the time of the run, in whole seconds.
	At time.Time
}

// runTime is Temporal's format for the time of a run, in UTC.
const runTime = "2006-01-02T15:04:05Z"

// ParseRun parses the workflow id of a run.
func ParseRun(workflowID string) (Run, error) {
	dash := len(workflowID) - len(runTime) - 1
	if dash < 0 || workflowID[dash] != '-' {
		return Run{}, fmt.Errorf("workflow id %q is not deliver/<namespace>/<schedule id>-<time>", workflowID)
	}
	at, err := time.Parse(runTime, workflowID[dash+1:])
	if err != nil {
		return Run{}, fmt.Errorf("workflow id %q does not end with the time of a run: %w", workflowID, err)
	}
	namespace, id, err := parseScheduled("deliver/", workflowID[:dash])
	return Run{Namespace: namespace, ScheduleID: id, At: at}, err
}

// EventID returns the id of the run's post. It is the same for every retry, so the thread ignores
// duplicates.
func (r Run) EventID() string {
	return EventID(ScheduleID(r.Namespace, r.ScheduleID), r.At.Format(runTime))
}
