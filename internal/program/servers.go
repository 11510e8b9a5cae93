package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/stream/nats"
)

// Variables with the addresses of servers.
const (
	EnvDatabaseURL = "DATABASE_URL"
	EnvNATSURL     = "NATS_URL"

	// Those of Temporal's controller for Kubernetes.
	EnvBuild      = "TEMPORAL_WORKER_BUILD_ID"
	EnvDeployment = "TEMPORAL_DEPLOYMENT_NAME"

	// EnvRecoveryDir is a folder for the running tasks of a worker.
	EnvRecoveryDir = "THREADMILL_RECOVERY_DIR"
)

// openWithin bounds the connection to a server and the migration of its tables.
const openWithin = 30 * time.Second

// OpenPostgres opens the store at the value of DATABASE_URL.
func OpenPostgres(ctx context.Context, databaseURL string, log *slog.Logger) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	s, err := postgres.Open(ctx, postgres.Config{URL: databaseURL, Logger: log})
	if _, old := errors.AsType[*store.VersionError](err); old {
		return nil, fmt.Errorf("%s: %w", EnvDatabaseURL, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; check that PostgreSQL runs there and that the variable is right", EnvDatabaseURL, err)
	}
	return s, nil
}

// OpenSQLite opens the store in a file, or in memory if path is empty.
func OpenSQLite(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path, Logger: log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenStream opens the live stream at the value of NATS_URL, or in memory if it is empty.
func OpenStream(ctx context.Context, natsURL string, log *slog.Logger) (stream.Stream, error) {
	if natsURL == "" {
		return memory.New(memory.Config{}), nil
	}
	for server := range strings.SplitSeq(natsURL, ",") {
		// The driver's error would show the password.
		if u, err := url.Parse(strings.TrimSpace(server)); err != nil || u.Host == "" {
			return nil, Usagef("%s: is not the address of a server such as nats://host:4222", EnvNATSURL)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	s, err := nats.Open(ctx, nats.Config{URL: natsURL, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w; check that NATS runs there with JetStream (nats-server -js)", EnvNATSURL, err)
	}
	return s, nil
}
