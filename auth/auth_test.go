package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

type keyStore = store.APIKeys

// vault is a store of keys with a clock. It counts reads and can fail.
type vault struct {
	keyStore
	mu    sync.Mutex
	reads int
	fail  error
	now   time.Time
}

func newVault(t *testing.T) *vault {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &vault{keyStore: db, now: time.Now()}
}

func (v *vault) read() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	return v.fail
}

func (v *vault) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	if err := v.read(); err != nil {
		return store.APIKey{}, err
	}
	return v.keyStore.APIKey(ctx, id)
}

func (v *vault) HasAPIKeys(ctx context.Context) (bool, error) {
	if err := v.read(); err != nil {
		return false, err
	}
	return v.keyStore.HasAPIKeys(ctx)
}

// pass advances the clock, after which cached keys are stale.
func (v *vault) pass(d time.Duration) { v.now = v.now.Add(d) }

func (v *vault) keys(t *testing.T, required bool, configured ...auth.Key) *auth.Keys {
	keys, err := auth.NewKeys(auth.KeysConfig{
		Store: v, Required: required, Keys: configured, Now: func() time.Time { return v.now },
	})
	require.NoError(t, err)
	return keys
}

func (v *vault) create(t *testing.T, name string, change ...func(*store.APIKey)) (store.APIKey, auth.Token) {
	id, token := auth.NewToken()
	k := store.APIKey{ID: id, Namespace: "default", Name: name, Roles: []string{"read", "post"}, Hash: token.Hash()}
	for _, c := range change {
		c(&k)
	}
	made, err := v.CreateAPIKey(t.Context(), k)
	require.NoError(t, err)
	return made, token
}

func with(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/threads", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func TestStoredKeys(t *testing.T) {
	v := newVault(t)
	keys := v.keys(t, true)
	k, token := v.create(t, "ann")
	p, err := keys.Authenticate(with(token.Reveal()))
	require.NoError(t, err)
	require.Equal(t, auth.Principal{Name: "ann", Namespace: "default", Roles: auth.Roles{auth.RoleRead, auth.RolePost}, Kind: auth.KindKey, KeyID: k.ID}, p)

	other := auth.TokenFor(k.ID).Reveal()
	basic, twice := with(""), with(token.Reveal())
	basic.SetBasicAuth("ann", token.Reveal())
	twice.Header.Add("Authorization", "Bearer "+token.Reveal())
	for name, r := range map[string]*http.Request{
		"none": with(""), "another secret": with(other), "unknown": with(auth.TokenFor("nobody").Reveal()), "no token": with("tmk_"),
		"basic": basic, "two": twice, "longer": with(token.Reveal() + "A"), "in a query": httptest.NewRequest(http.MethodGet, "/?key="+token.Reveal(), nil),
	} {
		p, err := keys.Authenticate(r)
		require.ErrorIs(t, err, auth.ErrUnauthenticated, name)
		require.Empty(t, p, name)
		require.NotContains(t, err.Error(), token.Reveal()[20:], name)
	}
	_, err = keys.Authenticate(with("bearer"))
	require.ErrorIs(t, err, auth.ErrUnauthenticated)
	lower := with("")
	lower.Header.Set("Authorization", "bearer "+token.Reveal())
	_, err = keys.Authenticate(lower)
	require.NoError(t, err, "the scheme in any case")
}

func TestKeysEnd(t *testing.T) {
	v := newVault(t)
	keys := v.keys(t, true)
	check := func(token auth.Token, says string) {
		t.Helper()
		_, err := keys.Authenticate(with(token.Reveal()))
		if says == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, auth.ErrUnauthenticated)
		require.ErrorContains(t, err, says)
	}
	k, first := v.create(t, "ann")
	check(first, "")

	second := auth.TokenFor(k.ID)
	_, err := v.RotateAPIKey(t.Context(), "default", k.ID, second.Hash(), v.now.Add(time.Minute))
	require.NoError(t, err)
	v.pass(3 * time.Second)
	check(first, "")
	check(second, "")
	v.pass(time.Minute)
	check(first, "rotated")
	check(second, "")

	third := auth.TokenFor(k.ID)
	_, err = v.RotateAPIKey(t.Context(), "default", k.ID, third.Hash(), time.Time{})
	require.NoError(t, err)
	v.pass(3 * time.Second)
	check(second, "not known")
	check(third, "")

	_, err = v.RevokeAPIKey(t.Context(), "default", k.ID, "root")
	require.NoError(t, err)
	v.pass(3 * time.Second)
	check(third, "revoked")

	_, brief := v.create(t, "bob", func(k *store.APIKey) { k.ExpiresAt = v.now.Add(time.Minute) })
	check(brief, "")
	v.pass(time.Minute + time.Microsecond)
	check(brief, "expired")
}

