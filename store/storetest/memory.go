package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// testMemory: an agent remembers only its own messages, and only those of the thread.
func testMemory(t *testing.T, s store.Store) {
	calls := func(id string) []event.ToolCall {
		return []event.ToolCall{{ID: id, Function: event.Function{Name: "look", Arguments: "{}"}}}
	}
	hidden := event.Message{ID: "11", SenderID: "critic", AgentID: "critic", SenderType: event.CreatedByAgent, Content: "not to be seen", Held: true}
	own := event.Message{ID: "12", SenderID: "writer", AgentID: "writer", SenderType: event.CreatedByAgent, Content: "not yet", Held: true, ToolCalls: calls("d")}
	all := []event.Message{
		{ID: "01", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"},
		{ID: "02", SenderID: "writer", AgentID: "writer", SenderType: event.CreatedByAgent, ToolCalls: calls("a")},
		{ID: "03", SenderID: "look", AgentID: "Writer", SenderType: event.CreatedByTool, ToolCallID: "a", Content: "found"},
		{ID: "04", SenderID: "critic", AgentID: "critic", SenderType: event.CreatedByAgent, Content: "I look too", ToolCalls: calls("b")},
		{ID: "05", SenderID: "look", AgentID: "critic", SenderType: event.CreatedByTool, ToolCallID: "b", Content: "found by another"},
		{ID: "06", SenderID: "critic", AgentID: "critic", SenderType: event.CreatedByAgent, ToolCalls: calls("c")},
		{ID: "07", SenderID: "look", AgentID: "critic", SenderType: event.CreatedByTool, ToolCallID: "c", Content: "found by another"},
		{ID: "08", SenderID: "world", SenderType: event.CreatedByTool, Content: "it rains"},
		{ID: "09", SenderID: "threadmill", SenderType: event.CreatedBySystem, Content: "be careful"},
		{ID: "10", SenderID: "WRITER", AgentID: "WRITER", SenderType: event.CreatedByAgent, Content: "done"},
		hidden, own,
	}
	var batch store.Batch
	for _, m := range all {
		batch.Records = append(batch.Records, event.NewRecord(m.ID, event.TypeMessage, "trace", "", start, m))
	}
	add(t, s, key, batch)
	elsewhere := store.Key{Namespace: key.Namespace, ThreadID: "t2"}
	add(t, s, elsewhere, store.Batch{Records: []event.Record{event.NewRecord("x", event.TypeMessage, "", "", start,
		event.Message{ID: "x", SenderID: "writer", AgentID: "writer", SenderType: event.CreatedByAgent, Content: "said elsewhere"})}})

	require.Equal(t, []string{"01", "02+a", "03", "04", "08", "09", "10", "12+d"}, remembered(t, s, key, "writer", store.Query{}))
	require.Equal(t, []string{"01", "04+b", "05", "06+c", "07", "08", "09", "10"}, remembered(t, s, key, "critic", store.Query{}))
	require.Equal(t, []string{"01", "04", "08", "09", "10"}, remembered(t, s, key, "nobody", store.Query{}))
	require.Equal(t, []string{"x"}, remembered(t, s, elsewhere, "writer", store.Query{}), "the other thread is another memory")
	require.Empty(t, remembered(t, s, store.Key{Namespace: "other", ThreadID: key.ThreadID}, "writer", store.Query{}))
	require.Equal(t, []string{"12+d", "10"}, remembered(t, s, key, "writer", store.Query{Newest: true, Limit: 3}),
		"the bounds are of what is read")
}

// remembered returns the ids of an agent's messages, each with the ids of its calls.
func remembered(t *testing.T, s store.Store, k store.Key, agent string, q store.Query) (ids []string) {
	t.Helper()
	found, err := store.Memory(t.Context(), s, k, agent, q)
	require.NoError(t, err)
	for _, m := range found {
		require.False(t, m.Hidden && m.Content != "", "%s is hidden", m.ID)
		id := m.ID
		for _, call := range m.ToolCalls {
			id += "+" + call.ID
		}
		ids = append(ids, id)
	}
	return ids
}
