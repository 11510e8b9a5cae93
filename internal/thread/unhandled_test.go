package thread

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestEventsThatNothingHandles end visibly; those that a hook has seen end as before.
func TestEventsThatNothingHandles(t *testing.T) {
	for name, c := range map[string]struct {
		typ     string
		decided Decision
		want    signals.TurnStatus
	}{
		"custom":      {"order.placed", Decision{Outcome: event.Passed, Silent: true, Unmatched: true}, signals.TurnUnhandled},
		"background":  {event.TypeRAGIngest, Decision{Outcome: event.Passed, Silent: true, Unmatched: true}, signals.TurnUnhandled},
		"seen inline": {"order.placed", Decision{Outcome: event.Passed, Silent: true}, signals.TurnUnanswered},
		"seen":        {"order.placed", Decision{Outcome: event.Passed, Hooks: []event.HookOutcome{{Name: "log", Outcome: event.Passed}}}, signals.TurnUnanswered},
		"a processor": {event.TypeEntityExtract, Decision{Outcome: event.Produced, Hooks: []event.HookOutcome{{Name: "index", Outcome: event.Produced}}}, signals.TurnCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			_, err := s.Post(t0, signals.Post{ID: "e1", Type: c.typ, Payload: json.RawMessage(`{}`)})
			require.NoError(t, err)
			next, ok := s.Next(t0)
			require.True(t, ok)
			s.Begin(t0, next)
			s.Turn.Enter(t0, c.decided)
			require.Equal(t, c.want, s.Turn.End(t0).Status)
			told := ""
			for _, r := range s.Flush().Records {
				var change event.StatusChange
				if r.Type == event.TypeStatus && json.Unmarshal(r.Payload, &change) == nil && change.Status == event.StatusUnhandled {
					told = change.Detail
				}
			}
			if c.want == signals.TurnUnhandled {
				require.Contains(t, told, "nothing handles events of type "+c.typ)
			} else {
				require.Empty(t, told)
			}
		})
	}
}

// TestWordsOfOtherSystems are no custom types.
func TestWordsOfOtherSystems(t *testing.T) {
	for typ, problem := range map[string]string{
		"NEW_MESSAGE": `use "message"`, "new_message": `use "message"`, "Message": `use "message"`,
		"TOKEN": "tokens are never queued", "LLM_CALL": `"llm_call" events are made by the thread itself`,
		"TOOL_CALL": "made by the thread itself", "RAG_INGEST": `use "rag_ingest"`, "ENTITY_EXTRACT": `use "entity_extract"`,
		"order\u200b": "type: contains U+200B",
	} {
		s := newState()
		_, err := s.Post(t0, signals.Post{Type: typ, Payload: json.RawMessage(`{}`)})
		requireField(t, "type", err)
		require.ErrorContains(t, err, problem)
	}
	for _, typ := range []string{"CUSTOM_EVENT", "rag_ingest", "order.placed"} {
		_, err := newState().Post(t0, signals.Post{Type: typ, Payload: json.RawMessage(`{}`)})
		require.NoError(t, err, "S2-04")
	}
}
