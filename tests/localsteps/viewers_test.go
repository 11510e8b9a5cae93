package localsteps

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream/nats"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// onNATS is a kind of worker: its live stream is that of the test.
func onNATS(w killing.Worker, c *threadmill.Config) (err error) {
	c.Stream, err = nats.Open(context.Background(), nats.Config{URL: w.Data["url"], Stream: w.Data["stream"], Prefix: w.Data["prefix"]})
	return err
}

// TestViewersOfSecondRun: viewers who have seen a part of a reply whose workflow task is lost discard it before they see the
// text of the second run.
func TestViewersOfSecondRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, reply string }{
		"in the first step": {"count 6", "cut.0.1"},
		"in the third step": {"use look {\"how\":\"far\"}\nthen\ncount 6", "cut.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			viewsSecondRun(t, c.content, c.reply)
		})
	}
}

// viewsSecondRun kills a worker in the middle of a reply to content.
func viewsSecondRun(t *testing.T, content, reply string) {
	shared := map[string]string{"url": testenv.NATS(t), "stream": testenv.Name("LOCAL"), "prefix": testenv.Name("local")}
	var k killed
	live, err := nats.Open(t.Context(), nats.Config{URL: shared["url"], Stream: shared["stream"], Prefix: shared["prefix"]})
	require.NoError(t, err)
	t.Cleanup(func() { _ = live.Close() })
	k = killed{killing.New(t, harness.Options{Stream: live}, "telling", "nats")}
	k.Worker.Data = shared
	k.Start()
	for range 5 {
		id := k.Open()
		check.Paced(k.Harness, id, func() { k.SayBySignal(id, strings.Replace(content, "count 6", "hello", 1)) })
		before := len(check.HistoryOf(k.Harness, id, ""))
		v := check.Watch(t, k.Harness, id, "")
		if reply != "cut.0.1" {
			k.Provider.Block(0).Release() // the first reply has the call
		}
		gate := k.Provider.Block(3)
		k.PostMessage(id, "cut", content)
		check.Arrives(t, gate.Reached(), "the middle of the reply")
		v.Until(t, func(f check.Frame) bool { return f.Event.MessageID == reply && f.Event.Content != "" })
		k.Kill()
		gate.Release()
		local := lostTask(k.Harness, id, before)
		k.Start()
		seen := v.Until(t, check.IsTurnEnded)
		if !local {
			continue // the machine was too busy
		}
		var text strings.Builder
		resets := 0
		for _, f := range seen {
			switch {
			case f.Event.Type == event.EventReset:
				resets++
				text.Reset()
			case f.Event.Type == event.EventStream && f.Event.MessageID == reply:
				text.WriteString(f.Event.Content)
			}
		}
		require.Equal(t, 1, resets)
		said := k.Messages(id)
		require.Equal(t, said[len(said)-1].Content, text.String(), "what is shown after the reset")
		return
	}
	require.Fail(t, "the machine was too busy to kill a worker during a local activity")
}
