package program

import (
	"context"
	"fmt"
	"net"
	"net/textproto"
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/store"
)

// EnvAPIKeys is the variable with API keys, or their hashes: see [auth.ParseKeys].
const EnvAPIKeys = "THREADMILL_API_KEYS" //nolint:gosec // the name of a variable

// Modes of authentication. By default, requests need a key as soon as a key exists, and a listener
// that other machines can reach does not start without keys.
const (
	AuthKeys  = "keys"
	AuthProxy = "proxy"
)

// AuthFlags are the flags for authentication.
type AuthFlags struct {
	Mode   string
	Header string
}

// Register adds the flags.
func (f *AuthFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Mode, "auth", "", "keys: every request needs an API key; proxy: a proxy in front authenticates requests (default: keys, as soon as there is one)")
	flags.StringVar(&f.Header, "auth-header", auth.DefaultProxyHeader, "header in which the proxy of --auth proxy names the user")
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// Validate checks the flags.
func (f *AuthFlags) Validate() error {
	switch {
	case f.Mode != "" && f.Mode != AuthKeys && f.Mode != AuthProxy:
		return Usagef("--auth: %q is neither %s nor %s", f.Mode, AuthKeys, AuthProxy)
	case !headerName.MatchString(f.Header):
		return Usagef("--auth-header: %q is not the name of a header", f.Header)
	case f.Header != auth.DefaultProxyHeader && f.Mode != AuthProxy:
		return Usagef("--auth-header: goes with --auth proxy only")
	}
	f.Header = textproto.CanonicalMIMEHeaderKey(f.Header)
	return nil
}

// Loopback reports whether only this machine can reach a listener at the address.
func Loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Authenticator returns the authenticator for the listener of --http. It fails if other machines
// can reach the listener and requests need no authentication.
func (f AuthFlags) Authenticator(ctx context.Context, addr net.Addr, records store.Store, s Settings) (auth.Authenticator, error) {
	keys, err := store.Ask[store.APIKeys](records)
	if err != nil {
		return nil, fmt.Errorf("Config.Store: %w", err)
	}
	ring, err := auth.NewKeys(auth.KeysConfig{
		Store: keys, Keys: s.APIKeys, Source: s.KeySource, Required: f.Mode != "" || !Loopback(addr),
	})
	if err != nil {
		return nil, err
	}
	if f.Mode == "" && !Loopback(addr) && len(ring.Configured()) == 0 {
		ctx, cancel := context.WithTimeout(ctx, openWithin)
		defer cancel()
		exist, err := keys.HasAPIKeys(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for API keys: %w", err)
		}
		if !exist {
			return nil, Usagef(`--http: %s can be reached from other machines, but no API key exists: `+
				`create a key with "starter keys create --database" or "--sqlite FILE", or configure one with %s or apiKeys; `+
				`listen on this machine only, with --http 127.0.0.1:8080; `+
				`or use --auth %s if a proxy authenticates requests`, addr, EnvAPIKeys, AuthProxy)
		}
	}
	if f.Mode == AuthProxy {
		return auth.Proxy(f.Header, ring), nil
	}
	return ring, nil
}

// addKeys adds the keys of the environment to those of the file. Names must be unique.
func (s *Settings) addKeys(text string) error {
	env, err := auth.ParseKeys(text)
	if err != nil {
		return Usagef("%s: %w", EnvAPIKeys, err)
	}
	s.APIKeys = env
	if s.KeySource == nil {
		return nil
	}
	if err := auth.ValidateKeys(slices.Concat(env, s.KeySource.APIKeys())); err != nil {
		return Usagef("%s and apiKeys of the file: %w", EnvAPIKeys, err)
	}
	return nil
}
