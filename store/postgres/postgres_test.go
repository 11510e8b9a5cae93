package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/storetest"
)

// schema returns the name of an unused schema, and drops the schema at the end.
func schema(t testing.TB) string {
	t.Helper()
	server, name := testenv.Postgres(t), testenv.Name("Store \"test\" ")
	t.Cleanup(func() { exec(t, server, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE") })
	return name
}

func exec(t testing.TB, server, query string, args ...any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // cancelled before cleanup runs
	conn, err := pgx.Connect(ctx, server)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, query, args...)
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
}

func open(t testing.TB, schema string, conns int) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: testenv.Postgres(t), Schema: schema, MaxConns: conns})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// reused returns a function that opens a store in a schema that an earlier test has left, empty. To make its tables takes longer than
// most tests.
func reused(whole *testing.T) func(*testing.T) store.Store {
	testenv.Postgres(whole) // without it, the whole test is skipped
	var left []string
	return func(t *testing.T) store.Store {
		if len(left) == 0 {
			left = append(left, schema(whole))
		}
		name := left[0]
		left = left[1:]
		t.Cleanup(func() {
			empty(t, name)
			left = append(left, name)
		})
		return open(t, name, 0)
	}
}

// empty deletes what tests have stored in a schema.
func empty(t *testing.T, schema string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // cancelled before cleanup runs
	conn, err := pgx.Connect(ctx, testenv.Postgres(t))
	require.NoError(t, err)
	defer conn.Close(ctx)
	// Migrations fill these.
	rows, err := conn.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = $1 AND
		tablename NOT IN ('threadmill_migrations', 'compatibility', 'write_probe', 'identity')`, schema)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for i, table := range tables {
		tables[i] = pgx.Identifier{schema, table}.Sanitize()
	}
	_, err = conn.Exec(ctx, "TRUNCATE "+strings.Join(tables, ", ")+" RESTART IDENTITY")
	require.NoError(t, err)
}

func TestStore(t *testing.T) { storetest.Run(t, reused(t)) }

func TestKnowledge(t *testing.T) { storetest.RunKnowledge(t, reused(t)) }

func TestProcessesShareEntities(t *testing.T) {
	name := schema(t)
	storetest.RunSharedEntities(t, open(t, name, 0), open(t, name, 2), open(t, name, 1))
}

func TestProcessesShareAThread(t *testing.T) {
	name := schema(t)
	storetest.RunShared(t, open(t, name, 0), open(t, name, 2), open(t, name, 1))
}

func TestProcessesShareAgents(t *testing.T) {
	name := schema(t)
	storetest.RunSharedAgents(t, open(t, name, 0), open(t, name, 2), open(t, name, 1))
}

func TestOpenAtOnce(t *testing.T) {
	name, server := schema(t), testenv.Postgres(t)
	errs := make(chan error, 6)
	var opening sync.WaitGroup
	for range cap(errs) {
		opening.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: server, Schema: name, MaxConns: 1})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		})
	}
	opening.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}

func TestSchemasKeepApart(t *testing.T) {
	one, other := open(t, schema(t), 0), open(t, schema(t), 0)
	_, err := one.Append(t.Context(), key, store.Batch{})
	require.NoError(t, err)
	_, err = other.Thread(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestOpenErrors(t *testing.T) {
	for field, cfg := range map[string]postgres.Config{
		"Config.URL":      {},
		"Config.URL:":     {URL: "postgres://host:port/db"},
		"Config.MaxConns": {URL: "postgres://host/db", MaxConns: -1},
		"Config.Schema":   {URL: "postgres://host/db", Schema: "a\x00"},
	} {
		_, err := postgres.Open(t.Context(), cfg)
		require.ErrorContains(t, err, field)
	}
	_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://somebody:hush@127.0.0.1:1/db"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hush")
}

// The server's own default must not weaken the order of records.
func TestReadCommittedWhateverTheDefault(t *testing.T) {
	name := schema(t)
	server := with(t, "default_transaction_isolation", "repeatable read")
	var stores []store.Store
	for range 2 {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: server, Schema: name})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		stores = append(stores, s)
	}
	storetest.RunShared(t, stores...)
}

// TestReadOnly: a server that accepts no writes, such as a former primary, is unavailable, and says why.
func TestReadOnly(t *testing.T) {
	name := schema(t)
	require.NoError(t, open(t, name, 0).Ping(t.Context()))
	s, err := postgres.Open(t.Context(), postgres.Config{URL: with(t, "default_transaction_read_only", "on"), Schema: name})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for range 2 {
		err = s.Ping(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Equal(t, store.ReasonReadOnly, store.ReasonOf(err))
	}
	_, err = s.Append(t.Context(), key, store.Batch{})
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, err = s.Threads(t.Context(), key.Namespace, store.ThreadPage{})
	require.NoError(t, err, "it can be read")
}

// TestOlderProgram: a program that does not know what a migration has changed does not start; one
// that the migration allows does.
func TestOlderProgram(t *testing.T) {
	name := schema(t)
	require.NoError(t, open(t, name, 0).Close())
	tables := pgx.Identifier{name}.Sanitize()
	exec(t, testenv.Postgres(t), `INSERT INTO `+tables+`.threadmill_migrations (version_id, is_applied) VALUES (1000, true)`)
	require.NoError(t, open(t, name, 0).Close(), "while workers are replaced, the previous version works with the new tables")

	exec(t, testenv.Postgres(t), `UPDATE `+tables+`.compatibility SET lowest_version = 900`)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: testenv.Postgres(t), Schema: name})
	var old *store.VersionError
	require.ErrorAs(t, err, &old)
	require.Equal(t, store.VersionError{Database: 1000, Lowest: 900, Program: 12}, *old)
	require.ErrorContains(t, err, "start a newer version of Threadmill")
}

// A failure in the last statement of an append undoes the first.
func TestFailedAppendLeavesNothing(t *testing.T) {
	name := schema(t)
	s := open(t, name, 0)
	exec(t, testenv.Postgres(t), "ALTER TABLE "+pgx.Identifier{name, "tool_logs"}.Sanitize()+" ADD CHECK (agent <> 'refused')")
	log := store.ToolLog{ToolCallID: "call", Agent: "refused", StartedAt: time.Now()}
	batch := store.Batch{Records: []event.Record{message("a")}, ToolStart: &log}
	_, err := s.Append(t.Context(), key, batch)
	require.ErrorContains(t, err, key.String())
	_, err = s.Thread(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	found, err := s.Records(t.Context(), key, store.Query{})
	require.NoError(t, err)
	require.Empty(t, found)

	log.Agent = "accepted"
	a, err := s.Append(t.Context(), key, batch)
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Head)
	require.True(t, a.Started)
}

// After the server has cut the connections, the store works again.
func TestConnectionsCut(t *testing.T) {
	name := testenv.Name("cut")
	s, err := postgres.Open(t.Context(), postgres.Config{
		URL: with(t, "application_name", name), Schema: schema(t), MaxConns: 2,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = s.Append(t.Context(), key, store.Batch{Records: []event.Record{message("a")}})
	require.NoError(t, err)
	exec(t, testenv.Postgres(t), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = $1", name)
	require.Eventually(t, func() bool {
		a, err := s.Append(t.Context(), key, store.Batch{Records: []event.Record{message("b")}})
		return err == nil && a.Head == 2
	}, testenv.Patience, testenv.Tick)
}

// with returns the server's URL with a parameter set.
func with(t *testing.T, parameter, value string) string {
	t.Helper()
	server, err := url.Parse(testenv.Postgres(t))
	require.NoError(t, err)
	values := server.Query()
	values.Set(parameter, value)
	server.RawQuery = values.Encode()
	return server.String()
}

var key = store.Key{Namespace: "n", ThreadID: "t"}

func message(id string) event.Record {
	return event.NewRecord(id, event.TypeMessage, "trace", "", time.Now(), event.Message{ID: id, Content: "hello"})
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, schema(b), 0)
	for i := 0; b.Loop(); i++ {
		_, err := s.Append(b.Context(), key, store.Batch{Records: []event.Record{
			message(fmt.Sprint(i, "a")), message(fmt.Sprint(i, "b")), message(fmt.Sprint(i, "c")),
		}})
		require.NoError(b, err)
	}
}

// link forwards connections to a server until it is cut.
type link struct {
	net.Listener
	server string

	mu    sync.Mutex
	conns []net.Conn
}

func newLink(t *testing.T, server string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &link{Listener: l, server: server}
	t.Cleanup(k.cut)
	go k.serve()
	return k
}

func (k *link) serve() {
	for {
		near, err := k.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", k.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		k.mu.Lock()
		k.conns = append(k.conns, near, far)
		k.mu.Unlock()
		go func() { _, _ = io.Copy(near, far) }()
		go func() { _, _ = io.Copy(far, near) }()
	}
}

func (k *link) cut() {
	_ = k.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_ = c.Close()
	}
	k.conns = nil
}

// TestServerGone: errors of an unreachable server differ from other errors.
func TestServerGone(t *testing.T) {
	server, err := url.Parse(testenv.Postgres(t))
	require.NoError(t, err)
	k := newLink(t, server.Host)
	server.Host = k.Addr().String()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: server.String(), Schema: schema(t), MaxConns: 2})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Append(t.Context(), key, store.Batch{})
	require.NoError(t, err)
	k.cut()
	for range 3 { // first lost connections, then refused ones
		_, err = s.Thread(t.Context(), key)
		require.ErrorIs(t, err, store.ErrUnavailable)
		_, err = s.Append(t.Context(), key, store.Batch{})
		require.ErrorIs(t, err, store.ErrUnavailable)
		_, err = s.Agents(t.Context(), "default", "", 0)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, s.Ping(t.Context()), store.ErrUnavailable)
	}
}
