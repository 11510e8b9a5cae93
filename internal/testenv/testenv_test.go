package testenv

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestPostgresAnswersAndIsShared(t *testing.T) {
	url := Postgres(t)
	require.Equal(t, url, Postgres(t))
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	schema := Name("testenv_")
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "DROP SCHEMA "+schema)
	require.NoError(t, err)
}

func TestTakenPort(t *testing.T) {
	server := Postgres(t)
	bin, err := postgresBin()
	if err != nil {
		t.Skip(err) // the server comes from the environment
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	_, err = postgresOn(bin, port)
	require.ErrorIs(t, err, errPortTaken)
	require.ErrorIs(t, keeps(t.Context(), server, t.TempDir()), errPortTaken, "another server answers")
}

func TestNATSAnswersAndIsShared(t *testing.T) {
	url := NATS(t)
	require.Equal(t, url, NATS(t))
	found, err := FindNATS()
	require.NoError(t, err)
	require.Equal(t, url, found, "programs find the same server")
	require.NoError(t, greeted(context.Background(), url[len("nats://"):]))
}

func TestRequired(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "nats": false, "postgres": true, "nats,postgres": true, "nats, postgres": true, "postgresql": false,
	} {
		t.Setenv(EnvRequire, value)
		require.Equal(t, want, required("postgres"), value)
	}
}

func TestNewestPostgresByNumber(t *testing.T) {
	require.Greater(t, version("/usr/lib/postgresql/15/bin"), version("/usr/lib/postgresql/9/bin"))
	require.Zero(t, version("/usr/local/bin"))
}
