package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/starter/internal/render"
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
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Look at the background tasks of a thread, complete them and cancel them",
		Long: `Look at the background tasks of a thread, complete them and cancel them.

A background task is work that an agent has started and does not wait for: it is running,
completed, failed or cancelled. Its id is the id of its thread, ~t and a number. A thread
knows those that run, and the last that have ended.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.taskListCommand(), a.taskShowCommand(), a.taskCompleteCommand(), a.taskCancelCommand())
	return cmd
}

func (a taskCommands) taskListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list <thread>",
		Short: "List the tasks that run, and the last that have ended",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				all, err := t.Tasks(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(all)
				}
				return a.printTasks(all, args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a taskCommands) printTasks(all signals.Tasks, thread string) error {
	table := render.Tasks(all.Tasks, render.TaskOptions{})
	if table == "" {
		a.warn("no background tasks in thread %q", thread)
		return nil
	}
	_, err := fmt.Fprint(a.stdout, table)
	return err
}

func (a taskCommands) taskShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show <task>",
		Short: "Show a task and, if it failed, why",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onTask(cmd, args[0], func(ctx context.Context, t threads) error {
				task, err := t.Task(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(task)
				}
				_, err = fmt.Fprint(a.stdout, render.Task(task, render.TaskOptions{}))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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
	var result, problem, by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "complete <task>",
		Short: "Complete a task with a result, or let it fail; the agent that started it is told",
		Long: `Complete a task with a result, or let it fail with an error. The agent that started it is
told. A task ends once: completing it again in the same way changes nothing.

The result is any JSON; "-" is read from stdin.`,
		Example: `  starter task complete t1~t1 --result '{"url": "https://example.com/build/7"}'
  starter task complete t1~t2 --error "the disk is full" --by ci`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("result") == (problem != "") {
				return usagef("say how the task has ended, by either --result or --error")
			}
			c := signals.CompleteTask{TaskID: args[0], Error: problem}
			var err error
			if c.By, err = actor(by); err != nil {
				return err
			}
			if problem == "" {
				text, err := a.argument("result", result)
				if err != nil {
					return err
				}
				if c.Result = json.RawMessage(text); !json.Valid(c.Result) && len(text) <= signals.MaxPayload {
					return usagef("the result is not JSON (text needs quotes)")
				}
			}
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			return a.onTask(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.CompleteTask(ctx, c)
				if err != nil {
					return err
				}
				return a.printEnded(args[0], got, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&result, "result", "", "what has come of the task, as JSON")
	cmd.Flags().StringVar(&problem, "error", "", "why the task has failed")
	cmd.Flags().StringVar(&by, "by", "", "who or what completes it (default $USER)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a taskCommands) taskCancelCommand() *cobra.Command {
	var by, reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel <task>",
		Short: "Cancel a task",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := signals.CancelTask{TaskID: args[0], Reason: reason}
			var err error
			if c.By, err = actor(by); err != nil {
				return err
			}
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			return a.onTask(cmd, args[0], func(ctx context.Context, t threads) error {
				got, err := t.CancelTask(ctx, c)
				if err != nil {
					return err
				}
				return a.printEnded(args[0], got, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who cancels it (default $USER)")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a taskCommands) printEnded(id string, got signals.CompleteTaskResult, asJSON bool) error {
	problem := endProblem(id, got)
	if asJSON {
		if err := a.printJSON(got); err != nil {
			return err
		}
	} else if problem == "" {
		a.say("%s", got.Result)
	}
	if problem != "" {
		return errors.New(problem)
	}
	return nil
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
