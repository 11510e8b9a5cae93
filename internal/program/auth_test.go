package program

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

func TestAuthenticator(t *testing.T) {
	const here, everywhere = "127.0.0.1", "::"
	key := auth.Key{Name: "root", Roles: auth.Roles{auth.RoleAdmin}, Hash: auth.TokenFor("x").Hash()}
	for _, c := range []struct {
		name, ip, mode     string
		configured, stored bool

		// fails: the program does not start. open: requests without credentials are allowed.
		fails, open bool
	}{
		{name: "this machine", ip: here, open: true},
		{name: "this machine, IPv6", ip: "::1", open: true},
		{name: "this machine, configured key", ip: here, configured: true},
		{name: "this machine, stored key", ip: here, stored: true},
		{name: "this machine, keys required", ip: here, mode: AuthKeys},
		{name: "this machine, proxy", ip: here, mode: AuthProxy},
		{name: "others", ip: everywhere, fails: true},
		{name: "others by one address", ip: "10.0.0.5", fails: true},
		{name: "others, configured key", ip: everywhere, configured: true},
		{name: "others, stored key", ip: everywhere, stored: true},
		{name: "others, keys required", ip: everywhere, mode: AuthKeys},
		{name: "others, proxy", ip: everywhere, mode: AuthProxy},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, err := sqlite.Open(t.Context(), sqlite.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			var configured []auth.Key
			if c.configured {
				configured = append(configured, key)
			}
			if c.stored {
				_, err := db.CreateAPIKey(t.Context(), store.APIKey{ID: "x", Namespace: "other", Name: "root", Roles: []string{"admin"}, Hash: key.Hash})
				require.NoError(t, err)
			}
			flags := AuthFlags{Mode: c.mode, Header: auth.DefaultProxyHeader}
			require.NoError(t, flags.Validate())
			a, err := flags.Authenticator(t.Context(), &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 8080}, db, Settings{APIKeys: configured})
			if c.fails {
				var usage *usageError
				require.ErrorAs(t, err, &usage)
				for _, way := range []string{"--http", "--auth proxy", "starter keys create", "--database", "--sqlite", EnvAPIKeys, "apiKeys", "127.0.0.1:8080"} {
					require.ErrorContains(t, err, way)
				}
				return
			}
			require.NoError(t, err)
			_, err = a.Authenticate(httptest.NewRequest(http.MethodGet, "/v1/threads", nil))
			require.Equal(t, c.open, err == nil, err)
			if !c.open {
				require.ErrorIs(t, err, auth.ErrUnauthenticated)
			}
		})
	}
}

// TestAPIKeysOfFileAndEnvironment: keys of both are valid, the file is followed, and no error shows
// a secret.
func TestAPIKeysOfFileAndEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "threadmill.yaml")
	ci, ops := auth.TokenFor("ci"), auth.TokenFor("ops")
	write := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte("agents: [{name: a, model: demo/demo}]\n"+text), 0o600))
	}
	env := map[string]string{EnvAPIKeys: "ops:admin:" + ops.Reveal(), "CI_KEY": ci.Reveal()}
	load := func() (Settings, error) {
		return Load(SettingsConfig{File: file, Workspace: t.TempDir(), Getenv: func(name string) string { return env[name] }})
	}
	write("apiKeys: [{name: ci, roles: [read, post], secretEnv: CI_KEY, namespace: default, expires: 2027-01-31}]\n")
	t.Chdir(t.TempDir())
	s, err := load()
	require.NoError(t, err)
	keys := slices.Concat(s.APIKeys, s.KeySource.APIKeys())
	require.Len(t, keys, 2)
	require.Equal(t, "ops", keys[0].Name)
	require.Equal(t, ci.Hash(), keys[1].Hash)
	require.Equal(t, "default", keys[1].Namespace)
	require.Equal(t, "2027-01-31T00:00:00Z", keys[1].ExpiresAt.Format("2006-01-02T15:04:05Z07:00"))

	for name, text := range map[string]string{
		"secret in the file": "apiKeys: [{name: ci, roles: [read], secret: " + ci.Reveal() + "}]\n",
		"secret as variable": "apiKeys: [{name: ci, roles: [read], secretEnv: " + ci.Reveal() + "}]\n",
		"secret as hash":     "apiKeys: [{name: ci, roles: [read], hash: " + ci.Reveal() + "}]\n",
		"unset variable":     "apiKeys: [{name: ci, roles: [read], secretEnv: NOBODY}]\n",
		"no key":             "apiKeys: [{name: ci, roles: [read]}]\n",
		"two keys":           "apiKeys: [{name: ci, roles: [read], secretEnv: CI_KEY, hash: \"" + ci.Hash() + "\"}]\n",
		"unknown role":       "apiKeys: [{name: ci, roles: [root], secretEnv: CI_KEY}]\n",
		"no roles":           "apiKeys: [{name: ci, secretEnv: CI_KEY}]\n",
		"no name":            "apiKeys: [{roles: [read], secretEnv: CI_KEY}]\n",
		"reserved":           "apiKeys: [{name: system, roles: [read], secretEnv: CI_KEY}]\n",
		"bad day":            "apiKeys: [{name: ci, roles: [read], secretEnv: CI_KEY, expires: soon}]\n",
		"bad namespace":      "apiKeys: [{name: ci, roles: [read], secretEnv: CI_KEY, namespace: a/b}]\n",
		"one name":           "apiKeys: [{name: ci, roles: [read], secretEnv: CI_KEY}, {name: CI, roles: [read], hash: \"" + ops.Hash() + "\"}]\n",
		"a name of both":     "apiKeys: [{name: ops, roles: [read], secretEnv: CI_KEY}]\n",
	} {
		write(text)
		_, err := load()
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), ci.Reveal()[8:20], name)
	}
	env[EnvAPIKeys] = ""
	write("")
	s, err = load()
	require.NoError(t, err)
	require.Empty(t, s.APIKeys)
	require.Empty(t, s.KeySource.APIKeys())
}
