package activities_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/store"
)

func TestWhomAReplyAddresses(t *testing.T) {
	for _, tc := range []struct {
		name, answers, says, want string
		calls                     []event.ToolCall
		change                    func(*activities.Config)
	}{
		{name: "S4-38 an answer to an agent", answers: "bob", says: "I agree.", want: "@bob I agree."},
		{name: "S4-39 an answer to a person", says: "I agree.", want: "I agree."},
		{name: "S4-40 somebody is addressed", answers: "bob", says: "@carol I agree.", want: "@carol I agree."},
		{name: "S4-40 the agent itself", says: "@assistant I agree.", want: "I agree."},
		{name: "S4-42 STOP", answers: "bob", says: "@bob bye <world>STOP</world>", want: "bye"},
		{name: "S4-42 TO", says: "look <world>TO:bob</world>", want: "@bob\n\nlook"},
		{name: "S4-38 the agent wants none", answers: "bob", says: "I agree.", want: "I agree.", change: func(c *activities.Config) {
			c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", NoAutoMention: true}}
		}},
		{
			name: "a reply that asks for tools is not final", answers: "bob", says: "let me see <world>TO:carol</world>",
			want: "let me see <world>TO:carol</world>", calls: []event.ToolCall{call("x", "add", `{"a":1,"b":2}`)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newFixture(t, tc.change, add)
			w.replies(tc.says, tc.calls...)
			in := modelStep()
			in.Answers = tc.answers
			reply, err := w.callModel(in)
			require.NoError(t, err)
			require.Equal(t, tc.want, reply.Message.Content)
			require.Equal(t, tc.want, stored[event.Message](w, "e1.0.1").Content)
			require.Equal(t, []string{"thought", "stream"}, w.shown(), "the message takes the place of the pieces")

			again, err := w.callModel(in)
			require.NoError(t, err)
			require.Equal(t, reply, again)
		})
	}
}

func TestReplyThatIsNothingButADirective(t *testing.T) {
	w := newFixture(t, nil)
	w.replies("<world>PASS</world>")
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Empty(t, reply.Message.Content)
	require.Equal(t, []string{"e1", "e1.0.1.llm", "e1.0.1.final"}, w.ids(), "S4-67 nothing is said")
	require.Equal(t, []string{"thought", "stream", "reset"}, w.shown(), "S4-42 viewers discard what they have seen of it")

	in := modelStep()
	in.MessageID, in.Quiet, in.Gated = "e1.0.2", true, true
	_, err = w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, []string{"thought", "stream", "reset"}, w.shown(), "nothing was seen of this one")
}

func TestReplyThatWasCutOffStays(t *testing.T) {
	w := newFixture(t, nil)
	w.model.answer = func(ctx context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		onDelta(llm.Delta{Text: "@assistant half <world>TO:carol</world>"})
		w.interrupt(ctx)
		return llm.Response{Content: "@assistant half <world>TO:carol</world>"}, ctx.Err()
	}
	in := modelStep()
	in.Answers = "bob"
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.True(t, reply.Message.Interrupted)
	require.Equal(t, "@assistant half <world>TO:carol</world>", reply.Message.Content)
}

// edited is a source whose agent can be changed while threads run.
type edited struct {
	mu  sync.Mutex
	who agent.Agent
}

func (e *edited) Agent(context.Context, string, string) (agent.Agent, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.who, nil
}

func (e *edited) edit(instructions string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.who.Instructions = instructions
}

func TestMemory(t *testing.T) {
	provider := llmtest.NewServer(llmtest.Config{T: t})
	model, err := openai.New(openai.Config{BaseURL: provider.URL, APIKey: "test", Dialect: openai.DialectOpenAI})
	require.NoError(t, err)
	registry := &edited{who: agent.Agent{Name: "assistant", Model: "fake/small", Instructions: "Be brief."}}
	w := newFixture(t, func(c *activities.Config) {
		c.Agents, c.Models = registry, map[string]llm.Provider{"fake": model}
	})
	elsewhere := step.Ref{Namespace: "ns", ThreadID: "t2"}
	_, err = w.store.Append(t.Context(), elsewhere, store.Batch{Records: says("x1", "of another thread").Records})
	require.NoError(t, err)
	in := modelStep()
	in.Agents = []string{"assistant", "bob"}
	in.Flush.Records = append(in.Flush.Records, message(event.Message{
		ID: "b1", ThreadID: "t1", SenderID: "bob", SenderType: event.CreatedByAgent, AgentID: "bob", Content: "between us", Metadata: map[string]any{"secret": "kept"},
	}))
	_, err = w.callModel(in)
	require.NoError(t, err)
	before := w.records()

	registry.edit("Be verbose.")
	in.MessageID, in.ReplyTo, in.EventID, in.Flush = "e2.0.1", "e2", "e2", says("e2", "and now?")
	_, err = w.callModel(in)
	require.NoError(t, err)

	requests := provider.Requests()
	require.Len(t, requests, 2)
	var shown [2]struct {
		Messages []map[string]any `json:"messages"`
	}
	for i, r := range requests {
		require.NoError(t, json.Unmarshal(r.Body, &shown[i]))
	}
	t.Run("S4-47 an edited prompt applies to the next call", func(t *testing.T) {
		require.Equal(t, "Be brief.", shown[0].Messages[0]["content"])
		require.Equal(t, "Be verbose.", shown[1].Messages[0]["content"])
	})
	t.Run("S4-47 S4-50 the history is read anew, as it concerns the agent", func(t *testing.T) {
		require.Len(t, shown[0].Messages, 2)
		require.Equal(t, []map[string]any{
			{"role": "system", "content": "Be verbose."},
			{"role": "user", "name": "ann", "content": "hello"},
			{"role": "assistant", "content": "hello"},
			{"role": "user", "name": "ann", "content": "and now?"},
		}, shown[1].Messages, "S4-55 only what the provider knows")
	})
	t.Run("S4-48 nothing of another thread", func(t *testing.T) {
		require.NotContains(t, string(requests[1].Body), "another thread")
		require.NotContains(t, string(requests[1].Body), "kept")
	})
	t.Run("S4-53 what was stored stays as it was", func(t *testing.T) {
		after := w.records()
		require.Equal(t, before, after[:len(before)])
		require.Equal(t, 2, provider.Calls(), "one LLM call for each step")
	})
	t.Run("every provider would take it", func(t *testing.T) {
		require.Empty(t, provider.Violations())
	})
}
