package activities_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// TestContextOverflow: a conversation that its model refuses as too long is shortened until it fits, and the next call begins with what fits.
func TestContextOverflow(t *testing.T) {
	for name, said := range map[string]string{
		"with numbers":    "This model's maximum context length is %d tokens. However, you requested about %d tokens.",
		"without numbers": "input is too long",
	} {
		t.Run(name, func(t *testing.T) {
			const fits = 30_000
			w := newFixture(t, nil)
			refused := 0
			w.model.answer = func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
				size := 0
				for _, m := range req.Messages {
					size += len(m.Content)
				}
				if size > fits {
					refused++
					return llm.Response{}, &llm.Error{Provider: "fake", StatusCode: 400, ContextOverflow: true, Message: refusal(said, fits, size)}
				}
				return llm.Response{Type: llm.TypeText, Content: "it fits"}, nil
			}
			w.append(store.Batch{Records: []event.Record{
				message(event.Message{ID: "e0", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: strings.Repeat("much too long ", 100_000)}),
				message(event.Message{ID: "e1", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "what is it about?"}),
			}})
			reply, err := w.callModel(modelStep())
			require.NoError(t, err)
			require.Equal(t, "it fits", reply.Message.Content)
			require.Positive(t, refused)
			last := w.model.requests[len(w.model.requests)-1]
			require.Equal(t, "what is it about?", last.Messages[len(last.Messages)-1].Content, "what was asked stays whole")
			require.Contains(t, last.Messages[len(last.Messages)-2].Content, "much too long", "of the rest, what there is room for")

			call := stored[event.LLMCall](w, recordid.LLMCall(reply.Message.ID))
			_, exact, err := modelcontext.Reproduce(t.Context(), w.store, ref, call)
			require.NoError(t, err)
			require.True(t, exact)

			refused = 0
			next := modelStep()
			next.MessageID += ".next"
			_, err = w.callModel(next)
			require.NoError(t, err)
			require.Zero(t, refused)
			other := modelStep()
			other.MessageID, other.Agent = other.MessageID+".other", "bob"
			_, err = w.callModel(other)
			require.NoError(t, err)
			require.Positive(t, refused, "another agent has other instructions and tools")
		})
	}
}

// TestContextOverflowStays: a request that does not fit without its conversation fails.
func TestContextOverflowStays(t *testing.T) {
	w := newFixture(t, nil)
	w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Provider: "fake", StatusCode: 400, ContextOverflow: true, Message: "prompt is too long"}
	}
	w.append(store.Batch{Records: []event.Record{message(event.Message{ID: "e1", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: strings.Repeat("x", 100_000)})}})
	_, err := w.callModel(modelStep())
	require.ErrorContains(t, err, "prompt is too long")
	require.Less(t, len(w.model.requests), 10)
}

func refusal(said string, fits, size int) string {
	if !strings.Contains(said, "%") {
		return said
	}
	return fmt.Sprintf(said, fits, size)
}
