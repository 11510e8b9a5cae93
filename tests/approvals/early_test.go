package approvals

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// stuckStream is a live stream that does not answer when records are announced, like one whose server
// is away.
type stuckStream struct {
	stream.Stream
	mu   sync.Mutex
	back chan struct{}
}

func (s *stuckStream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	s.mu.Lock()
	back := s.back
	s.mu.Unlock()
	if back != nil && e.Event == nil {
		select {
		case <-back:
		case <-ctx.Done():
		}
	}
	return s.Stream.Publish(ctx, key, e)
}

// stick makes the stream stick until back is called.
func (s *stuckStream) stick() (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make(chan struct{})
	s.back = gone
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.back = nil
		close(gone)
	})
}

// TestDecisionBeforeTheThreadKnowsTheCall: the request is stored, and the step that stored it does not
// return. Who decides is told to try again, and not that there is no such call.
func TestDecisionBeforeTheThreadKnowsTheCall(t *testing.T) {
	t.Parallel()
	live, s := &stuckStream{}, check.NewSpy("spied", tool.NeedsApproval(""))
	var back func()
	sticks := llmtest.Config{Script: func(llm.Request) string {
		if back == nil {
			back = live.stick() // between the records before the model call and those after it
		}
		return ""
	}}
	c := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Provider: sticks, Configure: func(c *threadmill.Config) {
		live.Stream, c.Stream = c.Stream, live
	}}).talk(t)
	posted := c.post("use spied {}")
	var asked []event.Record
	require.Eventually(t, func() bool {
		asked = check.OfType(c.Harness, c.id, event.TypeApprovalRequest)
		return len(asked) == 1
	}, testenv.Patience, testenv.Tick)
	t.Cleanup(back)
	q := harness.Payload[event.ApprovalRequest](c.Harness, asked[0])
	_, err := c.Threads.Decide(c.Ctx(), c.id, check.Approving(q))
	require.ErrorIs(t, err, signals.ErrEarly)
	status, out := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/approvals/"+q.ToolCallID, map[string]any{"decision": "approve", "by": "ann"})
	require.Equal(t, http.StatusServiceUnavailable, status, out)

	back()
	// On a busy machine, a request that was told to try again may take effect after all.
	require.Eventually(t, func() bool {
		out, err := c.Threads.Decide(c.Ctx(), c.id, check.Approving(q))
		return err == nil && (out.Result == signals.DecideAccepted || out.Result == signals.DecideAlreadyResolved)
	}, testenv.Patience, testenv.Tick)
	c.completes(posted)
	require.Len(t, s.Seen(), 1)
	check.RequireSettled(t, c.Harness, c.id)
}
