package thread

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestChange(t *testing.T) {
	s := New("ns", "t1", signals.Start{Agents: []string{"ann"}, Title: "Old", Metadata: json.RawMessage(`{"a":1}`)}, t0)
	s.Change(t0, signals.ThreadChange{Title: "New", By: "eve"})
	require.Equal(t, "New", s.Title)
	require.Equal(t, []string{"ann"}, s.Agents, "what is left out stays")
	require.Equal(t, &Row{Title: "New", Status: "open", Agents: []string{"ann"}, Metadata: json.RawMessage(`{"a":1}`)}, s.Row,
		"a change joins what has not been stored yet")
	s.Flushed(s.Flush())
	s.Change(t0, signals.ThreadChange{Agents: []string{"bob", "cas"}, Metadata: json.RawMessage(`{"b":2}`)})
	require.Equal(t, []string{"bob", "cas"}, Route(s.Agents, event.User, "eve", "hello"))
	require.Equal(t, &Row{Agents: []string{"bob", "cas"}, Metadata: json.RawMessage(`{"b":2}`)}, s.Row)
	require.Len(t, s.Pending, 1)
	var told event.StatusChange
	require.NoError(t, json.Unmarshal(s.Pending[0].Payload, &told))
	require.Equal(t, event.StatusChange{Status: event.StatusUpdated, Agents: []string{"bob", "cas"}, Detail: "agents, metadata"}, told)
}

func TestCheckChange(t *testing.T) {
	s := New("ns", "t1", signals.Start{}, t0)
	require.NoError(t, s.CheckChange(signals.ThreadChange{Title: "x"}))
	for field, c := range map[string]signals.ThreadChange{
		"title":     {},
		"agents[1]": {Agents: []string{"a", "no space"}},
		"metadata":  {Metadata: json.RawMessage(`[]`)},
		"by":        {Title: "x", By: "\x00"},
	} {
		requireField(t, field, s.CheckChange(c))
	}
	s.Closing = &signals.Control{}
	require.ErrorIs(t, s.CheckChange(signals.ThreadChange{Title: "x"}), ErrClosed)
}
