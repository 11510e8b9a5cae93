package feed_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/stream"
)

// TestProgressOfTask: a call that starts a background task has its result at once, and the task
// continues.
func TestProgressOfTask(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Calls("c1"), feedtest.Result("c1", "the task has started"))
	e, err := event.Task{ID: "t1~t1", Tool: "shell_cmd", Agent: "bot", ToolCallID: "c1"}.Progress(40)
	require.NoError(t, err)
	begun := map[string]*feed.Reader{
		"from the start": w.Open(feed.From{}), "behind the result": w.Open(feed.From{Cursor: feed.Cursor{Seq: head}}),
	}
	w.Publish(stream.Entry{After: head, Event: &e})
	w.Publish(feedtest.Progress(head, "c1", "the call's own"))
	w.StoreAll(feedtest.Closed())
	begun["when it is over"] = w.Open(feed.From{Cursor: feed.Cursor{Seq: head}})
	for name, r := range begun {
		t.Run("S3-54 a viewer who began "+name, func(t *testing.T) {
			var got []event.AgentEvent
			for _, item := range w.UntilClosed(r) {
				if item.Event.Type == event.EventToolProgress {
					got = append(got, item.Event)
				}
			}
			assert.Equal(t, []event.AgentEvent{e}, got)
		})
	}
}
