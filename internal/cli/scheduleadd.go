package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// scheduling has the flags of schedule add.
type scheduling struct {
	signals.Schedule

	start, end     string
	message, as    string
	event, payload string
	metadata       []string
	replace        bool
}

func (a scheduleCommands) scheduleAddCommand() *cobra.Command {
	var s scheduling
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "add <thread>",
		Short: "Add a schedule that posts to a thread, and print its id",
		Long: `Add a schedule that posts to a thread, and print its id.

It posts at the times of --cron (minute, hour, day of month, month, day of week; or @hourly,
@daily, @weekly, @monthly, @yearly), of --every, or of both. What it posts is either
--message or --event; "-" as message or payload is read from stdin.`,
		Example: `  starter schedule add t1 --id standup --cron "0 9 * * 1-5" --timezone Europe/Berlin -m "What is on today?"
  starter schedule add t1 --every 15m --event inbox.check --payload '{"folder": "support"}' --open`,
		RunE: func(cmd *cobra.Command, args []string) error {
			schedule, err := a.schedule(cmd.Flags(), s, args[0])
			if err != nil {
				return err
			}
			if err := a.checkAgents(cmd.Context(), "agent", schedule.Agents...); err != nil {
				return err
			}
			return a.onSchedule(cmd, schedule.ID, func(ctx context.Context, t threads) error {
				put := t.CreateSchedule
				if s.replace {
					put = t.UpdateSchedule
				}
				made, err := put(ctx, schedule)
				if err != nil {
					return err
				}
				return a.printMade(ctx, t, made)
			})
		},
	})
	s.addFlags(cmd.Flags())
	return cmd
}

func (s *scheduling) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.ID, "id", "", "id of the schedule (default: a new ULID)")
	f.StringArrayVar(&s.Cron, "cron", nil, "cron expression (repeatable)")
	f.DurationVar((*time.Duration)(&s.Every), "every", 0, "interval of whole seconds, such as 15m, counted from 1970 (UTC)")
	f.DurationVar((*time.Duration)(&s.Offset), "offset", 0, "shifts the interval")
	f.StringVar(&s.Timezone, "timezone", "UTC", "where cron is read, such as Europe/Berlin")
	f.DurationVar((*time.Duration)(&s.Jitter), "jitter", 0, "delays each run by a random time up to this")
	f.StringVar(&s.start, "start", "", "no run before this, such as 2026-12-24T08:00:00+01:00")
	f.StringVar(&s.end, "end", "", "no run after this")
	f.IntVar(&s.Remaining, "runs", 0, "how many runs (default: no limit)")
	f.StringVar((*string)(&s.Missed), "missed", string(signals.MissedOnce), "what is made up for after an outage: skip, once or all")
	f.StringVarP(&s.message, "message", "m", "", "message to post")
	f.StringVar(&s.as, "as", "", "name of the message's sender (default "+signals.ScheduleSender+")")
	f.StringVar(&s.event, "event", "", "type of the environment event to publish, such as day.begun")
	f.StringVar(&s.payload, "payload", "", "the event's payload, as JSON")
	f.StringArrayVar(&s.metadata, "metadata", nil, "key=value kept with the message or event (repeatable)")
	f.BoolVar(&s.Open, "open", false, "open the thread if it does not exist")
	f.StringArrayVar(&s.Agents, "agent", nil, "agent that takes part in a thread that --open opens (repeatable; default: the server's first)")
	f.StringVar(&s.Title, "title", "", "title of a thread that --open opens")
	f.BoolVar(&s.Paused, "paused", false, "do not begin before it is resumed")
	f.StringVar(&s.Note, "note", "", "what the schedule is for")
	f.BoolVar(&s.replace, "replace", false, "replace the schedule of that id as a whole")
}

// schedule returns the schedule of the flags, and checks it.
func (a scheduleCommands) schedule(f *pflag.FlagSet, in scheduling, thread string) (signals.Schedule, error) {
	s := in.Schedule
	s.ThreadID = thread
	var err error
	if s.StartAt, err = timeFlag("start", in.start); err != nil {
		return s, err
	}
	if s.EndAt, err = timeFlag("end", in.end); err != nil {
		return s, err
	}
	if in.replace && s.ID == "" {
		return s, usagef("--replace needs the --id of the schedule to replace")
	}
	if f.Changed("message") == f.Changed("event") {
		return s, usagef("say what the schedule posts, by either --message or --event")
	}
	if f.Changed("message") {
		s.Message, err = a.scheduledMessage(in)
	} else {
		s.Event, err = a.scheduledEvent(in)
	}
	if err != nil {
		return s, err
	}
	s = s.WithDefaults()
	return s, usage(s.Validate())
}

func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usagef("--%s is %q, must be a time such as 2026-12-24T08:00:00Z", name, text)
	}
	return t, nil
}

func (a scheduleCommands) scheduledMessage(in scheduling) (*event.NewMessage, error) {
	if in.payload != "" {
		return nil, usagef("--payload is that of an event: a message is its text")
	}
	content, err := a.argument("message", in.message)
	if err != nil {
		return nil, err
	}
	m := &event.NewMessage{SenderID: in.as, Content: content}
	if len(in.metadata) > 0 {
		err = metadata(in.metadata, &m.Metadata)
	}
	return m, err
}

func (a scheduleCommands) scheduledEvent(in scheduling) (*event.EnvEvent, error) {
	if in.as != "" {
		return nil, usagef("--as is the sender of a message: an event has none")
	}
	payload, err := a.argument("payload", in.payload)
	e := &event.EnvEvent{Type: in.event}
	if err == nil && payload != "" {
		e.Payload, err = parseJSON("payload", payload)
	}
	if err != nil {
		return nil, err
	}
	return e, metadata(in.metadata, &e.Metadata)
}

// printMade prints the new schedule and its next runs. The schedule exists even if Temporal does
// not return its state.
func (a scheduleCommands) printMade(ctx context.Context, t schedules, made signals.Schedule) error {
	view, err := t.Schedule(ctx, made.ID)
	if err != nil {
		view = signals.ScheduleView{Schedule: made, Next: []time.Time{}, Recent: []signals.ScheduleRun{}}
	}
	if showErr := a.show(view, nil, line("%s", made.ID), ""); showErr != nil || a.json {
		return showErr
	}
	switch {
	case err != nil:
		a.warn("its next run is not known: %v", err)
	case len(view.Next) == 0:
		a.warn("it has no further runs")
	case view.Paused:
		a.warn("it is paused")
	default:
		a.warn("it runs next at %s", view.Next[0].Local().Format(time.DateTime))
	}
	return nil
}
