package transcript_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// stored are records, by id.
type stored map[string]event.Record

func (s stored) Records(context.Context, store.Key, store.Query) ([]event.Record, error) {
	return nil, store.ErrNotFound
}

func (s stored) RecordsByID(_ context.Context, _ store.Key, ids ...string) (out []event.Record, err error) {
	for _, id := range ids {
		if r, ok := s[id]; ok {
			out = append(out, r)
		}
	}
	return out, nil
}

func TestContent(t *testing.T) {
	record := func(id, typ string, payload any) stored {
		return stored{id: event.NewRecord(id, typ, "", "", time.Now(), payload)}
	}
	said := `{"threadId":"t1","senderId":"ann","senderType":"user","content":"hi","metadata":{"a":1}}`
	for name, test := range map[string]struct {
		records           stored
		payload, metadata string
	}{
		"not queued": {record("e1.unqueued", event.TypeUnqueued, event.Unqueued{Event: event.Item{Payload: json.RawMessage(said)}}), said, ""},
		"a message": {record("e1", event.TypeMessage, event.Message{
			ID: "e1", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: "user", Content: "hi", Metadata: map[string]any{"a": 1},
		}), said, ""},
		"an environment event": {record("e1", event.TypeEnv, event.EnvEvent{
			ID: "e1", Type: "file.changed", Timestamp: 7, Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceEnv}, Payload: json.RawMessage(`{"n":1}`),
		}), `{"n":1}`, `{"trigger_session_id":"t1","source":"env"}`},
		"a type of one's own": {record("e1", "job", map[string]int{"n": 1}), `{"n":1}`, ""},
		"one without payload": {record("e1", "job", nil), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			it, err := transcript.Content(context.Background(), test.records, store.Key{}, "e1")
			require.NoError(t, err)
			same(t, test.payload, it.Payload)
			same(t, test.metadata, it.Metadata)
		})
	}
	_, err := transcript.Content(context.Background(), stored{}, store.Key{}, "e1")
	require.ErrorIs(t, err, store.ErrNotFound)
	broken := stored{"e1": {ID: "e1", Type: event.TypeMessage, Payload: json.RawMessage(`[]`)}}
	_, err = transcript.Content(context.Background(), broken, store.Key{}, "e1")
	require.ErrorIs(t, err, transcript.ErrUnreadable)
}

func same(t *testing.T, want string, got json.RawMessage) {
	t.Helper()
	if want == "" {
		require.Empty(t, got)
		return
	}
	require.JSONEq(t, want, string(got))
}
