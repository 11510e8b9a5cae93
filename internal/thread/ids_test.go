package thread

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
)

// TestIDsDependOnWhatTheyAreFor: a workflow task that is lost derives the same ids again, even if it then handles more.
func TestIDsDependOnWhatTheyAreFor(t *testing.T) {
	first, second := newState(), newState()
	second.Reject(t0, "post", nil, errors.New("arrived meanwhile"))
	second.Named(says("", "another"), "u2", 0)
	require.Equal(t, post(t, first, says("", "one")).EventID, post(t, second, says("", "one")).EventID)
	named := first.Named(says("", "by update"), "u1", 0)
	require.Equal(t, named, second.Named(says("", "by update"), "u1", 0))
	require.NotEqual(t, named.ID, first.Named(says("", "by update"), "u1", 1).ID)
	require.Equal(t, "e1", first.Named(says("e1", "with an id"), "u1", 0).ID)
	env := signals.Post{Type: "build.failed", Timestamp: 1}
	require.Equal(t, signals.EventID("ns", "t1", first.derivedID("update.u1", 0)), first.Named(env, "u1", 0).ID, "an environment event has an id of its form")
}
