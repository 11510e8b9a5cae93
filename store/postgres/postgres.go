package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// Config configures [Open].
type Config struct {
	// URL is a connection string as for psql: a URL or key=value pairs. Required.
	URL string

	// MaxConns is the maximum number of connections. Default: pool_max_conns of the URL, or else
	// the number of CPUs, at least 4.
	MaxConns int

	// Schema contains the tables; it is created if missing. Default: the connection's own, usually
	// "public".
	Schema string

	// Logger logs the migrations at debug level. Default: none.
	Logger *slog.Logger
}

// maxConns is far above the limit of servers.
const maxConns = 10_000

// sqlStore has the methods that both drivers share.
type sqlStore = sqlstore.Store

// Store is a [store.Store] in PostgreSQL.
type Store struct {
	*sqlStore

	pool *pgxpool.Pool

	// vectors is nil if the server lacks pgvector.
	vectors *vectorQueries
}

var _ store.Store = (*Store)(nil)

// Open connects to the database and migrates the tables.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	pc, err := cfg.pool()
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("postgres: opening: %w", classify(err))
	}
	s := &Store{pool: pool}
	s.sqlStore = sqlstore.New(s.database())
	if s.vectors, err = prepare(ctx, pool, cfg); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: opening %s at %s: %w", pc.ConnConfig.Database, pc.ConnConfig.Host, classify(err))
	}
	return s, nil
}

func (c Config) pool() (*pgxpool.Config, error) {
	if c.URL == "" {
		return nil, errors.New("Config.URL: is required, such as postgres://user@host/database")
	}
	if c.MaxConns < 0 || c.MaxConns > maxConns {
		return nil, fmt.Errorf("Config.MaxConns: %d is not between 0 and %d", c.MaxConns, maxConns)
	}
	if !store.Storable(c.Schema) {
		return nil, fmt.Errorf("Config.Schema: %q cannot be a name", c.Schema)
	}
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("Config.URL: %w", err)
	}
	if c.MaxConns > 0 {
		pc.MaxConns = int32(c.MaxConns)
	}
	params := pc.ConnConfig.RuntimeParams
	if c.Schema != "" {
		params["search_path"] = quoted(c.Schema)
	}
	if params["application_name"] == "" {
		params["application_name"] = "threadmill"
	}
	// Append relies on seeing, after its lock, what was committed before it.
	params["default_transaction_isolation"] = "read committed"
	// Each statement has one good plan, and planning or compiling it takes longer than running it.
	params["plan_cache_mode"] = "force_generic_plan"
	params["jit"] = "off"
	return pc, nil
}

// prepare makes or migrates the tables, and returns the queries of vectors.
func prepare(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*vectorQueries, error) {
	if cfg.Schema != "" {
		if err := createSchema(ctx, pool, cfg.Schema); err != nil {
			return nil, fmt.Errorf("schema %q: %w", cfg.Schema, err)
		}
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := migrate(ctx, pool, logger); err != nil {
		return nil, err
	}
	return prepareVectors(ctx, pool, logger)
}

// close implements [store.Store].Close.
func (s *Store) close() error {
	s.pool.Close()
	return nil
}
