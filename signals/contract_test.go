package signals_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestWorkflowID(t *testing.T) {
	namespace, thread, err := signals.ParseWorkflowID(signals.WorkflowID("acme", "t-1.a"))
	require.NoError(t, err)
	require.Equal(t, "acme/t-1.a", namespace+"/"+thread)
	for _, id := range []string{"", "thread/", "thread/acme", "thread/acme/", "thread//t1", "thread/acme/a/b", "order/acme/t1", "thread/acme/t 1"} {
		_, _, err := signals.ParseWorkflowID(id)
		require.Error(t, err, id)
	}
}

func TestIDs(t *testing.T) {
	for id, ok := range map[string]struct{ thread, event bool }{
		"t1":                     {true, true},
		signals.NewID():          {true, true},
		"ann@example":            {true, true},
		"a.b":                    {true, false},
		"e1.0.1":                 {true, false},
		"":                       {false, false},
		".a":                     {false, false},
		"a/b":                    {false, false},
		"é":                      {false, false},
		strings.Repeat("x", 128): {true, true},
		strings.Repeat("x", 129): {false, false},
	} {
		require.Equal(t, ok.thread, signals.ValidateID("threadId", id) == nil, id)
		err := signals.ValidateEventID("id", id)
		require.Equal(t, ok.event, err == nil, id)
		if err != nil {
			require.ErrorIs(t, err, event.ErrInvalid)
			require.ErrorContains(t, err, "id: ")
		}
	}
}

func TestNewPost(t *testing.T) {
	p := signals.UserMessage("t1", "ann", "hello")
	require.Equal(t, event.TypeMessage, p.Type)
	require.JSONEq(t, `{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}`, string(p.Payload))
}
