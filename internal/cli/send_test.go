package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
)

// TestSendPrintsAllReplies: replies of several agents have their names.
func TestSendPrintsAllReplies(t *testing.T) {
	w := newWorld(t)
	out := w.ok("send", "t1", "both of you", "--wait")
	require.Equal(t, "alice › yes\ndemo › you said: both of you\n", out)
	_, out, _ = w.run("", "send", "t1", "both", "--wait", "--json")
	var result signals.TurnResult
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Replies, 2)
	_, out, _ = w.run("", "send", "t1", "one", "--wait")
	require.Equal(t, "you said: one\n", out)
}
