package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

func TestReplyThatSaysNothing(t *testing.T) {
	w := newFixture(t, nil)
	w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Type: llm.TypeText, Usage: event.Usage{InputTokens: 3}}, nil
	}
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, []string{"e1", "e1.0.1.llm", "e1.0.1.final"}, w.ids(), "S4-67 there is no message")
	require.Equal(t, event.Final{Agent: "assistant"}, stored[event.Final](w, "e1.0.1.final"))
	require.Equal(t, event.Message{ID: "e1.0.1", ThreadID: "t1"}, reply.Message)
	require.Equal(t, 3, reply.Usage.InputTokens)

	again, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, reply, again)
	require.Len(t, w.model.requests, 1, "S2-51 a retry finds it, and does not call the model")
}
