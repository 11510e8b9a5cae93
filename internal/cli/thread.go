package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// opening has the flags for opening a thread.
type opening struct {
	agents   []string
	title    string
	metadata []string

	turnLimit int
}

func (o *opening) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.agents, "agent", nil, "agent that takes part in a new thread (repeatable; default: the server's first)")
	cmd.Flags().StringVar(&o.title, "title", "", "title of a new thread")
	cmd.Flags().StringArrayVar(&o.metadata, "metadata", nil, "key=value kept with a new thread (repeatable)")
	cmd.Flags().IntVar(&o.turnLimit, "turn-limit", 0, fmt.Sprintf("model calls an agent of a new thread may make until the next user message or environment event (default %d)", signals.DefaultTurnLimit))
}

func (o *opening) start() (signals.Start, error) {
	start := signals.Start{Agents: o.agents, Title: o.title, TurnLimit: o.turnLimit}
	if err := start.Validate(); err != nil {
		return start, usageError{err}
	}
	if len(o.metadata) == 0 {
		return start, nil
	}
	return start, metadata(o.metadata, &start.Metadata)
}

// opened is the result of open.
type opened struct {
	ThreadID string `json:"threadId"`
	EventID  string `json:"eventId,omitempty"`
}

// checkAgents rejects unknown agents, which Temporal cannot check. If the API does not respond,
// they are accepted.
func (a *app) checkAgents(ctx context.Context, flag string, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	stored, err := a.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	for i, name := range names {
		if err := signals.ValidateID(fmt.Sprintf("--%s[%d]", flag, i), name); err != nil {
			return usageError{err}
		}
		_, err := stored.Agent(ctx, name)
		var status *api.StatusError
		switch {
		case err == nil:
		case api.IsNotFound(err) && errors.As(err, &status):
			return usagef("--%s: %s%s", flag, status.Detail, didYouMean(nearNames(nearAgent(ctx, stored, name, err))))
		default:
			a.warn("could not check whether the agents exist: %s", a.explain(err))
			return nil
		}
	}
	return nil
}

// lifecycle is the part of a client of threads that these commands use.
type lifecycle interface {
	Open(ctx context.Context, threadID string, start signals.Start, first *signals.Post) error
	Update(ctx context.Context, threadID string, c signals.ThreadChange) (signals.State, error)
	Control(ctx context.Context, threadID string, c signals.Control) error
	State(ctx context.Context, threadID string) (signals.State, error)
	List(ctx context.Context, q threadclient.ListQuery) ([]threadclient.Summary, error)
}

// threadCommands are the commands on threads as a whole.
type threadCommands struct{ *app }

func (a threadCommands) openCommand() *cobra.Command {
	var o opening
	var message, as string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "open [id]",
		Short: "Open a thread and print its id",
		RunE: func(cmd *cobra.Command, args []string) error {
			out := opened{ThreadID: signals.NewID()}
			if len(args) == 1 {
				out.ThreadID = args[0]
			}
			if err := checkThread(out.ThreadID); err != nil {
				return err
			}
			start, err := o.start()
			if err != nil {
				return err
			}
			if err := a.checkAgents(cmd.Context(), "agent", o.agents...); err != nil {
				return err
			}
			var first *signals.Post
			if cmd.Flags().Changed("message") {
				post, err := newMessage(out.ThreadID, as, message)
				if err != nil {
					return err
				}
				first, out.EventID = &post, post.ID
			}
			return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
				err := about(out.ThreadID, t.Open(ctx, out.ThreadID, start, first))
				return a.show(out, err, line("%s", out.ThreadID), "")
			})
		},
	})
	o.register(cmd)
	cmd.Flags().StringVarP(&message, "message", "m", "", "first message")
	cmd.Flags().StringVar(&as, "as", "", "name of the sender (default $USER)")
	return cmd
}

// changeFlags are the flags of update that change something.
var changeFlags = []string{"title", "agent", "add-agent", "remove-agent", "turn-limit", "metadata"}

func (a threadCommands) updateCommand() *cobra.Command {
	var o opening
	var change signals.ThreadChange
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "update <thread>",
		Short: "Change a thread's title, agents, turn limit or metadata; omitted fields stay unchanged",
		RunE: func(cmd *cobra.Command, args []string) error {
			start, err := o.start()
			if err != nil {
				return err
			}
			change.Title, change.Agents, change.TurnLimit, change.Metadata = start.Title, start.Agents, start.TurnLimit, start.Metadata
			if flags := cmd.Flags(); !slices.ContainsFunc(changeFlags, flags.Changed) {
				return usagef("set at least one of --%s", strings.Join(changeFlags, ", --"))
			}
			if err := change.Validate(); err != nil {
				return usageError{err}
			}
			if err := a.checkAgents(cmd.Context(), "agent", o.agents...); err != nil {
				return err
			}
			if err := a.checkAgents(cmd.Context(), "add-agent", change.AddAgents...); err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				state, err := t.Update(ctx, args[0], change)
				return a.show(state, err, line("%s", args[0]), "")
			})
		},
	})
	cmd.Flags().StringArrayVar(&o.agents, "agent", nil, "agent that takes part from the next turn on (repeatable; replaces those that did)")
	cmd.Flags().StringArrayVar(&change.AddAgents, "add-agent", nil, "agent that joins those that take part (repeatable)")
	cmd.Flags().StringArrayVar(&change.RemoveAgents, "remove-agent", nil, "agent that leaves them (repeatable; the last one cannot)")
	cmd.Flags().IntVar(&o.turnLimit, "turn-limit", 0, "model calls an agent may make until the next user message or environment event")
	cmd.Flags().StringVar(&o.title, "title", "", "new title")
	cmd.Flags().StringArrayVar(&o.metadata, "metadata", nil, "key=value (repeatable; replaces all metadata)")
	byFlag(cmd, "as", &change.By, "who changes it", actor)
	return cmd
}

func (a threadCommands) interruptCommand() *cobra.Command {
	cmd := a.controlCommand("interrupt <thread> [eventId]", "Interrupt the turn in progress, or one event; what was said so far is kept", signals.ControlInterrupt)
	cmd.Long = cmd.Short + `.

Of the event that is named the turn ends, or it is taken out of the queue if it still
waits there. Without one, the turn in progress ends, whatever it is.`
	return cmd
}

func (a threadCommands) closeCommand() *cobra.Command {
	return a.controlCommand("close <thread>", "Close a thread for good; its records stay", signals.ControlClose)
}

func (a threadCommands) controlCommand(use, short string, action signals.ControlAction) *cobra.Command {
	control := signals.Control{Action: action}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				if err := signals.ValidateID("eventId", args[1]); err != nil {
					return usageError{err}
				}
				control.EventID = args[1]
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				return t.Control(ctx, args[0], control)
			})
		},
	}
	byFlag(cmd, "by", &control.By, "who does it", actor)
	cmd.Flags().StringVar(&control.Reason, "reason", "", "why")
	return cmd
}

// checkThread makes an invalid thread id a usage error.
func checkThread(id string) error {
	return usage(signals.ValidateID("thread", id))
}
