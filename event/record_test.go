package event

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUndecided(t *testing.T) {
	plain := NewRecord("m1", TypeMessage, "t", "", time.Unix(0, 0), Message{ID: "m1", Content: `{"undecided":["message"]}`})
	empty := NewRecord("x", TypeEnv, "t", "", time.Unix(0, 0), struct{}{})
	for _, r := range []Record{plain, empty} {
		require.Empty(t, r.Undecided())
		require.Equal(t, r, r.Decided())
		require.Equal(t, r, r.WithUndecided(), "no types, no mark")
		marked := r.WithUndecided(TypeMessage, TypeToolCall)
		require.Equal(t, []string{TypeMessage, TypeToolCall}, marked.Undecided())
		require.Equal(t, r, marked.Decided())
		require.Empty(t, r.Undecided(), "the record itself is as it was")
	}
	require.JSONEq(t, `{"undecided":["env"]}`, string(empty.WithUndecided(TypeEnv).Payload))
	require.Empty(t, Record{Payload: []byte(`["undecided"]`)}.Undecided())
	require.Panics(t, func() { Record{Payload: []byte("null")}.WithUndecided(TypeEnv) })
}
