package mcplogin_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// faultyStore fails to store documents.
type faultyStore struct {
	teststore.Store
	failures atomic.Int64
}

func (s *faultyStore) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (store.Document, error) {
	if s.failures.Add(-1) >= 0 {
		return store.Document{}, errors.New("the store is down")
	}
	return s.Store.PutDocument(ctx, namespace, d, after)
}

// renewal is a renewal that waits for the authorization server.
type renewal struct {
	*rig
	handler auth.OAuthHandler
	store   *faultyStore
	ended   chan error
	release func()
}

// newRenewal begins a renewal.
func newRenewal(t *testing.T) *renewal {
	t.Helper()
	r := &renewal{rig: newRig(t, tool.LoginPerNamespace), ended: make(chan error, 1)}
	require.Equal(t, http.StatusOK, r.login("").Status)
	require.NoError(t, r.worker.Restart(t.Context(), space, "notes"))
	r.tool(r.worker, oauthtest.ToolWhoami)
	r.store = &faultyStore{Store: r.rig.store}
	r.rig.store = r.store
	logins, worker := r.process(tool.LoginPerNamespace)
	server, client, err := worker.Find(t.Context(), space, "notes")
	require.NoError(t, err)
	r.handler = logins.Handler(space, server, "", client)
	source, err := r.handler.TokenSource(t.Context())
	require.NoError(t, err)
	token, err := source.Token()
	require.NoError(t, err)
	// The workers may renew it, too: nobody may have done so before the wait begins.
	reached, release := r.oauth.HoldTokens()
	r.release = release
	r.oauth.Expire()
	go func() { r.ended <- r.rejected(http.StatusUnauthorized, token.AccessToken, "") }()
	select {
	case <-reached:
	case err := <-r.ended:
		require.Fail(t, "the renewal ended at once", "%v", err)
	}
	return r
}

// rejected tells the handler that the server rejected a request.
func (r *renewal) rejected(status int, token, challenge string) error {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.oauth.URL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return r.handler.Authorize(r.Context(), req, &http.Response{
		StatusCode: status, Header: http.Header{"Www-Authenticate": {challenge}}, Body: http.NoBody,
	})
}

// ends lets the renewal end, and checks that the login can be renewed again.
func (r *renewal) ends() {
	r.release()
	require.NoError(r, <-r.ended)
	require.Equal(r, 1, r.oauth.Counts().Refreshes)
	r.oauth.Expire()
	res, err := r.call(r.worker, oauthtest.ToolWhoami, "", "{}", nil)
	require.NoError(r, err)
	require.Equal(r, "You are alice.", res.Output)
	require.Equal(r, 2, r.oauth.Counts().Refreshes)
	require.Empty(r, r.oauth.Violations())
}

// TestRenewWhileTheLoginChanges: a call that lacks a scope changes the login while it is renewed. The new refresh
// token is kept, and so is the scope.
func TestRenewWhileTheLoginChanges(t *testing.T) {
	r := newRenewal(t)
	var need *mcp.LoginError
	require.ErrorAs(t, r.rejected(http.StatusForbidden, "any", `Bearer error="insufficient_scope", scope="write"`), &need)
	require.True(t, need.Partial)
	r.ends()
	status, err := r.logins.Status(t.Context(), space, r.server(""), "")
	require.NoError(t, err)
	require.Equal(t, []string{oauthtest.ScopeWrite}, status.Wanted)
}

// TestRenewWhileTheStoreIsDown: a refresh token that was received is stored as soon as that is possible.
func TestRenewWhileTheStoreIsDown(t *testing.T) {
	r := newRenewal(t)
	r.store.failures.Store(3)
	r.ends()
}

// TestRenewWhileSomebodyLogsIn: the new login stays.
func TestRenewWhileSomebodyLogsIn(t *testing.T) {
	r := newRenewal(t)
	before, err := r.logins.Current(t.Context(), space, r.server(""), "")
	require.NoError(t, err)
	link, _, err := r.logins.Link(space, "notes", "", "alice")
	require.NoError(t, err)
	var b oauthtest.Browser
	back, err := b.VisitUntil(t.Context(), link, r.public.URL+"/oauth/callback")
	require.NoError(t, err)
	r.release()
	require.NoError(t, <-r.ended)
	page, err := b.Visit(t.Context(), back.URL.String())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, page.Status, page.Text)
	after, err := r.logins.Current(t.Context(), space, r.server(""), "")
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	require.True(t, strings.HasPrefix(page.Text, "Logged in"))
	require.Empty(t, r.oauth.Violations())
}
