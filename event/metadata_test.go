package event_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestMetadata: metadata has all digits of its numbers, wherever it is.
func TestMetadata(t *testing.T) {
	const metadata = `{"list":[9007199254740993],"order":2512292042121000001,"price":0.10}`
	for name, v := range map[string]any{
		"metadata": &event.Metadata{}, "a message": &event.Message{}, "a new one": &event.NewMessage{}, "a stored one": &event.StoredMessage{},
	} {
		given := metadata
		if name != "metadata" {
			given = `{"metadata":` + metadata + `}`
		}
		require.NoError(t, json.Unmarshal([]byte(given), v), name)
		got, err := json.Marshal(v)
		require.NoError(t, err, name)
		require.Contains(t, string(got), metadata, name)
	}
	var m event.Metadata
	require.NoError(t, json.Unmarshal([]byte(`{"new":1}`), &m))
	require.Equal(t, event.Metadata{"new": json.Number("1")}, m)
	require.NoError(t, json.Unmarshal([]byte(`null`), &m))
	require.Nil(t, m)
	require.ErrorContains(t, event.DecodeJSON("message", []byte(`{"metadata":"x"}`), &event.NewMessage{}), "metadata: is not a JSON object")
}
