package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/starter/internal/render"
)

// queues is the part of a client of threads that these commands use.
type queues interface {
	Queue(ctx context.Context, threadID string) (signals.Queue, error)
	Item(ctx context.Context, threadID, eventID string) (event.Item, error)
	Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error)
	SetStatus(ctx context.Context, threadID string, s signals.SetStatus) (event.Item, error)
	Retry(ctx context.Context, threadID, eventID, by string) (event.Item, error)
}

// queueCommands are the commands on the queues of threads.
type queueCommands struct{ *app }

// queueCommand returns the commands on a thread's queue.
func (a queueCommands) queueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Look at the events of a thread's queue, add to them and change them",
		Long: `Look at the events of a thread's queue, add to them and change them.

A thread processes one event at a time: of those that wait the one of the highest
priority, and of equals the one that came first. An event is pending, processing,
completed, failed, expired (it waited longer than its ttl) or overwritten (a processor
has made other events of it). Failed events stay until they are retried or given
another status; of those that have ended the thread knows the last 32.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.queueListCommand(), a.queueShowCommand(), a.queueAddCommand(),
		a.queuePlaceCommand("current", "Show the event that is being processed", "nothing is being processed", current),
		a.queuePlaceCommand("next", "Show the event that is processed next", "nothing waits", next),
		a.queueSetStatusCommand(), a.retryCommand(),
	)
	return cmd
}

func (a queueCommands) queueListCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "list <thread>",
		Short: "List the events: the one being processed, those that wait, those that failed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				q, err := t.Queue(ctx, args[0])
				if err != nil {
					return err
				}
				if all || asJSON {
					if err := a.addPayloads(ctx, args[0], q.Ended); err != nil {
						return err
					}
				}
				if asJSON {
					return a.printJSON(q)
				}
				return a.printQueue(q, args[0], all)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "the last that have ended too (with --json, they are always there)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a queueCommands) printQueue(q signals.Queue, thread string, all bool) error {
	table := render.Queue(q, render.QueueOptions{Ended: all})
	if table == "" {
		a.warn("no events in the queue of thread %q", thread)
		return nil
	}
	_, err := fmt.Fprint(a.stdout, table)
	return err
}

func (a queueCommands) queueShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show <thread> <eventId>",
		Short: "Show an event with its payload and, if it failed, why",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				item, err := t.Item(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				one := []event.Item{item}
				if err := a.addPayloads(ctx, args[0], one); err != nil {
					return err
				}
				return a.printItem(one[0], asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// addPayloads adds the payloads of ended events, which only the API has. If the API does not
// respond, they are omitted.
func (a queueCommands) addPayloads(ctx context.Context, thread string, items []event.Item) error {
	ended := func(it event.Item) bool {
		return (len(it.Payload) == 0 || string(it.Payload) == "null") && it.Status != event.ItemPending && it.Status != event.ItemProcessing
	}
	if !slices.ContainsFunc(items, ended) {
		return nil
	}
	stored, err := a.api()
	if err != nil {
		return err
	}
	known, err := stored.Ended(ctx, thread)
	if err != nil {
		a.warn("the payloads of ended events are missing: %s", a.explain(err))
	}
	for i, it := range items {
		at := slices.IndexFunc(known, func(other event.Item) bool { return other.ID == it.ID })
		if at >= 0 && ended(it) {
			items[i].Payload, items[i].Metadata = known[at].Payload, known[at].Metadata
		}
	}
	return nil
}

func (a queueCommands) printItem(item event.Item, asJSON bool) error {
	if asJSON {
		return a.printJSON(item)
	}
	_, err := fmt.Fprint(a.stdout, render.Item(item, render.QueueOptions{}))
	return err
}

func current(q signals.Queue) *event.Item { return q.Processing }

func next(q signals.Queue) *event.Item {
	if len(q.Items) == 0 {
		return nil
	}
	return &q.Items[0]
}

// queuePlaceCommand shows the event at a place of the queue. With --json, an empty place is null.
func (a queueCommands) queuePlaceCommand(name, short, none string, place func(signals.Queue) *event.Item) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   name + " <thread>",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				q, err := t.Queue(ctx, args[0])
				if err != nil {
					return err
				}
				item := place(q)
				switch {
				case item != nil:
					return a.printItem(*item, asJSON)
				case asJSON:
					return a.printJSON(nil)
				}
				a.warn("%s in thread %q", none, args[0])
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; null if there is none")
	return cmd
}
