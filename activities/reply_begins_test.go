package activities_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/stream"
)

// losing is a stream that loses the piece with this text, and reports the loss.
type losing struct {
	stream.Stream
	text string
	lost bool
}

func (s *losing) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	if e.Event != nil && e.Event.Content == s.text && !s.lost {
		s.lost = true
		return stream.ErrLost
	}
	return s.Stream.Publish(ctx, key, e)
}

// pieces are the pieces of a message, with a star where it begins.
func (w *fixture) pieces(messageID string) []string {
	var out []string
	for _, e := range w.live() {
		if e.Event == nil || e.Event.MessageID != messageID {
			continue
		}
		mark := ""
		if e.Begins {
			mark = "*"
		}
		out = append(out, fmt.Sprintf("%s %d %s%s", e.Event.Type, e.Event.Attempt, e.Event.Content, mark))
	}
	return out
}

func TestBegins(t *testing.T) {
	says := func(failures int, deltas ...llm.Delta) func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return func(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
			var out llm.Response
			for _, d := range deltas {
				onDelta(d)
				out.Content += d.Text
			}
			if failures--; failures >= 0 {
				return out, &llm.Error{Provider: "fake", Message: "cut", Retryable: true}
			}
			return out, nil
		}
	}
	t.Run("S3-52 S4-54 the announcement, before the provider is asked", func(t *testing.T) {
		w := newFixture(t, nil)
		reply := says(0, llm.Delta{Thought: "hm"}, llm.Delta{Text: "a"}, llm.Delta{Text: "b"})
		w.model.answer = func(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
			require.Equal(t, []string{"stream 1 *"}, w.pieces("e1.0.1"))
			return reply(ctx, req, onDelta)
		}
		_, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, []string{"stream 1 *", "thought 1 hm", "stream 1 a", "stream 1 b"}, w.pieces("e1.0.1"))
	})
	t.Run("S3-52 that of each attempt", func(t *testing.T) {
		w := newFixture(t, nil)
		w.model.answer = says(1, llm.Delta{Text: "a"}, llm.Delta{Text: "b"})
		require.NoError(t, w.retried(step.ActivityCallModel, modelStep()))
		require.Equal(t, []string{"stream 1 *", "stream 1 a", "stream 1 b", "reset 2 ", "stream 2 *", "stream 2 a", "stream 2 b"}, w.pieces("e1.0.1"))
	})
	t.Run("again, if the mark may be lost", func(t *testing.T) {
		w := newFixture(t, func(c *activities.Config) { c.Stream = &losing{Stream: c.Stream, text: "b"} })
		w.model.answer = says(0, llm.Delta{Thought: "hm"}, llm.Delta{Text: "a"}, llm.Delta{Text: "b"}, llm.Delta{Text: "c"})
		_, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, []string{"stream 1 *", "thought 1 hm", "stream 1 a", "reset 1 ", "thought 1 hm*", "stream 1 ab", "stream 1 c"}, w.pieces("e1.0.1"))
	})
	t.Run("nothing else", func(t *testing.T) {
		w := newFixture(t, nil)
		w.model.answer = says(0)
		_, err := w.callModel(modelStep())
		require.NoError(t, err)
		words := w.live()
		require.NotEmpty(t, words)
		for _, e := range words {
			require.Equal(t, e.Event != nil, e.Begins, "the word of a record begins nothing")
		}
	})
}
