package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Key is an API key from the configuration instead of the store.
type Key struct {
	// Name is the name of the principal.
	Name string

	// Namespace is the only Threadmill namespace in which the key is valid. Empty = all.
	Namespace string

	Roles Roles

	// Hash is the hash of the token: see [Token.Hash].
	Hash string

	// ExpiresAt is the time at which the key expires. Zero = never.
	ExpiresAt time.Time
}

// APIKey is an API key as the HTTP API returns it.
type APIKey struct {
	store.APIKey

	// configured: in the server's configuration file or environment, and changed there.
	Source string `json:"source" enum:"stored,configured"`
}

// The sources of an [APIKey].
const (
	SourceStored     = "stored"
	SourceConfigured = "configured"
)

// NewAPIKey is an API key with its secret, after it was created or rotated.
type NewAPIKey struct {
	// The key, without its secret.
	Key APIKey `json:"key"`

	// The secret. Only its hash is stored: it is not shown again.
	Token string `json:"token"`
}

// Validate reports the first invalid field, as an [*event.FieldError].
func (k Key) Validate() error {
	if err := ValidateName("name", k.Name); err != nil {
		return err
	}
	if _, err := ParseRoles(k.Roles.Strings()); err != nil {
		return err
	}
	if err := ValidateHash(k.Hash); err != nil {
		return event.FieldErrorf("hash", "%s", err.Error())
	}
	return nil
}

// KeySource provides keys that may change at run time, such as those of a file.
type KeySource interface {
	// APIKeys returns the current keys. It is called for each request.
	APIKeys() []Key
}

// KeysConfig configures [Keys]. Store is required.
type KeysConfig struct {
	Store store.APIKeys

	// Keys and the keys of Source, if set, are valid in addition to those of Store.
	Keys   []Key
	Source KeySource

	// Required rejects requests without a key even if no key exists. Otherwise their principal is
	// [Local] until the first key is created or configured.
	Required bool

	// Now is the clock. Default [time.Now].
	Now func() time.Time
}

const (
	// maxStale is the maximum age of a cached key: a key that another process revokes remains valid
	// for at most this time.
	maxStale = 2 * time.Second

	// maxCached is the maximum number of cached keys.
	maxCached = 10_000

	// readWithin is the timeout of reads from the store.
	readWithin = 5 * time.Second
)

// Keys authenticates requests by the API key in the header "Authorization: Bearer tmk_…".
type Keys struct {
	cfg   KeysConfig
	reads singleflight.Group

	mu    sync.Mutex
	cache map[string]cachedKey

	// any reports whether a key was ever stored, and anyAt is the time of that read. Once true, any
	// remains true.
	any   bool
	anyAt time.Time
}

type cachedKey struct {
	key store.APIKey
	at  time.Time
}

var _ Authenticator = (*Keys)(nil)

// NewKeys returns an authenticator.
func NewKeys(cfg KeysConfig) (*Keys, error) {
	if cfg.Store == nil {
		return nil, errors.New("auth: KeysConfig.Store is required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keys{cfg: cfg, cache: map[string]cachedKey{}}, nil
}

// Configured returns the keys that are not in the store.
func (k *Keys) Configured() []Key {
	switch {
	case k == nil:
		return nil
	case k.cfg.Source == nil:
		return k.cfg.Keys
	}
	return slices.Concat(k.cfg.Keys, k.cfg.Source.APIKeys())
}

func unauthenticated(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnauthenticated}, args...)...)
}

// howToGet tells clients without a key how to get one.
const howToGet = `send "Authorization: Bearer <API key>"; an administrator creates keys with "starter keys create"`

// Authenticate implements [Authenticator].
func (k *Keys) Authenticate(r *http.Request) (Principal, error) {
	configured := k.Configured()
	if !k.cfg.Required && len(configured) == 0 {
		exist, err := k.exist(r.Context())
		if err != nil {
			return Principal{}, err
		}
		if !exist {
			return Local(), nil
		}
	}
	text, ok := bearer(r)
	if !ok {
		return Principal{}, unauthenticated("an API key is required: %s", howToGet)
	}
	id, token, err := ParseToken(text)
	if err != nil {
		return Principal{}, unauthenticated("the text behind Bearer %w", err)
	}
	hash := token.Hash()
	if p, found, err := k.configured(configured, hash); found {
		return p, err
	}
	return k.stored(r.Context(), id, hash)
}

// configured compares the hash with all keys, even after a match.
func (k *Keys) configured(keys []Key, hash string) (p Principal, found bool, err error) {
	for _, key := range keys {
		if !same(key.Hash, hash) {
			continue
		}
		p, found, err = Principal{Name: key.Name, Namespace: key.Namespace, Roles: key.Roles, Kind: KindKey}, true, nil
		if ended(key.ExpiresAt, k.cfg.Now()) {
			p, err = Principal{}, expired(key.Name, key.ExpiresAt)
		}
	}
	return p, found, err
}

