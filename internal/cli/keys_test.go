package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
)

// keysWorld has an API that requires keys, and the file of its store.
type keysWorld struct {
	*world
	db        teststore.Store
	file, api string
}

func newKeysWorld(t *testing.T) *keysWorld {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "threadmill.db")
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: file})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	live := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, live.Close()) })
	keys, err := auth.NewKeys(auth.KeysConfig{Store: db, Required: true})
	require.NoError(t, err)
	handler, err := server.New(server.Config{Threads: struct{ server.Threads }{}, Backend: backend.Backend{Store: db, Stream: live, Library: library.New(library.Config{Store: db})}, Authenticator: keys})
	require.NoError(t, err)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return &keysWorld{world: newWorld(t), db: db, file: file, api: srv.URL}
}

func (w *keysWorld) starter(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	return w.run("", append([]string{"--api", w.api}, args...)...)
}

func (w *keysWorld) ok(args ...string) string {
	w.t.Helper()
	code, out, errs := w.starter(args...)
	require.Equal(w.t, exitOK, code, errs)
	return strings.TrimSpace(out)
}

func TestKeyCommands(t *testing.T) {
	w := newKeysWorld(t)
	code, _, errs := w.starter("keys", "list")
	require.Equal(t, exitFailed, code)
	for _, way := range []string{"wants an API key", envKey, "--api-key-file", "starter keys create", "--sqlite"} {
		require.Contains(t, errs, way)
	}

	root := w.ok("keys", "create", "root", "--roles", "admin", "--sqlite", w.file)
	_, _, err := auth.ParseToken(root)
	require.NoError(t, err, "the secret alone stands on stdout")
	t.Setenv(envKey, root)
	ann := w.ok("keys", "create", "ann", "--roles", "read,approve", "--expires", "720h")
	require.Contains(t, w.ok("keys", "list"), "read,approve")

	var made struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(w.ok("keys", "rotate", "Ann", "--overlap", "1h", "--json")), &made))
	t.Setenv(envKey, ann)
	w.ok("agents", "list") // the previous key is still valid
	code, _, errs = w.starter("keys", "list")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "does not allow this")
	require.Contains(t, errs, "role admin")

	t.Setenv(envKey, root)
	require.Equal(t, "ann revoked", w.ok("keys", "revoke", "ann"))
	code, _, errs = w.starter("keys", "revoke", "ann")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "starter keys list")
	require.NotContains(t, w.ok("keys", "list"), "approve")
	require.Contains(t, w.ok("keys", "list", "--revoked"), "approve")
	generated := w.ok("keys", "generate")
	require.Regexp(t, `^secret  tmk_\w+\nhash    sha256:[0-9a-f]{64}$`, generated)

	_, err = w.db.SaveAgent(t.Context(), "default", store.AgentVersion{Name: "clerk", Definition: []byte(`{"model":"demo/demo"}`), By: "ann"}, -1)
	require.NoError(t, err)
	for name, args := range map[string][]string{
		"an agent's":    {"keys", "create", "Clerk", "--roles", "read", "--sqlite", w.file},
		"no roles":      {"keys", "create", "x"},
		"unknown role":  {"keys", "create", "x", "--roles", "root"},
		"reserved":      {"keys", "create", "system", "--roles", "read"},
		"bad end":       {"keys", "create", "x", "--roles", "read", "--expires", "soon"},
		"no database":   {"keys", "create", "x", "--roles", "read", "--sqlite", w.file + ".gone"},
		"both":          {"keys", "create", "x", "--roles", "read", "--sqlite", w.file, "--database"},
		"minus overlap": {"keys", "rotate", "x", "--overlap", "-1h"},
	} {
		code, _, errs := w.starter(args...)
		require.Equal(t, exitUsage, code, "%s: %s", name, errs)
	}
	require.NoFileExists(t, w.file+".gone")
}

// TestKeySources: the key comes from a file, the environment or the profile, and is never printed.
func TestKeySources(t *testing.T) {
	w := newKeysWorld(t)
	root := w.ok("keys", "create", "root", "--roles", "admin", "--sqlite", w.file)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(root+"\n"), 0o600))
	w.ok("--api-key-file", file, "keys", "list")

	require.NoError(t, os.Chmod(file, 0o644))
	code, _, errs := w.starter("--api-key-file", file, "keys", "list")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "chmod 600")

	require.NoError(t, os.WriteFile(file, []byte("hunter2-hunter2"), 0o600))
	require.NoError(t, os.Chmod(file, 0o600))
	code, _, errs = w.starter("--api-key-file", file, "keys", "list")
	require.Equal(t, exitUsage, code)
	require.NotContains(t, errs, "hunter2")
	t.Setenv(envKey, "hunter2-hunter2")
	code, _, errs = w.starter("keys", "list")
	require.Equal(t, exitUsage, code)
	require.NotContains(t, errs, "hunter2")
	t.Setenv(envKey, "")

	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "threadmill")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for profile, args := range map[string][]string{"default": nil, "work": {"--profile", "work"}} {
		code, _, _ = w.starter(append(args, "keys", "list")...)
		require.Equal(t, exitFailed, code)
		require.NoError(t, os.WriteFile(filepath.Join(dir, profile+".key"), []byte(root), 0o600))
		w.ok(append(args, "keys", "list")...)
	}
}

// TestKeyNamesTheActor: with a key, requests name no actor, because the API knows it; the API
// rejects another name.
func TestKeyNamesTheActor(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var queries, keys []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries, keys = append(queries, r.URL.Query().Get("by")), append(keys, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(srv.Close)
	w := newWorld(t)
	run := func(args ...string) {
		w.run("", append([]string{"--api", srv.URL, "agents", "delete", "clerk"}, args...)...)
	}
	t.Setenv("USER", "ann")
	run()
	token := auth.TokenFor("x").Reveal()
	t.Setenv(envKey, token)
	run()
	run("--by", "eve")
	require.Equal(t, []string{"ann", "", "eve"}, queries)
	require.Equal(t, []string{"", "Bearer " + token, "Bearer " + token}, keys)
}
