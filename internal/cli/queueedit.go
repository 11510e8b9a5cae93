package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// adding has the flags of queue add.
type adding struct {
	posting
	agents        []string
	trace, parent string
}

func (a queueCommands) queueAddCommand() *cobra.Command {
	var q adding
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "add <thread> <type> [payload]",
		Short: "Add an event of any type and print its id",
		Long: `Add an event of any type to a thread's queue and print its id. It returns when the thread
has accepted or refused the event.

The type is "message" or one of your own. The payload is any JSON, "-" is read from
stdin; that of a message has senderId, senderType (user, agent, tool or system) and
content.`,
		Example: `  starter queue add t1 deploy.finished '{"env": "prod"}' --priority 5 --ttl 10m
  starter queue add t1 message '{"senderId": "ci", "senderType": "system", "content": "built"}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkThread(args[0]); err != nil {
				return err
			}
			post, err := a.event(q, args)
			if err != nil {
				return err
			}
			if err := a.checkAgents(cmd.Context(), "agent", q.agents...); err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				result, err := t.Post(ctx, args[0], post)
				return a.showPosted(result, err, result, "added")
			})
		},
	})
	q.addFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&q.agents, "agent", nil, "agent that answers a message, whatever it mentions (repeatable; default: as the thread routes it)")
	cmd.Flags().StringVar(&q.trace, "trace", "", "trace id, shared by all that follows from one event (default: the event's id)")
	cmd.Flags().StringVar(&q.parent, "parent", "", "id of the event that caused this one (default: none)")
	return cmd
}

// event returns the post of an event from flags, arguments and stdin.
func (a queueCommands) event(q adding, args []string) (signals.Post, error) {
	post := signals.Post{Type: args[1], TraceID: q.trace, ParentEventID: q.parent}
	if post.Type == "" {
		return post, usagef(`the type is empty, must be "message" or one of your own`)
	}
	var err error
	if len(args) > 2 {
		if post.Payload, err = a.jsonArgument("payload", args[2]); err != nil {
			return post, err
		}
	}
	err = q.apply(args[0], q.agents, &post)
	return post, err
}

// settable are the statuses that a person can set.
var settable = []event.ItemStatus{event.ItemPending, event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten}

func (a queueCommands) queueSetStatusCommand() *cobra.Command {
	var change signals.SetStatus
	var priority int
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "set-status <thread> <eventId> <status>",
		Short: "Give an event another status by hand",
		Long: `Give an event another status by hand: pending, completed, failed, expired or overwritten.

An event that waits and is given another status than pending is never processed; the turn
of the one that is being processed is interrupted. pending processes a failed event
again, and the one that is being processed once more; with --priority, it moves one that
waits, and with --content, it gives a message that waits another text. Only the sender of
a message can do that, so --by has to be the sender.`,
		Example: `  starter queue set-status t1 e1 pending --priority 5
  starter queue set-status t1 e1 pending --content "deploy to staging instead" --by ann`,
		RunE: func(cmd *cobra.Command, args []string) error {
			change.EventID, change.Status = args[1], event.ItemStatus(args[2])
			if cmd.Flags().Changed("priority") {
				change.Priority = &priority
			}
			if !slices.Contains(settable, change.Status) {
				return usagef("the status is %q, must be pending, completed, failed, expired or overwritten", args[2])
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				item, err := t.SetStatus(ctx, args[0], change)
				return a.show(item, err, line("%s %s", item.ID, item.Status), "")
			})
		},
	})
	byFlag(cmd, "by", &change.By, "who does it", actor)
	cmd.Flags().StringVar(&change.Reason, "reason", "", "why")
	cmd.Flags().StringVar(&change.Content, "content", "", "with pending: the new text of a message that waits (default: unchanged)")
	cmd.Flags().IntVar(&priority, "priority", 0, "with pending: the new priority of an event that waits or failed; higher first (default: unchanged)")
	return cmd
}

// retryCommand is a command of its own and a command of queue.
func (a queueCommands) retryCommand() *cobra.Command {
	var by string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "retry <thread> [eventId]",
		Short: "Retry a failed event, the one that failed last if none is named",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				item, err := t.Retry(ctx, args[0], strings.Join(args[1:], ""), by)
				return a.show(item, err, line("%s %s", item.ID, item.Status), "")
			})
		},
	})
	byFlag(cmd, "by", &by, "who does it", actor)
	return cmd
}
