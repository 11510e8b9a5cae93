package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names"
	agents "github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// readStore counts what is read.
type readStore struct {
	teststore.Store
	records, agents int
}

func (s *readStore) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	s.records++
	return s.Store.Records(ctx, key, q)
}

func (s *readStore) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	s.records++
	return s.Store.RecordsByID(ctx, key, ids...)
}

func (s *readStore) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	s.agents++
	return s.Store.Agent(ctx, namespace, name)
}

// TestToolTurnReads: the steps of a turn read the records that others have stored, and agents that were changed, and nothing else.
func TestToolTurnReads(t *testing.T) {
	reads := &readStore{}
	w := newFixture(t, func(c *activities.Config) {
		reads.Store, c.Store = teststore.Of(c.Store), reads
		c.Agents = agents.New(c.Agents, reads, names.Known{})
	}, add)
	w.model.answer = func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == event.RoleTool {
			return llm.Response{Type: llm.TypeText, Content: "It is " + last.Content}, nil
		}
		return llm.Response{Type: llm.TypeToolCalls, ToolCalls: []event.ToolCall{call("call-"+last.Content, "add", `{"a":1,"b":2}`)}}, nil
	}
	turn := func(id string, between func()) string {
		t.Helper()
		reads.records, reads.agents = 0, 0
		run := step.Run{Thread: ref, Agent: "assistant", TraceID: id, EventID: id, MessageID: id + ".0.1", Flush: says(id, id)}
		reply, err := w.callModel(step.Model{Run: run, ReplyTo: id, Step: 1})
		require.NoError(t, err)
		between()
		run.Flush = step.Flush{}
		_, err = w.runTool(step.Tool{Run: run, ToolCallID: reply.Calls[0].ID, ToolName: "add"})
		require.NoError(t, err)
		run.MessageID = id + ".0.2"
		reply, err = w.callModel(step.Model{Run: run, ReplyTo: id, Step: 2})
		require.NoError(t, err)
		return reply.Message.Content
	}
	nothing := func() {}
	require.Equal(t, "It is 3", turn("e1", nothing))
	require.Equal(t, "It is 3", turn("e2", nothing))
	require.Zero(t, reads.records)
	require.Zero(t, reads.agents)

	require.Equal(t, "It is 3", turn("e3", func() {
		w.append(store.Batch{Records: []event.Record{event.NewRecord("other", "file.changed", "", "", time.Now(), "x")}})
	}))
	require.Equal(t, 3, reads.records, "the call, the reply and the transcript")

	require.Contains(t, turn("e4", func() {
		_, err := w.store.SaveAgent(t.Context(), ref.Namespace, store.AgentVersion{Name: "assistant", Definition: []byte(`{"model":"fake/small"}`)}, 0)
		require.NoError(t, err)
	}), "unknown tool", "another process has taken the tool away")
	require.Zero(t, reads.records)
	require.Equal(t, 1, reads.agents)
}
