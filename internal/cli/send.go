package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// newMessage returns the post of a person's message and checks it, since a rejected signal gets no
// response.
func newMessage(thread, as, text string) (signals.Post, error) {
	who, err := actor(as)
	if err != nil {
		return signals.Post{}, err
	}
	m := event.NewMessage{ThreadID: thread, SenderID: who, SenderType: event.CreatedByUser, Content: text}
	if err := m.Validate(); err != nil {
		return signals.Post{}, usageError{fmt.Errorf("message: %w", err)}
	}
	post := signals.NewPost(signals.NewID(), m)
	if len(post.Payload) > signals.MaxPayload {
		return signals.Post{}, usagef("message: it is %d bytes long, must be at most %d", len(post.Payload), signals.MaxPayload)
	}
	return post, nil
}

// sending has the flags of send.
type sending struct {
	opening
	posting
	as           string
	wait, create bool
}

// poster is the part of a client of threads that these commands use.
type poster interface {
	Post(ctx context.Context, threadID string, p signals.Post) (signals.PostResult, error)
	PostOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) (signals.PostResult, error)
	Turn(ctx context.Context, threadID string, p signals.Post) (signals.TurnResult, error)
	Publish(ctx context.Context, threadID string, e event.EnvEvent, o threadclient.PublishOptions) (threadclient.PublishResult, error)
}

// messageCommands are the commands that post to threads.
type messageCommands struct{ *app }

func (a messageCommands) sendCommand() *cobra.Command {
	var s sending
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "send <thread> <text>",
		Short: "Send a message; with --wait, print the reply",
		Long: `Send a message and print the id of its event. The text "-" is read from stdin.

The message is durable once the command returns: its thread has accepted it, or, if no
worker runs at the moment, Temporal keeps it until one does. With --wait the command
returns when the turn has ended, and prints the reply instead, or all replies with the
names of those who said them.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkThread(args[0]); err != nil {
				return err
			}
			post, err := a.post(s, args[0], args[1])
			if err != nil {
				return err
			}
			start, err := s.start()
			if err != nil {
				return err
			}
			if err := a.checkAgents(cmd.Context(), "agent", s.agents...); err != nil {
				return err
			}
			return a.withThreads(cmd.Context(), s.wait, func(ctx context.Context, t threads) error {
				return about(args[0], a.send(ctx, t, s, args[0], start, post))
			})
		},
	})
	s.register(cmd)
	cmd.Flags().Lookup("agent").Usage = "agent that answers the message, whatever it mentions, and that a new thread gets (repeatable; default: as the thread routes it)"
	s.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&s.wait, "wait", false, "wait for the end of the turn and print the reply")
	cmd.Flags().StringVar(&s.as, "as", "", "name of the sender (default $USER)")
	cmd.Flags().BoolVar(&s.create, "create", false, "open the thread if it does not exist")
	return cmd
}

// post returns the message's post from flags, argument and stdin.
func (a messageCommands) post(s sending, thread, text string) (signals.Post, error) {
	text, err := a.argument("message", text)
	if err != nil {
		return signals.Post{}, err
	}
	post, err := newMessage(thread, s.as, text)
	if err != nil {
		return post, err
	}
	err = s.apply(thread, s.agents, &post)
	return post, err
}

func (a messageCommands) send(ctx context.Context, t threads, s sending, thread string, start signals.Start, post signals.Post) error {
	if s.wait {
		if s.create {
			if _, err := t.PostOrOpen(ctx, thread, start, post); err != nil {
				return err
			}
		}
		return a.await(ctx, t, s, thread, post)
	}
	if s.id == "" {
		post.ID = "" // the client gives it a new one, of which it need not ask the thread
	}
	var sent signals.PostResult
	var err error
	if s.create {
		sent, err = t.PostOrOpen(ctx, thread, start, post)
	} else {
		sent, err = t.Post(ctx, thread, post)
	}
	return a.show(map[string]string{"threadId": thread, "eventId": sent.EventID}, err, line("%s", sent.EventID), "")
}

// await waits for the end of the turn, even across a restart of the servers: repeated requests do
// not process the event again.
func (a messageCommands) await(ctx context.Context, t threads, s sending, thread string, post signals.Post) error {
	var result signals.TurnResult
	stop := a.mindThread(ctx, t, thread, func(problem string) { a.warn("%s", cmp.Or(problem, againText)) })
	defer stop()
	err := persist(ctx, func(ctx context.Context) (err error) {
		result, err = t.Turn(ctx, thread, post)
		return err
	}, func(err error) {
		a.fail(a.explain(a.diagnosed(ctx, t, about(thread, err))) + "; waiting…")
	})
	err = a.show(result, err, repliesText(result.AllReplies()), "")
	if err == nil && result.Status != signals.TurnCompleted { // a turn without a completed reply is a failure
		err = errors.New(turnText(result))
	}
	return err
}

// repliesText returns the replies, with the agents' names if there are several.
func repliesText(replies []event.Message) string {
	var out strings.Builder
	for _, m := range replies {
		text := m.Content
		if len(replies) > 1 {
			text = term.Line(m.SenderID) + " › " + text
		}
		if m.Truncated {
			text += " … [shortened; `starter show` shows all of it]"
		}
		if text != "" {
			fmt.Fprintln(&out, text)
		}
	}
	return out.String()
}

// turnText describes the end of a turn that did not complete normally.
func turnText(result signals.TurnResult) string {
	switch result.Status {
	case signals.TurnFailed:
		return "the turn failed: " + result.Error
	case signals.TurnInterrupted:
		return "the turn was interrupted"
	case signals.TurnExpired:
		return "the message expired before its turn came"
	case signals.TurnUnanswered:
		return "no agent answers: the message mentions no agent of the thread"
	case signals.TurnUnhandled:
		return "nothing handles events of this type: no hook or processor matches it"
	case signals.TurnHeld:
		return "a rule holds the event back for a while"
	case signals.TurnCompleted, signals.TurnContinues:
	}
	return fmt.Sprintf("the turn ended as %q", result.Status)
}
