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
	require.Equal(t, &Row{Number: s.RowNumber, Title: "New", Status: "open", Agents: []string{"ann"}, Metadata: json.RawMessage(`{"a":1}`)}, s.Row,
		"a change joins what has not been stored yet")
	s.Flushed(s.Flush())
	s.Change(t0, signals.ThreadChange{Agents: []string{"bob", "cas"}, Metadata: json.RawMessage(`{"b":2}`)})
	require.Equal(t, []string{"bob", "cas"}, Answering(s.Agents, event.Message{SenderType: event.User, SenderID: "eve", Content: "hello"}))
	require.Equal(t, &Row{Number: s.RowNumber, Agents: []string{"bob", "cas"}, Metadata: json.RawMessage(`{"b":2}`)}, s.Row)
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

// TestParticipants: agents come and go while the thread runs.
func TestParticipants(t *testing.T) {
	for _, tc := range []struct {
		name        string
		before      []string
		add, remove []string
		want        []string
	}{
		{"one comes", []string{"ann"}, []string{"bob"}, nil, []string{"ann", "bob"}},
		{"one who is there", []string{"ann"}, []string{"ANN", "bob", "Bob"}, nil, []string{"ann", "bob"}},
		{"one goes", []string{"ann", "Bob"}, nil, []string{"bOB"}, []string{"ann"}},
		{"one who is not there", []string{"ann"}, nil, []string{"bob"}, []string{"ann"}},
		{"one for another", []string{"ann"}, []string{"bob"}, []string{"ann"}, []string{"bob"}},
		{"one goes and comes", []string{"ann", "bob"}, []string{"ann"}, []string{"ann"}, []string{"bob", "ann"}},
		{"the first, in place of the default agent", nil, []string{"ann"}, nil, []string{"ann"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState(tc.before...)
			c := signals.ThreadChange{AddAgents: tc.add, RemoveAgents: tc.remove, By: "eve"}
			require.NoError(t, s.CheckChange(c))
			id := s.Change(t0, c)
			require.Equal(t, tc.want, s.Agents)
			require.Equal(t, tc.want, s.Row.Agents)
			require.Equal(t, tc.want, Answering(s.Agents, event.Message{SenderType: event.User, Content: "hello"}), "from the next message on")
			last := s.Pending[len(s.Pending)-1]
			require.Equal(t, id, last.ID)
			require.Equal(t, event.StatusChange{Status: event.StatusUpdated, Agents: tc.want, Detail: "agents", By: "eve"}, payload[event.StatusChange](t, last))
		})
	}
	t.Run("somebody stays", func(t *testing.T) {
		for _, s := range []*State{newState("ann"), newState()} {
			requireField(t, "removeAgents", s.CheckChange(signals.ThreadChange{RemoveAgents: []string{"Ann"}}))
		}
	})
	t.Run("not more than fit", func(t *testing.T) {
		var all []string
		for i := range signals.MaxAgents {
			all = append(all, name(i))
		}
		s := newState(all...)
		requireField(t, "addAgents", s.CheckChange(signals.ThreadChange{AddAgents: []string{"one-more"}}))
		require.NoError(t, s.CheckChange(signals.ThreadChange{AddAgents: []string{"one-more"}, RemoveAgents: []string{"e0"}}))
	})
	t.Run("a run in progress goes on", func(t *testing.T) {
		s := newState("ann", "bob")
		turn := begin(t, s, "e1", "@bob go")
		s.Change(t0, signals.ThreadChange{RemoveAgents: []string{"bob"}})
		step(t, s, turn.Runs[0], "@bob once more, @ann")
		require.Len(t, turn.Runs, 1, "but it is not asked again")
		require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
	})
}

func TestChangeOfTheTurnLimit(t *testing.T) {
	s := newState("ann")
	s.Flushed(s.Flush())
	for _, n := range []int{-1, signals.MaxTurnLimit + 1} {
		requireField(t, "turnLimit", s.CheckChange(signals.ThreadChange{TurnLimit: n}))
	}
	require.NoError(t, s.CheckChange(signals.ThreadChange{TurnLimit: 1}))
	s.Change(t0, signals.ThreadChange{TurnLimit: 1})
	require.Equal(t, "turnLimit", payload[event.StatusChange](t, s.Pending[0]).Detail)
	require.Equal(t, 1, copied(t, s).View().TurnLimit)
	s.LLMCalls = map[string]int{"ann": 1}
	require.Empty(t, starts(t, s, saidBy("e1", event.Agent, "bob", "@ann hello")).Runs, "S4-44 from now on")
	requireField(t, "turnLimit", CheckStart(signals.Start{TurnLimit: -1}))
}

// TestTitle: a thread that falls idle without one is given a title, once.
func TestTitle(t *testing.T) {
	idle := func(t *testing.T) *State {
		t.Helper()
		s, r := waiting(t)
		require.Equal(t, PhaseDone, r.Phase)
		s.Turn.End(t0)
		s.Titles = true
		require.True(t, s.WantsTitle())
		return s
	}
	for name, change := range map[string]func(*State){
		"no model for it":       func(s *State) { s.Titles = false },
		"it has one":            func(s *State) { s.Title = "x" },
		"it was tried":          func(s *State) { s.TitleStep(t0) },
		"a sub-agent's":         func(s *State) { s.Parent = &Parent{} },
		"it is closed":          func(s *State) { s.Closing = &signals.Control{} },
		"a message waits":       func(s *State) { s.Queue = []Queued{{}} },
		"a turn is in progress": func(s *State) { s.Turn = &Turn{} },
		"a turn waits":          func(s *State) { s.Parked = []*Turn{{}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := idle(t)
			change(s)
			require.False(t, copied(t, s).WantsTitle())
		})
	}
	t.Run("it is the thread's", func(t *testing.T) {
		s := idle(t)
		in := s.TitleStep(t0)
		require.Equal(t, s.Ref(), in.Thread)
		require.NotEqual(t, in.RecordID, s.TitleStep(t0).RecordID)
		require.True(t, s.Titled(TitleReply{Title: "All about waiting", Usage: event.Usage{InputTokens: 3}}))
		require.Equal(t, "All about waiting", s.View().Title)
		require.Equal(t, 3, s.Usage.InputTokens)
		require.False(t, s.Titled(TitleReply{Title: "Another"}), "somebody has named it meanwhile")
		require.Equal(t, "All about waiting", s.Title)
	})
	t.Run("there is nothing to go by", func(t *testing.T) {
		s := idle(t)
		require.False(t, s.Titled(TitleReply{Usage: event.Usage{OutputTokens: 2}}))
		require.Empty(t, s.Title)
		require.Equal(t, 2, s.Usage.OutputTokens, "what it has cost counts")
	})
	t.Run("the model says so", func(t *testing.T) {
		s := newState()
		r := begin(t, s, "e1", "go").Runs[0]
		in, _ := s.stepped(t0, r)
		s.took(t0, r, ModelReply{Agent: "assistant", MaxSteps: 3, Titles: true, Message: event.Message{ID: in.MessageID, Content: "done"}})
		require.False(t, s.WantsTitle(), "it is not idle")
		s.Turn.End(t0)
		require.True(t, s.WantsTitle())
	})
}
