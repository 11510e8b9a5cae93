package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals"
)

// tasks is the part of a client of threads that these commands use.
type tasks interface {
	Tasks(ctx context.Context, threadID string) (signals.Tasks, error)
	Task(ctx context.Context, taskID string) (event.Task, error)
	CompleteTask(ctx context.Context, c signals.CompleteTask) (signals.CompleteTaskResult, error)
	CancelTask(ctx context.Context, c signals.CancelTask) (signals.CompleteTaskResult, error)
}

// taskCommands are the commands on background tasks.
type taskCommands struct{ *app }

// taskCommand returns the commands on background tasks.
func (a taskCommands) taskCommand() *cobra.Command {
	return group("task", "Look at the background tasks of a thread, complete them and cancel them",
		`Look at the background tasks of a thread, complete them and cancel them.

A background task is work that an agent has started and does not wait for: it is running,
completed, failed or cancelled. Its id is the id of its thread, ~t and a number. A thread
knows those that run, and the last that have ended.`,
		a.taskListCommand(), a.taskShowCommand(), a.taskCompleteCommand(), a.taskCancelCommand())
}

func (a taskCommands) taskListCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list <thread>",
		Short: "List the tasks that run, and the last that have ended",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				all, err := t.Tasks(ctx, args[0])
				return a.show(all, err, render.Tasks(all.Tasks, render.TableOptions{}), "no background tasks in thread %q", args[0])
			})
		},
	})
}

func (a taskCommands) taskShowCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "show <task>",
		Short: "Show a task and, if it failed, why",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onTask(cmd, args[0], func(ctx context.Context, t threads) error {
				task, err := t.Task(ctx, args[0])
				return a.show(task, err, render.Task(task, render.TableOptions{}), "")
			})
		},
	})
}

// onTask runs fn for a task with a valid id. Errors name the task's thread.
func (a taskCommands) onTask(cmd *cobra.Command, id string, fn func(ctx context.Context, t threads) error) error {
	thread, _, err := signals.ParseTaskID(id)
	if err != nil {
		return usageError{err}
	}
	return a.onThread(cmd, thread, fn)
}

func (a taskCommands) taskCompleteCommand() *cobra.Command {
	var c signals.CompleteTask
	var result string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "complete <task>",
		Short: "Complete a task with a result, or let it fail; the agent that started it is told",
		Long: `Complete a task with a result, or let it fail with an error. The agent that started it is
told. A task ends once: completing it again in the same way changes nothing.

The result is any JSON; "-" is read from stdin.`,
		Example: `  starter task complete t1~t1 --result '{"url": "https://example.com/build/7"}'
  starter task complete t1~t2 --error "the disk is full" --by ci`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.Flags().Changed("result") == (c.Error != "") {
				return usagef("say how the task has ended, by either --result or --error")
			}
			if c.TaskID = args[0]; c.Error == "" {
				if c.Result, err = a.jsonArgument("result", result); err != nil {
					return err
				}
			}
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			return a.onTask(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.CompleteTask(ctx, c)
				return a.showOutcome(got, err, string(got.Result), endProblem(args[0], got))
			})
		},
	})
	cmd.Flags().StringVar(&result, "result", "", "what has come of the task, as JSON")
	cmd.Flags().StringVar(&c.Error, "error", "", "why the task has failed")
	byFlag(cmd, "by", &c.By, "who or what completes it", actor)
	return cmd
}

func (a taskCommands) taskCancelCommand() *cobra.Command {
	var c signals.CancelTask
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "cancel <task>",
		Short: "Cancel a task",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.TaskID = args[0]
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			return a.onTask(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.CancelTask(ctx, c)
				return a.showOutcome(got, err, string(got.Result), endProblem(args[0], got))
			})
		},
	})
	byFlag(cmd, "by", &c.By, "who cancels it", actor)
	cmd.Flags().StringVar(&c.Reason, "reason", "", "why")
	return cmd
}

// endProblem returns the reason why a task did not end as requested; empty if it did.
func endProblem(id string, got signals.CompleteTaskResult) string {
	switch got.Result {
	case signals.TaskAccepted, signals.TaskAlreadyEnded:
		return ""
	case signals.TaskConflict:
		return fmt.Sprintf(`task %q already ended differently: it is %s; "starter task show %s" says more`, id, got.Task.State, id)
	case signals.TaskNotFound:
		return fmt.Sprintf("the thread of task %q does not know it, or not any more", id)
	}
	return fmt.Sprintf("the thread answers %q", got.Result)
}
