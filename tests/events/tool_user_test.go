package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// userTools name the user of their calls: at once, after an approval, and as a background task.
func userTools() []tool.Tool {
	whose := func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
		return fmt.Sprintf("for %q", call.User), nil
	}
	return []tool.Tool{
		tool.MustFunc("whose", "Names the user.", whose),
		tool.MustFunc("whose_quick", "Names the user.", whose, tool.Quick()),
		tool.MustFunc("whose_approved", "Names the user.", whose, tool.NeedsApproval("it is a test")),
		tool.MustFunc("whose_task", "Names the user.", whose, tool.Background()),
	}
}

// by is the post of a person's message.
func by(sender, thread, content string) signals.Post {
	p := signals.UserMessage(thread, sender, content)
	p.ID = signals.NewID()
	return p
}

// TestToolUser: tools know the person for whom they work, whatever the way of their call.
//
//ci:replayed
func TestToolUser(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	names := []string{"wait", "whose", "whose_quick", "whose_approved", "whose_task"}
	w := ruled(t, harness.Options{
		Agents: check.Team(names...), Tools: append(userTools(), g), Dynamic: shortRuns,
	}, rule.Rule{Name: "acts", Events: []string{"deployed", "background_task.*"}, Priority: 30, Agent: &rule.Agent{}})
	opened := func() string { return w.Open("assistant") }
	user := func(t *testing.T, thread, name string) string { return check.ResultIn(t, w, thread, name).Content }

	t.Run("who sent the message", func(t *testing.T) {
		id := opened()
		out := check.Turn(w, id, by("ben", id, "use whose {}\nuse whose_quick {}"))
		require.Equal(t, "whose returned: for \"ben\"\nwhose_quick returned: for \"ben\"", out.Message.Content)
	})
	t.Run("nobody, in the turn of an event", func(t *testing.T) {
		id := opened()
		check.Handle(w, id, asking("deployed", "use whose {}"))
		require.Equal(t, `for ""`, user(t, id, "whose"))
	})
	t.Run("who asks by a user_query, which a webhook may not say", func(t *testing.T) {
		query := event.UserQuery{Content: "use whose {}", UserID: "ben"}
		id, hooked := opened(), opened()
		e := check.Happened(event.TypeUserQuery, query)
		check.Handle(w, hooked, e)
		require.Equal(t, `for ""`, user(t, hooked, "whose"))
		e.Metadata.Source = ""
		published, err := w.Threads.Publish(w.Ctx(), id, e, threadclient.PublishOptions{})
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, published.EventID).Status)
		require.Equal(t, `for "ben"`, user(t, id, "whose"))
	})
	t.Run("whose background task it is", func(t *testing.T) {
		id := opened()
		task := check.StartTask(t, w, id, "use whose_task {}") // ann says so
		require.Equal(t, `"for \"ann\""`, string(check.AwaitTold(t, w, task).End.Result))
	})
	t.Run("whose approved call it is, in a later run of the workflow", func(t *testing.T) {
		id := opened()
		first := check.CurrentRun(w, id)
		p := by("ben", id, "use whose_approved {}")
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		for range 20 {
			held := by("ann", id, "hello")
			held.OnWaiting = event.OnWaitingHold
			_, err := w.Threads.Post(w.Ctx(), id, held)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return check.CurrentRun(w, id) != first }, testenv.Patience, testenv.Tick)
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
		require.Equal(t, signals.TurnCompleted, w.Await(id, p.ID).Status)
		require.Equal(t, `for "ben"`, user(t, id, "whose_approved"))
	})
	t.Run("for whom the sub-agent works, and then who joins", func(t *testing.T) {
		id := opened()
		p := by("ben", id, check.Asks("helper", "use whose {}\nuse wait {}"))
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
		check.Arrives(t, g.Reached, "the tool")
		below := check.Sub(w, id, 1)
		joins := by("cleo", below, "use whose_quick {}")
		joins.OnBusy = event.OnBusySteer
		_, err = w.Threads.Post(w.Ctx(), below, joins)
		require.NoError(t, err)
		g.Release()
		require.Equal(t, signals.TurnCompleted, w.Await(id, p.ID).Status)
		require.Equal(t, `for "ben"`, user(t, below, "whose"))
		require.Equal(t, `for "cleo"`, user(t, below, "whose_quick"))
	})
}

// TestToolUserWithKeys: with API keys, the user is the name of the key.
func TestToolUserWithKeys(t *testing.T) {
	t.Parallel()
	_, secret := auth.NewToken()
	w := harness.New(t, harness.Options{Tools: userTools(), Serve: func(c threadmill.Config, api *httpapi.Config) {
		keys, err := auth.NewKeys(auth.KeysConfig{Store: teststore.Of(c.Store), Keys: []auth.Key{{
			Name: "carol", Roles: auth.Roles{auth.RoleRead, auth.RolePost, auth.RoleOperate}, Hash: secret.Hash(),
		}}})
		require.NoError(t, err)
		api.Authenticator = keys
	}})
	send := func(t *testing.T, path string, body any) (status int, text string) {
		t.Helper()
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(w.Ctx(), http.MethodPost, w.API.URL+path, bytes.NewReader(raw))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+secret.Reveal())
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, res.Body.Close()) }()
		out, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(out)
	}
	const says = "use whose {}"
	query := func(user string) map[string]any { return map[string]any{"content": says, "userId": user} }
	said := func(thread, sender string) map[string]any {
		return map[string]any{"threadId": thread, "senderId": sender, "senderType": "user", "content": says}
	}
	for name, body := range map[string]func(thread, sender string) (path string, body any){
		"a message": func(id, sender string) (string, any) {
			return "/v1/threads/" + id + "/messages", map[string]any{"content": says, "sender": sender}
		},
		"an item of the queue": func(id, sender string) (string, any) {
			return "/v1/threads/" + id + "/queue", map[string]any{"type": "message", "payload": said(id, sender)}
		},
		"a user_query": func(id, sender string) (string, any) {
			return "/v1/threads/" + id + "/events", map[string]any{"type": event.TypeUserQuery, "payload": query(sender)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			path, forged := body(id, "ann")
			status, text := send(t, path, forged)
			require.Equal(t, http.StatusForbidden, status, text)
			path, own := body(id, "carol")
			status, text = send(t, path, own)
			require.Less(t, status, 300, text)
			require.Eventually(t, func() bool { return len(check.ResultsOf(w, id, "whose")) == 1 }, testenv.Patience, testenv.Tick)
			require.Equal(t, `for "carol"`, check.ResultIn(t, w, id, "whose").Content)
		})
	}
}