func (k *Keys) stored(ctx context.Context, id, hash string) (Principal, error) {
	key, err := k.read(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Principal{}, unauthenticated("the API key is not known here: %s", howToGet)
	}
	if err != nil {
		return Principal{}, err
	}
	now := k.cfg.Now()
	current := same(key.Hash, hash)
	previous := key.PreviousHash != "" && same(key.PreviousHash, hash)
	switch {
	case !current && !previous:
		return Principal{}, unauthenticated("the API key is not known here: %s", howToGet)
	case !key.RevokedAt.IsZero():
		return Principal{}, unauthenticated("API key %q is revoked", key.Name)
	case previous && ended(key.PreviousUntil, now):
		return Principal{}, unauthenticated("API key %q has been rotated: use the new one", key.Name)
	case ended(key.ExpiresAt, now):
		return Principal{}, expired(key.Name, key.ExpiresAt)
	}
	roles := make(Roles, len(key.Roles))
	for i, role := range key.Roles {
		roles[i] = Role(role)
	}
	return Principal{Name: key.Name, Namespace: key.Namespace, Roles: roles, Kind: KindKey, KeyID: key.ID}, nil
}

func ended(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

func expired(name string, at time.Time) error {
	return unauthenticated("API key %q has expired, on %s", name, at.UTC().Format(time.DateOnly))
}

// read returns a stored key, at most maxStale old.
func (k *Keys) read(ctx context.Context, id string) (store.APIKey, error) {
	k.mu.Lock()
	cached, ok := k.cache[id]
	k.mu.Unlock()
	if ok && k.cfg.Now().Sub(cached.at) < maxStale {
		return cached.key, nil
	}
	// Concurrent requests with the same key share one read. It continues if the first request ends.
	found, err, _ := k.reads.Do("key "+id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
		defer cancel()
		at := k.cfg.Now()
		key, err := k.cfg.Store.APIKey(ctx, id)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.cache, id)
		if err != nil {
			return key, err
		}
		if len(k.cache) >= maxCached {
			clear(k.cache)
		}
		k.cache[id] = cachedKey{key, at}
		return key, nil
	})
	key, _ := found.(store.APIKey)
	return key, err
}

// exist reports whether a key was ever stored. If the store is unavailable, it returns the last
// result: no key can be created at that time.
func (k *Keys) exist(ctx context.Context) (bool, error) {
	k.mu.Lock()
	exist, at := k.any, k.anyAt
	k.mu.Unlock()
	if exist || !at.IsZero() && k.cfg.Now().Sub(at) < maxStale {
		return exist, nil
	}
	found, err, _ := k.reads.Do("any", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
		defer cancel()
		now := k.cfg.Now()
		has, err := k.cfg.Store.HasAPIKeys(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err == nil:
			k.any, k.anyAt = has, now
		case k.anyAt.IsZero():
			return false, err
		default:
			k.anyAt = now // retry later, not on each request
		}
		return k.any, nil
	})
	has, _ := found.(bool)
	return has, err
}

// ParseKeys parses entries of the form name:roles:key, separated by commas or white space. Roles
// are joined by +. The key is a token or its hash. Errors never contain it.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for i, entry := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' }) {
		wrong := func(err error) error { return fmt.Errorf("entry %d: %w", i+1, err) }
		parts := strings.SplitN(entry, ":", 3)
		if len(parts) != 3 {
			return nil, wrong(errors.New("must have the form name:roles:key, such as admin:admin:tmk_…, with roles joined by +"))
		}
		roles, err := ParseRoles(strings.Split(parts[1], "+"))
		if err != nil {
			return nil, wrong(fmt.Errorf("the second part must be roles joined by +, each once: %s", roleList()))
		}
		key := Key{Name: parts[0], Roles: roles, Hash: parts[2]}
		if !strings.HasPrefix(key.Hash, hashPrefix) {
			_, token, err := ParseToken(key.Hash)
			if err != nil {
				return nil, wrong(fmt.Errorf("the key %w", err))
			}
			key.Hash = token.Hash()
		}
		if err := key.Validate(); err != nil {
			return nil, wrong(err)
		}
		keys = append(keys, key)
	}
	return keys, ValidateKeys(keys)
}

// ValidateKeys rejects keys with the same name, regardless of case, in overlapping namespaces, and
// keys with the same hash.
func ValidateKeys(keys []Key) error {
	for i, k := range keys {
		for _, before := range keys[:i] {
			if strings.EqualFold(before.Name, k.Name) && overlap(before.Namespace, k.Namespace) {
				return fmt.Errorf("two API keys have the name %q: choose another for one of them", k.Name)
			}
			if same(before.Hash, k.Hash) {
				return fmt.Errorf("API keys %q and %q are the same: make a new one with \"starter keys generate\"", before.Name, k.Name)
			}
		}
	}
	return nil
}

func overlap(a, b string) bool { return a == "" || b == "" || a == b }
