package activities

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
)

type generate func(onDelta func(llm.Delta)) (llm.Response, error)

func (g generate) Generate(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return g(onDelta)
}

// What a provider says of its reply is bounded, and redacted if there is a redactor. The names of tools remain, except for those that the
// model makes up.
func TestReplyIsChecked(t *testing.T) {
	const secret = "ann@mail.example"
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Emails()}})
	require.NoError(t, err)
	calls := func(names ...string) (out []event.ToolCall) {
		for _, name := range names {
			out = append(out, event.ToolCall{Function: event.Function{Name: name}})
		}
		return out
	}
	long := strings.Repeat("because of ", 1000)
	var sent llm.Request
	p := replies(func(req llm.Request) llm.Response {
		sent = req
		return llm.Response{
			Model: "of " + secret, Tier: secret, FinishReason: secret + " " + long, ToolCalls: calls(secret, "real@mail.example"),
			Usage: event.Usage{InputTokens: math.MaxInt, OutputTokens: -5, CachedTokens: 2, CacheWriteTokens: 8, CacheWriteHourTokens: 9},
		}
	})
	req := llm.Request{Tools: []llm.Tool{{Name: "real@mail.example"}}, Messages: []llm.Message{
		{Role: event.RoleAssistant, ToolCalls: calls(secret, "real@mail.example")}, {Role: event.RoleTool, Name: secret}, {Role: event.RoleUser, Name: secret},
	}}
	for _, tt := range []struct {
		r              *redact.Redactor
		reason, madeUp string
	}{{nil, secret + " " + long, secret}, {r, "[email] " + long, "[email]"}} {
		res, err := CheckedProvider(tt.r, p).Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, llm.Response{
			Model: "of " + tt.madeUp, Tier: tt.madeUp, FinishReason: tt.reason[:125] + "…", ToolCalls: calls(tt.madeUp, "real@mail.example"),
			Usage: event.Usage{InputTokens: math.MaxInt32, CachedTokens: 2, CacheWriteTokens: 8, CacheWriteHourTokens: 8},
		}, res)
		require.Equal(t, calls(tt.madeUp, "real@mail.example"), sent.Messages[0].ToolCalls)
		require.Equal(t, tt.madeUp, sent.Messages[1].Name)
		require.Equal(t, secret, sent.Messages[2].Name, "a participant")
	}
}

type replies func(llm.Request) llm.Response

func (r replies) Generate(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return r(req), nil
}

// Providers of applications return errors that no driver has classified, panic, and stream thoughts and text at once.
func TestCheckedProvider(t *testing.T) {
	const card = "4111 1111 1111 1111"
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)

	cause := errors.New("no way with " + card)
	failing := CheckedProvider(r, generate(func(func(llm.Delta)) (llm.Response, error) { return llm.Response{}, cause }))
	_, err = failing.Generate(t.Context(), llm.Request{}, nil)
	require.EqualError(t, err, "no way with [card]")
	require.ErrorIs(t, err, cause)

	panicking := CheckedProvider(r, generate(func(func(llm.Delta)) (llm.Response, error) { panic(cause) }))
	require.PanicsWithValue(t, "no way with [card]", func() { _, _ = panicking.Generate(t.Context(), llm.Request{}, nil) })

	both := CheckedProvider(r, generate(func(show func(llm.Delta)) (llm.Response, error) {
		show(llm.Delta{Thought: card, Text: card})
		return llm.Response{}, nil
	}))
	var shown llm.Delta
	_, err = both.Generate(t.Context(), llm.Request{}, func(d llm.Delta) { shown.Thought += d.Thought; shown.Text += d.Text })
	require.NoError(t, err)
	require.Equal(t, llm.Delta{Thought: "[card]", Text: "[card]"}, shown)

	thinks := CheckedProvider(r, generate(func(show func(llm.Delta)) (llm.Response, error) {
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
