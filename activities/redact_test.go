package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
)

type generate func(onDelta func(llm.Delta)) (llm.Response, error)

func (g generate) Generate(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return g(onDelta)
}

// Providers of applications return errors that no driver has classified, panic, and stream thoughts and text at once.
func TestRedactedProvider(t *testing.T) {
	const card = "4111 1111 1111 1111"
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)

	cause := errors.New("no way with " + card)
	failing := redactedProvider(r, generate(func(func(llm.Delta)) (llm.Response, error) { return llm.Response{}, cause }))
	_, err = failing.Generate(t.Context(), llm.Request{}, nil)
	require.EqualError(t, err, "no way with [card]")
	require.ErrorIs(t, err, cause)

	panicking := redactedProvider(r, generate(func(func(llm.Delta)) (llm.Response, error) { panic(cause) }))
	require.PanicsWithValue(t, "no way with [card]", func() { _, _ = panicking.Generate(t.Context(), llm.Request{}, nil) })

	both := redactedProvider(r, generate(func(show func(llm.Delta)) (llm.Response, error) {
		show(llm.Delta{Thought: card, Text: card})
		return llm.Response{}, nil
	}))
	var shown llm.Delta
	_, err = both.Generate(t.Context(), llm.Request{}, func(d llm.Delta) { shown.Thought += d.Thought; shown.Text += d.Text })
	require.NoError(t, err)
	require.Equal(t, llm.Delta{Thought: "[card]", Text: "[card]"}, shown)

	thinks := redactedProvider(r, generate(func(show func(llm.Delta)) (llm.Response, error) {
		show(llm.Delta{Thought: "about 4111"})
		show(llm.Delta{Text: "Hello "})
		show(llm.Delta{Text: "there."})
		return llm.Response{}, nil
	}))
	var pieces []llm.Delta
	_, err = thinks.Generate(t.Context(), llm.Request{}, func(d llm.Delta) { pieces = append(pieces, d) })
	require.NoError(t, err)
	require.Equal(t, []llm.Delta{{Thought: "about "}, {Thought: "4111"}, {Text: "Hello "}, {Text: "there."}}, pieces, "viewers get one of them with each piece")
}
