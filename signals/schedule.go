package signals

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Names for schedules.
const (
	// DeliverWorkflow is one run of a schedule: it posts to the schedule's thread. Its input
	// is the [Schedule], and its id a [DeliverWorkflowID] with the time of the run behind
	// it, which Temporal adds.
	DeliverWorkflow = "deliver"

	ActivityDeliver = "deliver"

	// NotFoundType is the type of the application error with which a run ends whose thread
	// is not there. Of a closed thread it is [ClosedType], of a post that no thread takes
	// [RefusedType].
	NotFoundType = "not_found"
)

// Schedule publishes an environment event, or posts a message, again and again. It is a
// Temporal Schedule; see [ScheduleID].
type Schedule struct {
	// ID is unique in the namespace. Left out when it is created: a new one.
	ID string `json:"id,omitempty"`

	// ThreadID is the thread to which it posts. Required.
	ThreadID string `json:"threadId"`

	// Cron are expressions of five fields (minute, hour, day of month, month, day of week),
	// or @hourly, @daily, @weekly, @monthly, @yearly. Where both days are restricted, both
	// must match.
	Cron []string `json:"cron,omitempty"`

	// Every is an interval of whole seconds, at least one, counted from 1970 (UTC) and not
	// from the creation; Offset shifts it. Of Cron and Every at least one is required; with
	// both, the times of both count.
	Every  Duration `json:"every,omitempty"`
	Offset Duration `json:"offset,omitempty"`

	// Timezone in which Cron is read, by its IANA name. Default "UTC".
	Timezone string `json:"timezone,omitempty"`

	// Jitter delays each run by a random time up to this, at most a day, and never beyond
	// the next run. Default none.
	Jitter Duration `json:"jitter,omitempty"`

	// StartAt and EndAt bound the times, both inclusive. Zero = no bound.
	StartAt time.Time `json:"startAt,omitzero"`
	EndAt   time.Time `json:"endAt,omitzero"`

	// Remaining is how many runs there still are. 0 = no limit. Those by hand do not count.
	Remaining int `json:"remaining,omitempty"`

	// Missed says what is made up for after an outage. Default [MissedOnce].
	Missed Missed `json:"missed,omitempty"`

	// Event or Message is what is posted: exactly one. The run gives the event its id and
	// its timestamp. A message needs its content only; by default it is a user's, whose
	// id is "schedule".
	Event   *event.EnvEvent   `json:"event,omitempty"`
	Message *event.NewMessage `json:"message,omitempty"`

	// Open opens the thread if it is not there, with these agents. Without agents, that is
	// the default agent.
	Open   bool     `json:"open,omitempty"`
	Agents []string `json:"agents,omitempty"`

	// Paused schedules run by hand only. The times that pass meanwhile are not made up for.
	Paused bool `json:"paused,omitempty"`

	// Note is for people: what the schedule is for, or why it is paused.
	Note string `json:"note,omitempty"`
}

// Missed says what a schedule makes up for after an outage.
type Missed string

// What a schedule can make up for. An outage is one of Temporal, when no run begins, or
// one of the workers or the thread, when a run has begun and cannot deliver.
const (
	// MissedSkip leaves out what is late: a run begins within [SkipWindow] of its time, and
	// delivers within as much again, or not at all.
	MissedSkip Missed = "skip"

	// MissedOnce makes up for one run, the first that was missed: while a run waits or is
	// late, the times that pass are left out. At most [CatchUpWindow] late.
	MissedOnce Missed = "once"

	// MissedAll makes up for every run, in order and one after the other. At most
	// [CatchUpWindow] late; Temporal keeps about 1,000 that wait, and drops what exceeds that.
	MissedAll Missed = "all"
)

// How late a run may begin.
const (
	SkipWindow    = time.Minute
	CatchUpWindow = 365 * 24 * time.Hour
)

// ScheduleView is a schedule as it stands. Paused, Note and Remaining are those of now.
type ScheduleView struct {
	Schedule

	// Next are the next times, at most ten; of a paused schedule, as if it were not.
	Next []time.Time `json:"next"`

	// Done: there are no more times, or no more runs remain. Temporal forgets such a
	// schedule after a week.
	Done bool `json:"done,omitempty"`

	// Recent are the last runs, at most ten, the newest last.
	Recent []ScheduleRun `json:"recent"`

	// Runs counts those that began; LateRuns those that were left out because they would
	// have been too late; OverlappedRuns those left out because another was not done yet.
	Runs           int `json:"runs"`
	LateRuns       int `json:"lateRuns,omitempty"`
	OverlappedRuns int `json:"overlappedRuns,omitempty"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	// ScheduledAt is its time, without jitter, or when it was started by hand; StartedAt is
	// when it began.
	ScheduledAt time.Time `json:"scheduledAt"`
	StartedAt   time.Time `json:"startedAt"`

	// EventID is the id of the event or message.
	EventID string `json:"eventId"`

	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`

	// Status is "running", "completed", "failed", "timed_out", "canceled" or "terminated".
	// Error is why it failed. Both are empty in a list of schedules, and once Temporal has
	// forgotten the run.
	Status string `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ScheduleID is the id of a Temporal Schedule.
func ScheduleID(namespace, id string) string { return "schedule/" + namespace + "/" + id }

// ParseScheduleID splits the id of a Temporal Schedule.
func ParseScheduleID(scheduleID string) (namespace, id string, err error) {
	return parseScheduled("schedule/", scheduleID)
}

// DeliverWorkflowID is the id that a schedule gives its runs; Temporal adds "-" and the
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

	// At is its time, to the second.
	At time.Time
}

// runTime is how Temporal writes the time of a run, in UTC.
const runTime = "2006-01-02T15:04:05Z"

// ParseRun reads the id of a run's workflow.
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

// EventID is the id of what the run posts: the same however often it is tried, so that
// the thread takes it once.
func (r Run) EventID() string {
	return EventID(ScheduleID(r.Namespace, r.ScheduleID), r.At.Format(runTime))
}
