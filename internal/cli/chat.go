package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/console"
	"github.com/threadmill/threadmill/signals"
)

const (
	// tail is the number of messages to show when a person returns to a chat.
	tail = 10

	settleTime = 5 * time.Second
)

// chatting has the flags of chat.
type chatting struct {
	opening
	as, thoughts string
	create       bool

	// again is the command that returns to the chat.
	again string
}

type chatCommands struct{ *app }

func (a chatCommands) chatCommand() *cobra.Command {
	var c chatting
	cmd := &cobra.Command{
		Use:   "chat [thread]",
		Short: "Talk to a thread's agents; without a thread, to a new one",
		Long: `Talk to a thread's agents: tokens as they come, tool calls as they run, approvals
asked at the prompt. Without a thread id a new thread is opened. /help lists the
commands. Ctrl-C interrupts the turn that runs; at rest, or twice, it leaves.

On a terminal you can write while the agents do: Alt-Enter begins another line, the arrow
keys recall what you wrote, Tab completes @names and commands. What you send during a turn
is queued behind it; /steer sends it into the turn.

Works over pipes too: then each message waits until the turn before it has ended, and
the program leaves when its input and the last turn have ended.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, isNew := signals.NewID(), true
			if len(args) == 1 {
				id, isNew = args[0], false
			}
			if err := checkThread(id); err != nil {
				return err
			}
			c.again = chatAgain(cmd, id)
			return about(id, a.chat(cmd.Context(), c, id, isNew))
		},
	}
	c.register(cmd)
	cmd.Flags().StringVar(&c.as, "as", "", "your name (default $USER)")
	cmd.Flags().StringVar(&c.thoughts, "thoughts", "show", "what to do with thoughts: show, collapse or hide")
	cmd.Flags().BoolVar(&c.create, "create", false, "open the thread if it does not exist")
	return cmd
}

// chatAgain returns the command that returns to a chat, with the flags that apply beyond opening
// it.
func chatAgain(cmd *cobra.Command, id string) string {
	text := cmd.CommandPath() + " " + id
	var o chatting
	opens := &cobra.Command{}
	o.register(opens)
	opens.Flags().BoolVar(&o.create, "create", false, "")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if opens.Flags().Lookup(f.Name) == nil {
			text += " --" + f.Name + " " + shellWord(f.Value.String())
		}
	})
	return text
}

func (a chatCommands) chat(ctx context.Context, c chatting, id string, isNew bool) error {
	s, start, err := a.newSession(c, id)
	if err != nil {
		return err
	}
	if err := a.checkAgents(ctx, "agent", c.agents...); err != nil {
		return err
	}
	t, hangUp, err := a.dial(ctx, a.flags)
	if err != nil {
		return err
	}
	defer hangUp()
	s.threads = t
	if a.screen != nil {
		s.console = console.Start(console.Options{In: a.keys, Out: a.screen, Color: a.color, Commands: commandNames()})
		s.lines = s.console.Lines()
		defer s.console.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.interruptibly(ctx, func(ctx context.Context) error { return s.enter(ctx, start, isNew, c.create) }); err != nil {
		return a.diagnosed(ctx, t, about(id, err))
	}
	interrupts, stop := a.interrupts()
	defer stop()
	go s.follow(ctx)
	if s.console == nil {
		lines := make(chan string)
		s.lines = lines
		go readLines(ctx, a.stdin, lines)
	}
	return s.loop(ctx, interrupts)
}

func (a chatCommands) newSession(c chatting, id string) (*session, signals.Start, error) {
	start, err := c.start()
	if err != nil {
		return nil, start, err
	}
	me, err := actor(c.as)
	if err != nil {
		return nil, start, err
	}
	r, err := a.renderer(c.thoughts)
	if err != nil {
		return nil, start, err
	}
	stream, err := a.api()
	if err != nil {
		return nil, start, err
	}
	return &session{
		app: a.app, stream: stream, thread: id, again: c.again, me: me, settle: a.settle,
		screen: screen{out: a.stdout, view: r}, questions: questions{sent: map[string]bool{}}, title: start.Title, names: start.Agents,
		items: make(chan event.AgentEvent), done: make(chan func()),
		own: map[string]int{}, lost: map[string]bool{}, swallow: map[string]int{}, unanswered: map[string]bool{},
	}, start, nil
}

// interruptibly calls do, whose context ends with Ctrl-C.
func (s *session) interruptibly(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.console != nil { // on which Ctrl-C is a key, not a signal
		go func() {
			select {
			case <-s.console.Interrupts():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return do(ctx)
}

// enter opens the thread, or shows its current state.
func (s *session) enter(ctx context.Context, start signals.Start, isNew, create bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.app.flags.timeout)
	defer cancel()
	if create && !isNew {
		err := s.threads.Open(ctx, s.thread, start, nil)
		if isNew = err == nil; err != nil && !errors.Is(err, signals.ErrThreadExists) {
			return err
		}
	} else if isNew {
		if err := s.threads.Open(ctx, s.thread, start, nil); err != nil {
			return err
		}
	}
	if isNew {
		s.print(s.view.Note(fmt.Sprintf("thread %s · /help lists the commands", s.thread)))
		return nil
	}
	return s.resume(ctx)
}

// resume shows the last messages of a thread, its status, and its pending requests.
func (s *session) resume(ctx context.Context) error {
	state, err := s.threads.State(ctx, s.thread)
	if err != nil {
		return err
	}
	if state.Status == signals.ThreadClosed {
		return signals.ErrThreadClosed
	}
	s.print(s.view.Note(stateLines(state)[0] + " · /help lists the commands"))
	s.title, s.names = state.Title, state.Agents
	if state.Turn != nil {
		s.begin()
	}
	messages, err := s.stream.Messages(ctx, s.thread)
	if err != nil && !api.IsNotFound(err) {
		s.print(s.view.Warn("earlier messages are not available yet: " + s.app.explain(err)))
	}
	s.showTail(messages)
	if state.Approvals == 0 && state.Turn == nil {
		return nil
	}
	waiting, err := s.threads.Approvals(ctx, s.thread)
	if err != nil {
		return err
	}
	s.showWaiting(waiting)
	return nil
}

func (s *session) showTail(messages []event.StoredMessage) {
	if len(messages) == 0 {
		return
	}
	s.after = strconv.FormatInt(messages[len(messages)-1].Seq, 10)
	if earlier := len(messages) - tail; earlier > 0 {
		s.print(s.view.Note(fmt.Sprintf("… %d earlier messages", earlier)))
		for _, m := range messages[:earlier] {
			s.view.MarkSeen(m.Message)
		}
		messages = messages[earlier:]
	}
	for _, m := range messages {
		if m.SenderID == s.me && m.SenderType == event.CreatedByUser && s.console != nil {
			s.console.Remember([]string{m.Content})
		}
		s.print(s.view.Event(event.AgentEvent{Type: event.EventMessage, Message: &m.Message}))
	}
}

// follow passes the thread's live events to the loop.
func (s *session) follow(ctx context.Context) {
	opts := api.WatchOptions{
		After: s.after,
		// Temporal knows the thread; the API knows it after its first record.
		Missing: func(context.Context) error { return nil },
		Lost:    func(error) { s.hand(ctx, func() { s.setLost("api", true) }) },
		Back:    func() { s.hand(ctx, func() { s.setLost("api", false) }) },
	}
	err := s.stream.Watch(ctx, s.thread, opts, func(item api.Item) error {
		select {
		case s.items <- item.Event:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, api.ErrClosed): // the event that says so was shown before
		s.hand(ctx, func() {
			s.closed = true
			s.print(s.view.Warn(closedText))
		})
	default:
		s.hand(ctx, func() {
			s.noStream = true
			s.print(s.view.Fail("no live output: " + s.app.explain(err)))
		})
	}
}

// readLines passes the input to the loop, line by line, and closes lines at its end. A read cannot
// be cancelled, so it ends with the program.
func readLines(ctx context.Context, in io.Reader, lines chan<- string) {
	defer close(lines)
	reader := bufio.NewReader(in)
	for {
		line, err := reader.ReadString('\n')
		if err == nil || line != "" {
			select {
			case lines <- strings.TrimRight(line, "\r\n"):
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