// TestKeysAreReadAgain: the result of a read is used for two seconds.
func TestKeysAreReadAgain(t *testing.T) {
	v := newVault(t)
	keys := v.keys(t, true)
	_, token := v.create(t, "ann")
	for range 10 {
		_, err := keys.Authenticate(with(token.Reveal()))
		require.NoError(t, err)
	}
	require.Equal(t, 1, v.reads)
	v.pass(2 * time.Second)
	_, err := keys.Authenticate(with(token.Reveal()))
	require.NoError(t, err)
	require.Equal(t, 2, v.reads)

	v.fail = errors.New("the store is down")
	_, err = keys.Authenticate(with(token.Reveal()))
	require.NoError(t, err, "for as long as a revoked key would be valid")
	v.pass(2 * time.Second)
	_, err = keys.Authenticate(with(token.Reveal()))
	require.ErrorIs(t, err, v.fail)
	require.NotErrorIs(t, err, auth.ErrUnauthenticated)
}

func TestKeysAreNotRequired(t *testing.T) {
	v := newVault(t)
	keys := v.keys(t, false)
	p, err := keys.Authenticate(with(""))
	require.NoError(t, err)
	require.Equal(t, auth.Local(), p)
	_, err = keys.Authenticate(with(auth.TokenFor("x").Reveal()))
	require.NoError(t, err, "a key too many does no harm")

	v.fail = errors.New("the store is down")
	v.pass(time.Hour)
	_, err = keys.Authenticate(with(""))
	require.NoError(t, err, "nobody can create a key meanwhile")
	_, err = v.keys(t, false).Authenticate(with(""))
	require.ErrorIs(t, err, v.fail, "a process that has never asked does not know")
	v.fail = nil

	k, token := v.create(t, "ann")
	v.pass(2 * time.Second)
	_, err = keys.Authenticate(with(""))
	require.ErrorIs(t, err, auth.ErrUnauthenticated)
	_, err = keys.Authenticate(with(token.Reveal()))
	require.NoError(t, err)
	_, err = v.RevokeAPIKey(t.Context(), "default", k.ID, "")
	require.NoError(t, err)
	v.pass(time.Hour)
	_, err = keys.Authenticate(with(""))
	require.ErrorIs(t, err, auth.ErrUnauthenticated, "the last key does not open the door again")

	_, err = newVault(t).keys(t, true).Authenticate(with(""))
	require.ErrorIs(t, err, auth.ErrUnauthenticated, "required")
	hash := auth.TokenFor("x").Hash()
	_, err = newVault(t).keys(t, false, auth.Key{Name: "ci", Roles: auth.Roles{auth.RoleRead}, Hash: hash}).Authenticate(with(""))
	require.ErrorIs(t, err, auth.ErrUnauthenticated, "configured")
}

func TestConfiguredKeys(t *testing.T) {
	v := newVault(t)
	v.fail = errors.New("the store is down")
	ci, old := auth.TokenFor("ci"), auth.TokenFor("old")
	keys := v.keys(t, true,
		auth.Key{Name: "old", Roles: auth.Roles{auth.RoleAdmin}, Hash: old.Hash(), ExpiresAt: v.now},
		auth.Key{Name: "ci", Namespace: "default", Roles: auth.Roles{auth.RoleRead}, Hash: ci.Hash()})
	p, err := keys.Authenticate(with(ci.Reveal()))
	require.NoError(t, err, "without the store")
	require.Equal(t, auth.Principal{Name: "ci", Namespace: "default", Roles: auth.Roles{auth.RoleRead}, Kind: auth.KindKey}, p)
	_, err = keys.Authenticate(with(old.Reveal()))
	require.ErrorIs(t, err, auth.ErrUnauthenticated)
	require.ErrorContains(t, err, "expired")
}

func TestProxy(t *testing.T) {
	v := newVault(t)
	_, token := v.create(t, "bot")
	proxy := auth.Proxy("X-Forwarded-User", v.keys(t, true))
	named := func(names ...string) *http.Request {
		r := with("")
		for _, name := range names {
			r.Header.Add("x-forwarded-user", name)
		}
		return r
	}
	p, err := proxy.Authenticate(named("ann"))
	require.NoError(t, err)
	require.Equal(t, auth.Principal{Name: "ann", Roles: auth.Roles{auth.RoleAdmin}, Kind: auth.KindProxy}, p)
	for name, r := range map[string]*http.Request{
		"nobody": named(), "empty": named(""), "two": named("ann", "eve"), "invisible": named("ann\u200b"), "reserved": named("System"),
	} {
		_, err := proxy.Authenticate(r)
		require.ErrorIs(t, err, auth.ErrUnauthenticated, name)
	}
	sso := named("ann")
	sso.Header.Set("Authorization", "Bearer eyJhbGciOi.e30.x")
	p, err = proxy.Authenticate(sso)
	require.NoError(t, err, "what the proxy got is passed on")
	require.Equal(t, "ann", p.Name)
	p, err = proxy.Authenticate(with(token.Reveal()))
	require.NoError(t, err)
	require.Equal(t, "bot", p.Name)
}

