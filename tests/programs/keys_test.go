package programs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/cli"
	"github.com/threadmill/threadmill/internal/testenv"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// keyring is a devserver with API keys: starter's output for each, in a separate file.
type keyring struct {
	d   *proc.Devserver
	dir string
}

// starter runs a command with a person's key, or without one.
func (k keyring) starter(t *testing.T, who string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	args = append([]string{"--api", k.d.URL, "--address", k.d.Temporal}, args...)
	if who != "" {
		args = append(args, "--api-key-file", k.file(who))
	}
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, strings.TrimSpace(out.String()), errs.String()
}

func (k keyring) file(who string) string { return filepath.Join(k.dir, who) }

// make runs a command that prints a key, and keeps it as a person's.
func (k keyring) make(t *testing.T, by, who string, args ...string) {
	t.Helper()
	code, secret, errs := k.starter(t, by, args...)
	require.Zero(t, code, errs)
	require.NoError(t, os.WriteFile(k.file(who), []byte(secret), 0o600))
}

func (k keyring) request(ctx context.Context, t *testing.T, who, method, path string, body any) *http.Response {
	t.Helper()
	var in bytes.Buffer
	if body != nil {
		require.NoError(t, json.NewEncoder(&in).Encode(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, k.d.URL+path, &in)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if who != "" {
		secret, err := os.ReadFile(k.file(who))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+string(secret))
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return res
}

// call makes a request and returns its status and its body.
func (k keyring) call(t *testing.T, who, method, path string, body any) (int, map[string]any) {
	t.Helper()
	res := k.request(t.Context(), t, who, method, path, body)
	defer func() { _ = res.Body.Close() }()
	out := map[string]any{}
	_ = json.NewDecoder(res.Body).Decode(&out)
	return res.StatusCode, out
}

// TestKeysInUse uses keys with a running devserver: requests without the role or under another name
// change nothing, and a revoked key ends its streams.
func TestKeysInUse(t *testing.T) {
	t.Parallel()
	k := keyring{d: proc.New(t, proc.Options{Binary: proc.Build(t)}), dir: t.TempDir()}
	k.d.Start()
	// refused is a condition: a person's key, or none, may not read.
	refused := func(who string) func() bool {
		return func() bool {
			status, _ := k.call(t, who, http.MethodGet, "/v1/threads", nil)
			return status == http.StatusUnauthorized
		}
	}
	require.False(t, refused("")(), "on loopback nobody needs a key until there is one")
	k.make(t, "", "root", "keys", "create", "root", "--roles", "admin", "--sqlite", filepath.Join(k.d.Data, "threadmill.db"))
	require.Eventually(t, refused(""), testenv.Patience, testenv.Tick, "then everybody does")
	k.make(t, "root", "ann", "keys", "create", "ann", "--roles", "read,post,approve")
	k.make(t, "root", "ben", "keys", "create", "ben", "--roles", "read,post")
	k.make(t, "root", "eve", "keys", "create", "eve", "--roles", "read")

	opens := map[string]any{"id": "t1", "message": "use shell_cmd {\"command\": \"echo hello\"}"}
	for who, want := range map[string]int{"": http.StatusUnauthorized, "eve": http.StatusForbidden} {
		status, out := k.call(t, who, http.MethodPost, "/v1/threads", opens)
		require.Equal(t, want, status, out)
	}
	status, out := k.call(t, "ben", http.MethodPost, "/v1/threads", opens)
	require.Equal(t, http.StatusCreated, status, out)
	var asked struct{ Approvals []event.ApprovalRequest }
	require.Eventually(t, func() bool {
		res := k.request(t.Context(), t, "eve", http.MethodGet, "/v1/threads/t1/approvals", nil)
		defer func() { _ = res.Body.Close() }()
		return json.NewDecoder(res.Body).Decode(&asked) == nil && len(asked.Approvals) == 1
	}, testenv.Patience, testenv.Tick)

	t.Run("a role that is missing, and another's name", func(t *testing.T) {
		path := "/v1/threads/t1/approvals/" + asked.Approvals[0].ToolCallID
		for who, body := range map[string]map[string]any{
			"":    {"decision": "approve"},
			"eve": {"decision": "approve"},
			"ben": {"decision": "approve", "by": "ann"},
			"ann": {"decision": "approve", "by": "ben"},
		} {
			want := http.StatusForbidden
			if who == "" {
				want = http.StatusUnauthorized
			}
			status, out := k.call(t, who, http.MethodPost, path, body)
			require.Equal(t, want, status, "%s: %v", who, out)
		}
		status, out := k.call(t, "ben", http.MethodPost, "/v1/threads/t1/messages", map[string]any{"content": "hello", "sender": "ann"})
		require.Equal(t, http.StatusForbidden, status, out)
		status, out = k.call(t, "ann", http.MethodPost, path, map[string]any{"decision": "approve"})
		require.Equal(t, http.StatusOK, status, out)
	})
	var page struct{ Messages []event.Message }
	require.Eventually(t, func() bool {
		res := k.request(t.Context(), t, "eve", http.MethodGet, "/v1/threads/t1/messages", nil)
		defer func() { _ = res.Body.Close() }()
		return json.NewDecoder(res.Body).Decode(&page) == nil && len(page.Messages) == 4
	}, testenv.Patience, testenv.Tick)
	require.Equal(t, "ben", page.Messages[0].SenderID, "a message is from the holder of the key")

	t.Run("a key that is revoked ends its streams, and stays revoked", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		stream := k.request(ctx, t, "eve", http.MethodGet, "/v1/threads/t1/events", nil)
		defer func() { _ = stream.Body.Close() }()
		require.Equal(t, http.StatusOK, stream.StatusCode)
		lines := bufio.NewScanner(stream.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), `"by":"ann"`) {
		}
		require.NoError(t, ctx.Err(), "the decision is shown, and is of the holder of the key")
		code, _, errs := k.starter(t, "root", "keys", "revoke", "eve")
		require.Zero(t, code, errs)
		for lines.Scan() {
		}
		require.NoError(t, ctx.Err(), "the server ends the stream")
		require.Eventually(t, refused("eve"), testenv.Patience, testenv.Tick)
		k.d.Kill()
		k.d.Start()
		require.True(t, refused("eve")(), "after a restart as well")
		require.False(t, refused("ann")())
	})
}
