package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// Config configures [Open]. The zero value is a store in memory.
type Config struct {
	// Path is the database file. A missing file is created with its folder, readable by its owner
	// only. Default, and ":memory:": in memory, deleted by Close.
	Path string

	// Readers is the number of connections for reading. Default 4. A store in memory has one
	// connection.
	Readers int

	// Logger logs the migrations at debug level. Default: none.
	Logger *slog.Logger
}

func (c Config) inMemory() bool { return c.Path == "" || c.Path == ":memory:" }

// sqlStore has the methods that both drivers share.
type sqlStore = sqlstore.Store

// Store is a [store.Store] in SQLite.
type Store struct {
	*sqlStore

	// writer has one connection, whose transactions begin immediate.
	writer *sql.DB
	reader *sql.DB

	db sqlstore.Database

	// anchor keeps a database in memory alive while the pool has no connection.
	anchor *sql.DB

	closing  sync.Once
	closeErr error
}

var _ store.Store = (*Store)(nil)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationTries is the number of attempts of a migration: one that another process has just
// applied fails, and the next attempt finds it done.
const migrationTries = 5

// Open opens the store and migrates its tables.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Readers < 0 {
		return nil, fmt.Errorf("sqlite: Config.Readers: %d is negative", cfg.Readers)
	}
	if cfg.Readers == 0 {
		cfg.Readers = 4
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("sqlite: opening %q: %w", cfg.Path, err)
	}
	return s, nil
}

func open(ctx context.Context, cfg Config) (_ *Store, err error) {
	s := &Store{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if cfg.inMemory() {
		err = s.openMemory(ctx)
	} else {
		err = s.openFile(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	s.db = s.database()
	s.sqlStore = sqlstore.New(s.db)
	return s, nil
}

func (s *Store) openFile(ctx context.Context, cfg Config) error {
	path, err := create(cfg.Path)
	if err != nil {
		return err
	}
	// What is deleted is overwritten: an erased thread must not be found in the file. Each append changes the same few pages, so the
	// longer the write-ahead log, up to 16 MiB, the fewer of them are written to the file.
	dsn := (&url.URL{Scheme: "file", Path: path}).String() + "?_busy_timeout=10000&_journal_mode=WAL&_synchronous=NORMAL" +
		"&_pragma=secure_delete(1)&_pragma=wal_autocheckpoint(4000)"
	if s.writer, err = pool(dsn+"&_txlock=immediate", 1); err != nil {
		return err
	}
	if s.reader, err = pool(dsn+"&_query_only=1", cfg.Readers); err != nil {
		return err
	}
	return migrate(ctx, s.writer, cfg.Logger)
}

// create creates the file and its folder if necessary, and returns its absolute path as a URL.
func create(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path, nil
}

func pool(dsn string, size int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

func migrate(ctx context.Context, db *sql.DB, logger *slog.Logger) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, dir,
		goose.WithTableName("threadmill_migrations"),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	sources := provider.ListSources()
	for range migrationTries {
		if err = checkVersion(ctx, db, sources[len(sources)-1].Version); err != nil {
			if _, old := errors.AsType[*store.VersionError](err); old {
				return err
			}
			continue
		}
		var results []*goose.MigrationResult
		if results, err = provider.Up(ctx); err == nil {
			for _, r := range results {
				logger.DebugContext(ctx, "migrated the store", "migration", r.Source.Path, "duration", r.Duration)
			}
			return nil
		}
	}
	return fmt.Errorf("migrations: %w", err)
}

// checkVersion returns an error if a program that knows a version of the schema is too old for the
// database.
func checkVersion(ctx context.Context, db *sql.DB, program int64) error {
	var exists bool
	if err := db.QueryRowContext(ctx, `SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'compatibility'`).Scan(&exists); err != nil || !exists {
		return err
	}
	var database, lowest int64
	if err := db.QueryRowContext(ctx, `SELECT (SELECT max(version_id) FROM threadmill_migrations), lowest_version FROM compatibility`).Scan(&database, &lowest); err != nil {
		return err
	}
	return sqlstore.CheckVersion(database, lowest, program)
}

// close implements [store.Store].Close.
func (s *Store) close() error {
	s.closing.Do(func() {
		pools := []*sql.DB{s.reader, s.writer, s.anchor}
		if s.reader == s.writer {
			pools = pools[1:]
		}
		for _, db := range pools {
			if db != nil {
				s.closeErr = errors.Join(s.closeErr, db.Close())
			}
		}
	})
	return s.closeErr
}
