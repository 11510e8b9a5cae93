package examples_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// The code of docs/running-from-go.md.

func ask(ctx context.Context, runtime *threadmill.Runtime, question string) (string, error) {
	turn, err := runtime.Send(ctx, event.NewMessage{SenderID: "ann", Content: question}, threadmill.SendOptions{})
	if err != nil {
		return "", err
	}
	result, err := turn.Wait(ctx)
	if err != nil {
		return "", err
	}
	if result.Message == nil {
		return "", fmt.Errorf("no reply: the turn was %s", result.Status)
	}
	return result.Message.Content, nil
}

func show(ctx context.Context, runtime *threadmill.Runtime, thread, question string, out io.Writer) error {
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: thread, SenderID: "ann", Content: question},
		threadmill.SendOptions{Stream: true})
	if err != nil {
		return err
	}
	for e, err := range turn.Events() {
		if err != nil {
			return err
		}
		switch e.Type {
		case event.EventStream:
			fmt.Fprint(out, e.Content)
		case event.EventToolCall:
			fmt.Fprintf(out, "[%s %s]\n", e.ToolName, e.ToolArgs)
		case event.EventReset:
			fmt.Fprintln(out, "(once more)")
		default:
		}
	}
	_, err = turn.Wait(ctx)
	return err
}

func within(ctx context.Context, runtime *threadmill.Runtime, thread, question string, limit time.Duration) (signals.TurnStatus, error) {
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: thread, Content: question}, threadmill.SendOptions{})
	if err != nil {
		return "", err
	}
	patient, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := turn.Wait(patient)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		if err := turn.Interrupt(ctx); err != nil {
			return "", err
		}
		result, err = turn.Wait(ctx)
	}
	return result.Status, err
}

var hideCards = threadmill.Callbacks{
	OnContent: func(_ context.Context, c threadmill.ContentStream) *threadmill.ContentStream {
		c.Content = cardNumber.ReplaceAllString(c.Content, "(card)")
		return &c
	},
}

var cardNumber = regexp.MustCompile(`\b\d{16}\b`)

func TestRunningFromGo(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { c.Callbacks = hideCards }})
	t.Run("the document has the code of this file", func(t *testing.T) {
		document, err := os.ReadFile("../../docs/running-from-go.md")
		require.NoError(t, err)
		code, err := os.ReadFile("running_from_go_test.go")
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(document), -1)
		require.Len(t, blocks, 4)
		for _, block := range blocks {
			require.Contains(t, string(code), block[1])
		}
	})
	t.Run("ask", func(t *testing.T) {
		answer, err := ask(w.Ctx(), w.Runtime, "hello")
		require.NoError(t, err)
		require.Contains(t, answer, "hello")
	})
	thread := w.Open()
	t.Run("show", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, show(w.Ctx(), w.Runtime, thread, "use note {\"text\":\"x\"}\nthen\n4711471147114711 is mine", &out))
		require.True(t, strings.HasPrefix(out.String(), "[note {\"text\":\"x\"}]\n"), out.String())
		require.Contains(t, out.String(), "(card) is mine")
	})
	t.Run("within", func(t *testing.T) {
		gate := w.Provider.Block(0)
		defer gate.Release()
		status, err := within(w.Ctx(), w.Runtime, thread, "hello", 100*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, signals.TurnInterrupted, status)
	})
}
