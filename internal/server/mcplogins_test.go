package server_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// loginsFake lets a browser log in at once.
type loginsFake struct{}

func (loginsFake) Login(context.Context, string, string, string) (tool.ServerLogin, error) {
	return tool.ServerLogin{ID: "present", LoggedIn: true}, nil
}

func (loginsFake) LoginLink(context.Context, string, string, string, string) (string, time.Time, error) {
	return "", time.Time{}, nil
}

func (loginsFake) Logout(context.Context, string, string, string) error { return nil }

func (loginsFake) LoginPages(done func(context.Context, toolserver.LoggedIn)) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		done(context.WithoutCancel(r.Context()), toolserver.LoggedIn{Namespace: "default", Server: "notes", By: "ann"})
	})
}

// lateThreads says how questions are answered.
type lateThreads struct {
	*threads
	answered chan signals.InputAnswers
}

// late lists threads a moment after they began to wait.
func late(s store.Store) store.Store {
	var lists atomic.Int64
	return store.With(s, func(ctx context.Context, name string, do func(context.Context) error) error {
		if name == "threads" && lists.Add(1) == 1 {
			return nil
		}
		return do(ctx)
	})
}

func (f *lateThreads) AnswerInput(_ context.Context, _ string, a signals.InputAnswers) (signals.DecideOutcome, error) {
	f.answered <- a
	return signals.DecideAccepted, nil
}

// TestLoginWakesLateQuestions: a question that the store shows after the login is answered too.
func TestLoginWakesLateQuestions(t *testing.T) {
	asked := &lateThreads{answered: make(chan signals.InputAnswers, 10)}
	w := newWorld(t, withServers(&toolServers{}, toolserver.Permission{}), func(c *server.Config) {
		asked.threads = c.Threads.(*threads)
		c.ToolSource.(*toolSource).logins = loginsFake{}
		c.Threads, c.Store = asked, late(c.Store)
	})
	asks := func(thread, refused, toolCall string) {
		login := &event.InputLogin{Server: "notes", Refused: refused}
		w.requests(thread, event.InputRequest{ToolCallID: toolCall, Questions: []event.InputQuestion{{ID: "login", Kind: event.InputURL, Login: login}}})
	}
	asks("t1", "present", "needs another login")
	asks("t2", "former", "c1")
	require.Equal(t, http.StatusOK, w.call("GET", "/oauth/callback", nil).status)
	for range 2 { // it is looked for again, and these threads do not take the answer
		select {
		case a := <-asked.answered:
			require.Equal(t, "c1", a.ToolCallID)
			require.Equal(t, "ann", a.By)
			require.Equal(t, event.InputAccept, a.Answers["login"].Action)
		case <-w.ctx.Done():
			t.Fatal("the question was not answered")
		}
	}
}
