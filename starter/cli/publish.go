package cli

import (
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
	open, json      bool
}

func (a messageCommands) publishCommand() *cobra.Command {
	var p publishing
	cmd := &cobra.Command{
		Use:   "publish <thread>",
		Short: "Publish an environment event and print its id",
		Long: `Publish an environment event to a thread and print its id. Rules say what becomes of it:
without rules of your own, the thread's agent is told. It returns when the thread has
accepted or refused the event.`,
		Example: `  starter publish t1 --type file.changed --payload '{"path": "a.go"}'
  starter publish t1 --type github.push --payload-file push.json --metadata repo=threadmill --open`,
		Args: cobra.ExactArgs(1),
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
				if err != nil {
					return err
				}
				return a.printPublished(result, p.json)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.typ, "type", "", "what has happened, such as file.changed (required)")
	f.StringVar(&p.payload, "payload", "", `what is known about it, as JSON; "-" is read from stdin (default: nothing)`)
	f.StringVar(&p.file, "payload-file", "", "file with the payload")
	f.StringVar(&p.id, "id", "", "id of the event, an idempotency key: duplicates are ignored (default: a new UUID)")
	f.StringVar(&p.source, "source", string(event.SourceEnv), "where it comes from: tool, env, user, system or llm")
	f.StringArrayVar(&p.metadata, "metadata", nil, "key=value of the event's metadata, such as trigger_agent_name=bot; the value is text (repeatable)")
	f.BoolVar(&p.open, "open", false, "open the thread if it does not exist; duplicates are not reported then")
	f.BoolVar(&p.json, "json", false, "print JSON")
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
	if err := p.describe(&e.Metadata); err != nil {
		return e, err
	}
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
	err = e.Validate()
	if err == nil {
		err = signals.EnvPost(e).Validate(thread)
	}
	if err != nil {
		return e, usageError{err}
	}
	return e, nil
}

// describe sets the metadata from the flags.
func (p publishing) describe(m *event.EnvMetadata) error {
	fields, err := pairs(p.metadata)
	if err != nil {
		return err
	}
	if fields["source"] == "" {
		fields["source"] = p.source
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, m)
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

func (a messageCommands) printPublished(result threadclient.PublishResult, asJSON bool) error {
	if asJSON {
		return a.printJSON(result)
	}
	a.say("%s", result.EventID)
	if result.Status == signals.PostDuplicate {
		a.warn("the thread already has this event: nothing was published")
	}
	return nil
}
