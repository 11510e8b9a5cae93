package testenv

import (
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The environment variables that this package reads.
const (
	EnvDatabaseURL = "THREADMILL_TEST_DATABASE_URL"
	EnvNATSURL     = "THREADMILL_TEST_NATS_URL"
	EnvRequire     = "THREADMILL_REQUIRE"
)

// errAbsent means that a server is not installed, as opposed to failing to start.
var errAbsent = errors.New("not present")

var (
	postgresURL = sync.OnceValues(startPostgres)
	natsURL     = sync.OnceValues(startNATS)
)

// Postgres returns the URL of a PostgreSQL server whose user may create schemas.
func Postgres(t testing.TB) string {
	t.Helper()
	return provide(t, "postgres", "PostgreSQL", EnvDatabaseURL, postgresURL)
}

// PostgresProgram returns the path of one of PostgreSQL's client programs, such as pg_dump.
func PostgresProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := postgresProgram(name)
	present(t, "postgres", "PostgreSQL's "+name, "install it", err)
	return path
}

// FindPostgres returns what [Postgres] does, or "" if there is no PostgreSQL. It is for programs that are no tests.
func FindPostgres() (string, error) { return find(EnvDatabaseURL, postgresURL) }

// FindNATS returns what [NATS] does, or "" if there is no NATS. It is for programs that are no tests.
func FindNATS() (string, error) { return find(EnvNATSURL, natsURL) }

// find returns what [given] does, or "" if there is no server.
func find(env string, start func() (string, error)) (string, error) {
	url, err := given(env, start)
	if errors.Is(err, errAbsent) {
		err = nil
	}
	return url, err
}

// NATS returns the URL of a NATS server with JetStream.
func NATS(t testing.TB) string {
	t.Helper()
	return provide(t, "nats", "NATS", EnvNATSURL, natsURL)
}

// Name returns a unique name of lower-case letters and digits, valid for a schema, a stream or a
// subject.
func Name(prefix string) string {
	return prefix + strings.ToLower(rand.Text()[:16])
}

func provide(t testing.TB, word, name, env string, start func() (string, error)) string {
	t.Helper()
	url, err := given(env, start)
	present(t, word, name, "set "+env+", or install it", err)
	return url
}

// given returns the URL in the environment, or that of a server that it starts.
func given(env string, start func() (string, error)) (string, error) {
	if url := os.Getenv(env); url != "" {
		return url, nil
	}
	return start()
}

// present skips the test if err says that something is absent, and fails it if the test must not be
// skipped, or for other errors.
func present(t testing.TB, word, name, remedy string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errAbsent) && !required(word):
		t.Skipf("%s not present: %s (%v)", name, remedy, err)
	default:
		t.Fatalf("%s: %v", name, err)
	}
}

func required(word string) bool {
	words := strings.FieldsFunc(os.Getenv(EnvRequire), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(words, word)
}
