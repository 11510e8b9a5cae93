package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
)

const (
	lostText = "connection lost, reconnecting…"
	backText = "connected again"

	closedText = "the thread is closed, and there is nothing more to show"
)

// errClosed ends a watch of a closed thread.
var errClosed = errors.New("the thread has been closed")

func (a threadCommands) watchCommand() *cobra.Command {
	var from, after, thoughts, view string
	var times bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "watch <thread>",
		Short: "Show what happens in a thread, until it is closed",
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "start" && from != "now" {
				return usagef("--from is %q, must be start or now", from)
			}
			if view != viewAgent && view != viewEnv {
				return usagef("--view is %q, must be agent or env", view)
			}
			if err := checkThread(args[0]); err != nil {
				return err
			}
			stream, err := a.api()
			if err != nil {
				return err
			}
			if _, err := a.renderer(thoughts); err != nil {
				return err
			}
			v := viewer{app: a.app, thread: args[0], env: view == viewEnv, thoughts: render.Thoughts(thoughts), times: times}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return about(args[0], v.watch(ctx, stream, api.WatchOptions{Now: from == "now", After: after}))
		},
	})
	cmd.Flags().StringVar(&from, "from", "start", "where to begin: start or now")
	cmd.Flags().StringVar(&after, "after", "", "begin after the event with this id, which --json prints; overrides --from")
	cmd.Flags().BoolVar(&times, "timestamps", false, "begin lines with the time of their event")
	cmd.Flags().StringVar(&view, "view", viewAgent, "what to show: agent (what people and agents say and do) or env (all of it as environment events)")
	cmd.Flags().StringVar(&thoughts, "thoughts", string(render.Show), "what to do with thoughts: show, collapse or hide")
	cmd.Flags().Lookup("json").Usage = "print the events as JSON, one a line: {\"id\": …, \"event\": …}; --after goes on behind an id"
	return cmd
}

// The views of a thread.
const (
	viewAgent = "agent"
	viewEnv   = "env"
)

// viewer writes the events of a thread.
type viewer struct {
	app      *app
	thread   string
	env      bool
	thoughts render.Thoughts
	times    bool
}

func (v viewer) watch(ctx context.Context, stream *api.Client, opts api.WatchOptions) error {
	r := render.New(render.Options{Thoughts: v.thoughts, Hints: true, ThreadID: v.thread, Times: v.times})
	opts.Env, opts.FailFast, opts.Missing = v.env, true, v.exists
	opts.Lost = func(error) { v.note(r, lostText) }
	opts.Back = func() { v.note(r, backText) }
	stop := v.app.mind(ctx, stream.Workers, func(problem string) { v.app.warn("%s", cmp.Or(problem, againText)) })
	defer stop()
	err := stream.Watch(ctx, v.thread, opts, func(item api.Item) error { return v.show(r, item) })
	if !v.app.json {
		v.app.print(r.Break())
	}
	if errors.Is(err, api.ErrClosed) { // without an event that says so
		v.note(r, closedText)
		return nil
	}
	if errors.Is(err, errClosed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// exists asks Temporal for a thread that the API does not know: a new thread has no records yet.
func (v viewer) exists(ctx context.Context) error {
	return v.app.withThreads(ctx, false, func(ctx context.Context, t threads) error {
		state, err := t.State(ctx, v.thread)
		if err == nil && state.Status == signals.ThreadClosed {
			return signals.ErrThreadClosed
		}
		return about(v.thread, err)
	})
}

func (v viewer) show(r *render.Renderer, item api.Item) error {
	var err error
	switch {
	case v.app.json:
		err = v.line(item)
	case v.env:
		err = v.app.stdout.Print(r.EnvEvent(item.Env))
	default:
		err = v.app.stdout.Print(r.Event(item.Event))
	}
	if err == nil && isClosing(item) {
		return errClosed
	}
	return err
}

// line writes an event as a line of JSON.
func (v viewer) line(item api.Item) error {
	raw, err := json.Marshal(struct {
		ID    string          `json:"id,omitempty"`
		Event json.RawMessage `json:"event"`
	}{item.ID, item.Raw})
	if err != nil {
		return fmt.Errorf("event %s: %w", item.ID, err)
	}
	_, err = fmt.Fprintln(v.app.stdout, term.Line(string(raw)))
	return err
}

// isClosing reports whether an event is the end of the thread, in either view.
func isClosing(item api.Item) bool {
	if item.Env.Type == event.TypeSessionDeleted && item.Env.Metadata.Source == event.SourceSystem {
		return true
	}
	s := item.Event.Status
	return item.Event.Type == event.EventStatus && s != nil && s.Status == event.StatusClosed
}

// note writes about the connection: into the transcript, or beside JSON.
func (v viewer) note(r *render.Renderer, text string) {
	if v.app.json {
		v.app.warn("%s", text)
		return
	}
	v.app.print(r.Warn(text))
}
