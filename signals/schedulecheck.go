package signals

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Bounds of a [Schedule].
const (
	MaxCron   = 20
	MaxJitter = 24 * time.Hour
	MaxNote   = 1000 // bytes; Temporal's limit
)

// WithDefaults returns a copy with the defaults of empty fields.
func (s Schedule) WithDefaults() Schedule {
	if s.ID == "" {
		s.ID = NewID()
	}
	s.Timezone, s.Missed = cmp.Or(s.Timezone, "UTC"), cmp.Or(s.Missed, MissedOnce)
	return s
}

// Validate reports the first invalid field as a [*event.FieldError]. It does not check that
// the thread exists.
func (s Schedule) Validate() error {
	s = s.WithDefaults()
	if err := ValidateID("id", s.ID); err != nil {
		return err
	}
	if err := checkTimes(s); err != nil {
		return err
	}
	switch s.Missed {
	case MissedSkip, MissedOnce, MissedAll:
	default:
		return event.FieldErrorf("missed", "%q is not one of skip, once, all", s.Missed)
	}
	if err := ValidateNote(s.Note); err != nil {
		return err
	}
	if len(s.Agents) > 0 && !s.Open {
		return event.FieldErrorf("agents", "require open: they are the agents of a thread that the schedule opens")
	}
	if s.Title != "" && !s.Open {
		return event.FieldErrorf("title", "requires open: it is the title of a thread that the schedule opens")
	}
	if err := validateThread(s.Agents, s.Title, nil); err != nil {
		return err
	}
	// Any run will do: posts of different runs differ only in ids and times.
	_, err := s.Delivery(ScheduledRun{Namespace: DefaultNamespace, ScheduleID: s.ID, At: time.Unix(0, 0).UTC()})
	return err
}

// ValidateNote reports a note that is too long or not text.
func ValidateNote(note string) error {
	if len(note) > MaxNote {
		return event.FieldErrorf("note", "must be at most %d bytes of text", MaxNote)
	}
	return event.ValidateText("note", note)
}

func checkTimes(s Schedule) error {
	every, offset, jitter := time.Duration(s.Every), time.Duration(s.Offset), time.Duration(s.Jitter)
	switch {
	case len(s.Cron) == 0 && every == 0:
		return event.FieldErrorf("cron", "or every is required: when the schedule runs")
	case len(s.Cron) > MaxCron:
		return event.FieldErrorf("cron", "has %d expressions, must have at most %d", len(s.Cron), MaxCron)
	case every != 0 && (every < time.Second || every%time.Second != 0):
		return event.FieldErrorf("every", "is %s, must be whole seconds, at least 1s", s.Every)
	case offset != 0 && every == 0:
		return event.FieldErrorf("offset", "requires every: it shifts an interval")
	case offset < 0 || offset%time.Second != 0 || every != 0 && offset >= every:
		return event.FieldErrorf("offset", "is %s, must be whole seconds, 0s or more and less than every", s.Offset)
	case jitter < 0 || jitter > MaxJitter || jitter%time.Millisecond != 0:
		return event.FieldErrorf("jitter", "is %s, must be whole milliseconds, 0s to %s", s.Jitter, Duration(MaxJitter))
	case s.Remaining < 0:
		return event.FieldErrorf("remaining", "is %d, must be positive, or 0 for no limit", s.Remaining)
	case !s.EndAt.IsZero() && !s.EndAt.After(s.StartAt):
		return event.FieldErrorf("endAt", "must be after startAt")
	}
	for i, c := range s.Cron {
		if err := checkCron(c); err != nil {
			return event.FieldErrorf(fmt.Sprintf("cron[%d]", i), "%s", err)
		}
	}
	return checkZone(s.Timezone)
}

var zoneForm = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}$`)

// checkZone checks the name in the machine's time zone database, if there is one. Without one, as
// in an image built from scratch, only Temporal can validate the name.
func checkZone(name string) error {
	_, err := time.LoadLocation(name)
	_, none := time.LoadLocation("Europe/London")
	if !zoneForm.MatchString(name) || name == "Local" || err != nil && none == nil {
		return event.FieldErrorf("timezone", "%.64q is not the name of a time zone, such as UTC or Europe/Berlin", name)
	}
	return nil
}
