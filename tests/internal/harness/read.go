package harness

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Messages returns a thread's messages.
func (w *Harness) Messages(thread string) []event.Message {
	w.T.Helper()
	records, err := w.Store.Records(w.Ctx(), w.Key(thread), store.Query{Types: []string{event.TypeMessage}})
	require.NoError(w.T, err)
	out := make([]event.Message, 0, len(records))
	for _, r := range records {
		out = append(out, Payload[event.Message](w, r))
	}
	return out
}

// Payload reads a record's payload.
func Payload[T any](w *Harness, r event.Record) T {
	w.T.Helper()
	var v T
	require.NoError(w.T, json.Unmarshal(r.Payload, &v))
	return v
}

// Types returns the types of a thread's records, in order.
func (w *Harness) Types(thread string) []string {
	w.T.Helper()
	var out []string
	for _, r := range w.Records(thread) {
		out = append(out, r.Type)
	}
	return out
}

// JSON returns v as JSON, with its fields in order.
func JSON(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}
