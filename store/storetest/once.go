package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

func testOnce(t *testing.T, s whole) {
	k := store.Key{Namespace: "n", ThreadID: "once"}
	first := store.Batch{Once: "reply", Records: []event.Record{typed("call", "llm_call"), typed("reply", "message"), typed("final", "final")}}
	require.Len(t, add(t, s, k, first).Records, 3)

	again := add(t, s, k, first)
	require.Len(t, again.Records, 3, "the retry finds all that was stored")

	other := store.Batch{Once: "reply", Records: []event.Record{typed("call", "llm_call"), typed("reply", "message"), typed("calls", "tool_call")}}
	lost := add(t, s, k, other)
	require.Equal(t, []string{"call", "reply"}, []string{lost.Records[0].ID, lost.Records[1].ID}, "another attempt adds nothing")
	require.Len(t, lost.Records, 2)
	require.Equal(t, int64(3), lost.Head)
	require.Len(t, query(t, s, k, store.Query{}), 3)

	_, err := s.Append(t.Context(), k, store.Batch{Once: "none", Records: other.Records})
	require.ErrorIs(t, err, store.ErrInvalid)
}
