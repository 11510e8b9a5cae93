package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// publishing has the flags of publish.
type publishing struct {
	id, typ, source string
	payload, file   string
	metadata        []string
	open            bool
}

func (a messageCommands) publishCommand() *cobra.Command {
	var p publishing
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "publish <thread>",
		Short: "Publish an environment event and print its id",
		Long: `Publish an environment event to a thread and print its id. Rules say what becomes of it:
without rules of your own, the thread's agent is told. It returns when the thread has
accepted or refused the event.`,
		Example: `  starter publish t1 --type file.changed --payload '{"path": "a.go"}'
  starter publish t1 --type github.push --payload-file push.json --metadata repo=threadmill --open`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkThread(args[0]); err != nil {
				return err
			}
			e, err := a.envEvent(p, args[0])
			if err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				result, err := t.Publish(ctx, args[0], e, threadclient.PublishOptions{Open: p.open})
				return a.showPosted(result, err, signals.PostResult{EventID: result.EventID, Status: result.Status}, "published")
			})
		},
	})
	f := cmd.Flags()
	f.StringVar(&p.typ, "type", "", "what has happened, such as file.changed (required)")
	f.StringVar(&p.payload, "payload", "", `what is known about it, as JSON; "-" is read from stdin (default: nothing)`)
	f.StringVar(&p.file, "payload-file", "", "file with the payload")
	f.StringVar(&p.id, "id", "", "id of the event, an idempotency key: duplicates are ignored (default: a new UUID)")
	f.StringVar(&p.source, "source", "", "where it comes from: tool, env, user, system or llm (default: env, or user for a user_query)")
	f.StringArrayVar(&p.metadata, "metadata", nil, "key=value of the event's metadata, such as trigger_agent_name=bot; the value is text (repeatable)")
	f.BoolVar(&p.open, "open", false, "open the thread if it does not exist; duplicates are not reported then")
	return cmd
}

// envEvent returns the event from flags, stdin and file, and checks it.
func (a messageCommands) envEvent(p publishing, thread string) (event.EnvEvent, error) {
	e := event.EnvEvent{ID: p.id, Type: p.typ}
	if e.ID == "" {
		e.ID = signals.NewEventID()
	}
	if p.typ == "" {
		return e, usagef("--type is required: what has happened, such as file.changed")
	}
	if err := metadata(p.metadata, &e.Metadata); err != nil {
		return e, err
	}
	e.Metadata.Source = cmp.Or(e.Metadata.Source, event.Source(p.source))
	payload, err := a.eventPayload(p)
	if err != nil {
		return e, err
	}
	switch {
	case payload == "":
	case len(payload) > signals.MaxPayload:
		return e, usagef("the payload is more than %d bytes; put large data elsewhere and refer to it", signals.MaxPayload)
	case !json.Valid([]byte(payload)):
		return e, usagef("the payload is not JSON (text needs quotes)")
	default:
		e.Payload = json.RawMessage(payload)
	}
	if err = e.Validate(); err == nil {
		err = signals.EnvPost(e).Validate(thread)
	}
	return e, usage(err)
}

func (a messageCommands) eventPayload(p publishing) (string, error) {
	if p.file == "" {
		return a.argument("payload", p.payload)
	}
	if p.payload != "" {
		return "", usagef("--payload and --payload-file exclude each other")
	}
	f, err := os.Open(p.file)
	if err != nil {
		return "", usageError{fmt.Errorf("reading the payload: %w", err)}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, signals.MaxPayload+1))
	if err != nil {
		return "", usageError{fmt.Errorf("reading the payload: %w", err)}
	}
	return strings.TrimSpace(string(raw)), nil
}

// showPosted prints the id of a posted event.
func (a *app) showPosted(v any, err error, posted signals.PostResult, done string) error {
	err = a.show(v, err, line("%s", posted.EventID), "")
	if err == nil && !a.json && posted.Status == signals.PostDuplicate {
		a.warn("the thread already has this event: nothing was %s", done)
	}
	return err
}
