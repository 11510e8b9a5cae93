package threadclient

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestPostsAreReadBeforeTheyAreSent: the client returns the problem of an invalid post, whichever way it
// goes, and Temporal does not see it.
func TestPostsAreReadBeforeTheyAreSent(t *testing.T) {
	ctx := context.Background()
	invalid := signals.Post{ID: "e1", Payload: json.RawMessage(`{"threadId":"t1","senderId":"ann","senderType":"robot","content":"hi"}`)}
	for name, post := range map[string]func(*Client) error{
		"Post":            func(c *Client) error { _, err := c.Post(ctx, "t1", invalid); return err },
		"PostOrOpen":      func(c *Client) error { _, err := c.PostOrOpen(ctx, "t1", signals.Start{}, invalid); return err },
		"PostSignal":      func(c *Client) error { _, err := c.PostSignal(ctx, "t1", invalid); return err },
		"StartTurn":       func(c *Client) error { _, err := c.StartTurn(ctx, "t1", invalid); return err },
		"StartTurnOrOpen": func(c *Client) error { _, err := c.StartTurnOrOpen(ctx, "t1", signals.Start{}, invalid); return err },
		"Open":            func(c *Client) error { return c.Open(ctx, "t1", signals.Start{}, &invalid) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := listClient(t)
			var problem *event.FieldError
			require.ErrorAs(t, post(c), &problem)
			require.Equal(t, "payload.senderType", problem.Field)
		})
	}
	t.Run("a signal has an id", func(t *testing.T) {
		c, m := listClient(t)
		var sent signals.Post
		m.On("SignalWorkflow", mock.Anything, "thread/acme/t1", "", signals.SignalPost, mock.Anything).Run(func(args mock.Arguments) {
			sent = args.Get(4).(signals.Post)
		}).Return(nil)
		id, err := c.PostSignal(ctx, "t1", signals.Post{Payload: json.RawMessage(`{"threadId":"t1","senderId":"ann","senderType":"user","content":"hi"}`)})
		require.NoError(t, err)
		require.NotEmpty(t, id)
		require.Equal(t, id, sent.ID)
	})
}
