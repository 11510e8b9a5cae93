package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals"
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
	return group("queue", "Look at the events of a thread's queue, add to them and change them",
		`Look at the events of a thread's queue, add to them and change them.

A thread processes one event at a time: of those that wait the one of the highest
priority, and of equals the one that came first. An event is pending, processing,
completed, failed, expired (it waited longer than its ttl) or overwritten (a processor
has made other events of it). Failed events stay until they are retried or given
another status; of those that have ended the thread knows the last 32.`,
		a.queueListCommand(), a.queueShowCommand(), a.queueAddCommand(),
		a.queuePlaceCommand("current", "Show the event that is being processed", "nothing is being processed", current),
		a.queuePlaceCommand("next", "Show the event that is processed next", "nothing waits", next),
		a.queueSetStatusCommand(), a.retryCommand())
}

func (a queueCommands) queueListCommand() *cobra.Command {
	var all bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list <thread>",
		Short: "List the events: the one being processed, those that wait, those that failed",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				q, err := t.Queue(ctx, args[0])
				if err == nil && (all || a.json) {
					err = a.addPayloads(ctx, args[0], q.Ended)
				}
				return a.show(q, err, render.Queue(q, render.TableOptions{Ended: all}), "no events in the queue of thread %q", args[0])
			})
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "the last that have ended too (with --json, they are always there)")
	return cmd
}

func (a queueCommands) queueShowCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "show <thread> <eventId>",
		Short: "Show an event with its payload and, if it failed, why",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				item, err := t.Item(ctx, args[0], args[1])
				one := []event.Item{item}
				if err == nil {
					err = a.addPayloads(ctx, args[0], one)
				}
				return a.show(one[0], err, render.Item(one[0], render.TableOptions{}), "")
			})
		},
	})
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

func current(q signals.Queue) *event.Item { return q.Processing }

func next(q signals.Queue) *event.Item {
	if len(q.Items) == 0 {
		return nil
	}
	return &q.Items[0]
}

// queuePlaceCommand shows the event at a place of the queue. With --json, an empty place is null.
func (a queueCommands) queuePlaceCommand(name, short, none string, place func(signals.Queue) *event.Item) *cobra.Command {
	cmd := a.jsonFlag(&cobra.Command{
		Use:   name + " <thread>",
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				q, err := t.Queue(ctx, args[0])
				item, text := place(q), ""
				if item != nil {
					text = render.Item(*item, render.TableOptions{})
				}
				return a.show(item, err, text, "%s in thread %q", none, args[0])
			})
		},
	})
	cmd.Flags().Lookup("json").Usage = "print JSON; null if there is none"
	return cmd
}
