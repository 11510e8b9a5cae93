package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// createSchema creates the schema unless it exists: the user may lack the right to create schemas.
func createSchema(ctx context.Context, pool *pgxpool.Pool, name string) error {
	var exists bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, name).Scan(&exists); err != nil {
		return err
	}
	if exists {
		return nil
	}
	_, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+quoted(name))
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == uniqueViolation {
		return nil // another process has just created it
	}
	return err
}

func migrate(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, dir,
		goose.WithSessionLocker(migrationLock{}),
		goose.WithTableName("threadmill_migrations"),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	sources := provider.ListSources()
	if err := checkVersion(ctx, pool, sources[len(sources)-1].Version); err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	for _, r := range results {
		logger.DebugContext(ctx, "migrated the store", "migration", r.Source.Path, "duration", r.Duration)
	}
	return nil
}

// checkVersion returns an error if a program that knows a version of the schema is too old for the
// database.
func checkVersion(ctx context.Context, pool *pgxpool.Pool, program int64) error {
	var exists bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass('compatibility') IS NOT NULL`).Scan(&exists); err != nil || !exists {
		return err
	}
	var database, lowest int64
	err := pool.QueryRow(ctx, `SELECT (SELECT max(version_id) FROM threadmill_migrations), lowest_version FROM compatibility`).Scan(&database, &lowest)
	if err != nil {
		return err
	}
	return sqlstore.CheckVersion(database, lowest, program)
}

// migrationLock lets one process at a time migrate a schema. Goose's own lock polls every few
// seconds; this one waits in the server, until the context ends.
type migrationLock struct{}

const migrationLockID = `hashtextextended('threadmill migrations ' || coalesce(current_schema(), ''), 0)`

// SessionLock acquires the lock.
func (migrationLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock(`+migrationLockID+`)`)
	return err
}

// SessionUnlock releases the lock.
func (migrationLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock(`+migrationLockID+`)`)
	return err
}
