package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// schedules is the part of a [threadclient.Client] that these commands use.
type schedules interface {
	CreateSchedule(ctx context.Context, s signals.Schedule) (signals.Schedule, error)
	UpdateSchedule(ctx context.Context, s signals.Schedule) (signals.Schedule, error)
	Schedule(ctx context.Context, id string) (signals.ScheduleView, error)
	Schedules(ctx context.Context, limit int) ([]signals.ScheduleView, error)
	PauseSchedule(ctx context.Context, id, note string) error
	ResumeSchedule(ctx context.Context, id, note string) error
	TriggerSchedule(ctx context.Context, id string) error
	DeleteSchedule(ctx context.Context, id string) error
}

// scheduleCommands are the commands on schedules.
type scheduleCommands struct{ *app }

// scheduleCommand returns the commands on schedules.
func (a scheduleCommands) scheduleCommand() *cobra.Command {
	return group("schedule", "Post to threads on a schedule",
		`Post to threads on a schedule.

A schedule posts a message, or publishes an environment event, at the times of a cron
expression or an interval. It is a Temporal Schedule: it needs no process of its own, and
posts each time once.`,
		a.scheduleAddCommand(), a.scheduleListCommand(), a.scheduleShowCommand(),
		a.scheduleNoteCommand("pause", "Stop a schedule until it is resumed", "paused", schedules.PauseSchedule),
		a.scheduleNoteCommand("resume", "Resume a schedule; missed times are not made up for", "resumed", schedules.ResumeSchedule),
		a.scheduleDoCommand("trigger", "Start a run now, also of a schedule that is paused", "triggered", schedules.TriggerSchedule),
		a.scheduleDoCommand("delete", "Delete a schedule", "deleted", schedules.DeleteSchedule))
}

// onSchedule runs fn for a schedule with a valid id.
func (a scheduleCommands) onSchedule(cmd *cobra.Command, id string, fn func(ctx context.Context, t threads) error) error {
	if err := usage(signals.ValidateID("schedule", id)); err != nil {
		return err
	}
	return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
		return a.hinted(fn(ctx, t))
	})
}

// hinted adds a hint to an error.
func (a scheduleCommands) hinted(err error) error {
	var which *threadclient.ScheduleError
	switch {
	case !errors.As(err, &which):
		return err
	case errors.Is(err, signals.ErrScheduleExists):
		return fmt.Errorf(`%w: "starter schedule show %s" shows it, --replace replaces it`, err, which.ID)
	}
	return fmt.Errorf(`%w in namespace %q: "starter schedule list" shows those that there are`, err, a.flags.namespace)
}

func (a scheduleCommands) scheduleListCommand() *cobra.Command {
	var limit int
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the schedules",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > threadclient.MaxScheduleLimit {
				return usagef("--limit is %d, must be 1 to %d", limit, threadclient.MaxScheduleLimit)
			}
			return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
				all, err := t.Schedules(ctx, limit)
				return a.show(map[string]any{"schedules": all}, err, render.Schedules(all, render.TableOptions{}), "no schedules in namespace %q", a.flags.namespace)
			})
		},
	})
	cmd.Flags().IntVar(&limit, "limit", threadclient.DefaultScheduleLimit, "how many at most")
	return cmd
}

func (a scheduleCommands) scheduleShowCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "show <schedule>",
		Short: "Show a schedule with its next and last runs",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSchedule(cmd, args[0], func(ctx context.Context, t threads) error {
				view, err := t.Schedule(ctx, args[0])
				return a.show(view, err, render.Schedule(view, render.TableOptions{}), "")
			})
		},
	})
}

// scheduleDoCommand returns a command that changes a schedule and prints the result.
func (a scheduleCommands) scheduleDoCommand(name, short, done string, do func(t schedules, ctx context.Context, id string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " <schedule>",
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSchedule(cmd, args[0], func(ctx context.Context, t threads) error {
				return a.show(nil, do(t, ctx, args[0]), line("%s %s", args[0], done), "")
			})
		},
	}
}

// scheduleNoteCommand is a [scheduleCommands.scheduleDoCommand] with a note.
func (a scheduleCommands) scheduleNoteCommand(name, short, done string, do func(t schedules, ctx context.Context, id, note string) error) *cobra.Command {
	var note string
	cmd := a.scheduleDoCommand(name, short, done, func(t schedules, ctx context.Context, id string) error {
		return do(t, ctx, id, note)
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return usage(signals.ValidateNote(note))
	}
	cmd.Flags().StringVar(&note, "note", "", "why; it replaces the schedule's note (default: that stays)")
	return cmd
}