func TestRoles(t *testing.T) {
	for _, role := range auth.AllRoles() {
		for _, other := range auth.AllRoles() {
			require.Equal(t, role == other || role == auth.RoleAdmin, auth.Roles{role}.Has(other), "%s: %s", role, other)
		}
		require.False(t, auth.Roles{}.Has(role))
	}
	roles, err := auth.ParseRoles([]string{"approve", "read"})
	require.NoError(t, err)
	require.Equal(t, auth.Roles{auth.RoleRead, auth.RoleApprove}, roles)
	for _, names := range [][]string{nil, {"root"}, {"Read"}, {""}, {"read", "read"}} {
		_, err := auth.ParseRoles(names)
		var field *event.FieldError
		require.ErrorAs(t, err, &field, "%q", names)
		require.Equal(t, "roles", field.Field)
	}
}

func TestParseKeys(t *testing.T) {
	token := auth.TokenFor("ops")
	keys, err := auth.ParseKeys("ops:admin:" + token.Reveal() + ",\n ci:read+post:" + auth.TokenFor("ci").Hash())
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.Equal(t, auth.Key{Name: "ops", Roles: auth.Roles{auth.RoleAdmin}, Hash: token.Hash()}, keys[0])
	require.Equal(t, auth.Roles{auth.RoleRead, auth.RolePost}, keys[1].Roles)
	none, err := auth.ParseKeys(" ")
	require.NoError(t, err)
	require.Empty(t, none)

	secret := token.Reveal()
	for name, text := range map[string]string{
		"no parts": secret, "wrong order": "ops:" + secret + ":admin", "short": "ops:admin:tmk_ops_short", "no role": "ops::" + secret,
		"no name": ":admin:" + secret, "reserved": "system:admin:" + secret, "short hash": "ops:admin:sha256:00",
		"one name": "ops:admin:" + secret + " OPS:read:" + auth.TokenFor("x").Reveal(), "one key": "a:admin:" + secret + " b:read:" + secret,
	} {
		_, err := auth.ParseKeys(text)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), secret[8:20], name)
	}
}

// TestTokensHide: only Reveal returns the secret text of a token.
func TestTokensHide(t *testing.T) {
	id, token := auth.NewToken()
	require.Regexp(t, `^tmk_[a-z0-9]{12}_[A-Z0-9]{40}$`, token.Reveal())
	got, parsed, err := auth.ParseToken(token.Reveal())
	require.NoError(t, err)
	require.Equal(t, id, got)
	require.Equal(t, token, parsed)
	require.NoError(t, auth.ValidateHash(token.Hash()))
	_, another := auth.NewToken()
	require.NotEqual(t, token.Hash(), another.Hash())

	encoded, err := json.Marshal(map[string]any{"token": token})
	require.NoError(t, err)
	log := &strings.Builder{}
	slog.New(slog.NewTextHandler(log, nil)).Info("x", "token", token)
	for _, text := range []string{fmt.Sprint(token), fmt.Sprintf("%v %s %q %#v", token, token, token, token), string(encoded), log.String()} {
		require.NotContains(t, text, token.Reveal()[17:])
		require.Contains(t, text, "***")
	}
	_, _, err = auth.ParseToken("tmk_" + strings.Repeat("x", 10))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "xxx")
}

// TestConstantTime: only [crypto/subtle] compares hashes.
func TestConstantTime(t *testing.T) {
	comparison := regexp.MustCompile(`(?i)hash *(==|!=) *[^" ].*`)
	for _, file := range []string{"keys.go", "token.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Empty(t, comparison.FindAllString(string(source), -1), "%s: compare hashes with same", file)
	}
	source, err := os.ReadFile("token.go")
	require.NoError(t, err)
	assert.Contains(t, string(source), "subtle.ConstantTimeCompare")
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"ann", "Ann Lee", "build-bot"} {
		require.NoError(t, auth.ValidateName("name", name))
	}
	for _, name := range []string{"", "system", "World", "user", "human", "api", "ann\u200b", "a\nb", " ann", strings.Repeat("x", event.MaxName+1)} {
		var field *event.FieldError
		require.ErrorAs(t, auth.ValidateName("name", name), &field, "%q", name)
		require.Equal(t, "name", field.Field)
	}
}
