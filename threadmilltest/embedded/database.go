package embedded

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/schema/sqlite"

	"github.com/threadmill/threadmill/internal/ops/filelock"
)

const (
	databaseFile = "temporal.db"
	lockFile     = "temporal.lock"
)

// instance counts the databases that this process has opened.
var instance atomic.Int64

// database is the SQLite database of a server. It holds the lock on its folder.
type database struct {
	config *config.SQL
	handle sqlplugin.DB
	lock   *os.File // nil in memory

	// emptyWAL ends the emptying of the write-ahead log; nil in memory.
	emptyWAL func()
}

// openDatabase opens the database in dir, or one in memory if dir is empty, and creates its tables.
func openDatabase(dir string) (*database, error) {
	if dir == "" {
		return open(memoryConfig(), nil)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("embedded: DataDir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded: DataDir: %w", err)
	}
	lock, err := filelock.Open(filepath.Join(dir, lockFile), os.O_CREATE)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("embedded: DataDir %s: %w", dir, ErrDataDirInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: DataDir: lock %s: %w", dir, err)
	}
	path := filepath.Join(dir, databaseFile)
	if err := createFile(path); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("embedded: create %s: %w", path, err)
	}
	db, err := open(fileConfig(path, map[string]string{
		"journal_mode": "wal",
		"synchronous":  "normal", // in WAL mode a killed process loses nothing; no fsync per commit
		"busy_timeout": "5000",
		// What is deleted is overwritten: what was erased must not be found in the file.
		"secure_delete": "on",
	}), lock)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	pool, err := poolOf(db.handle)
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	db.emptyWAL = keepEmptyingWAL(pool)
	return db, nil
}

// walEmptied is how often the write-ahead log is emptied. It has what was deleted until it is.
const walEmptied = 5 * time.Second

// keepEmptyingWAL empties the write-ahead log again and again, on the only connection of the server. From another connection, it would fail
// transactions of the server that have begun by reading: they get SQLITE_BUSY at once when they write meanwhile.
func keepEmptyingWAL(db *dbsql.DB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(walEmptied)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, _ = db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`) // if it fails, the next one does it
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func open(cfg *config.SQL, lock *os.File) (*database, error) {
	handle, err := sql.NewSQLDB(sqlplugin.DbKindMain, cfg, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return nil, fmt.Errorf("embedded: open database %s: %w", cfg.DatabaseName, err)
	}
	return &database{config: cfg, handle: handle, lock: lock}, nil
}

func (d *database) close() error {
	if d.emptyWAL != nil {
		d.emptyWAL()
	}
	err := closePool(d.handle)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

func memoryConfig() *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: "embedded-" + strconv.FormatInt(instance.Add(1), 10),
		ConnectAttributes: map[string]string{
			"mode":  "memory",
			"cache": "shared",
		},
	}
}

func fileConfig(path string, pragmas map[string]string) *config.SQL {
	attributes := map[string]string{
		"mode": "rwc",
		// Temporal's plugin pools connections by connection string and never drops a closed pool:
		// an unused number keeps a second start on the same file from getting it.
		"setup": strconv.FormatInt(instance.Add(1), 10),
	}
	for name, value := range pragmas {
		attributes[name] = value
	}
	return &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: path, ConnectAttributes: attributes}
}

// createFile creates the database file with all its tables, or nothing: a killed process must not
// leave a part of the schema.
func createFile(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSchema(draft); err != nil {
		return err
	}
	if err := syncFile(draft); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

func writeSchema(path string) error {
	db, err := open(fileConfig(path, map[string]string{"journal_mode": "off", "synchronous": "off"}), nil)
	if err != nil {
		return err
	}
	return errors.Join(sqlite.SetupSchema(db.config), db.close())
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// poolOf returns the connection pool under a handle of Temporal's SQLite plugin. The pool is not exported; a test checks that the path
// to it stays valid.
func poolOf(handle sqlplugin.DB) (*dbsql.DB, error) {
	pool := reflect.Indirect(reflect.ValueOf(handle))
	for _, field := range []string{"db", "DB"} {
		if pool.Kind() != reflect.Struct || !pool.FieldByName(field).IsValid() {
			return nil, errHiddenPool
		}
		pool = reflect.Indirect(pool.FieldByName(field))
	}
	if pool.Type() != reflect.TypeFor[dbsql.DB]() {
		return nil, errHiddenPool
	}
	return (*dbsql.DB)(pool.Addr().UnsafePointer()), nil
}

var errHiddenPool = errors.New("embedded: this version of the Temporal server hides its connection pool")

// closePool closes the pool of a handle. The plugin keeps every pool open until the process ends, which would keep the file open and,
// in memory, all its data.
func closePool(handle sqlplugin.DB) error {
	pool, err := poolOf(handle)
	if err != nil {
		return err
	}
	return pool.Close()
}

// prepareNamespace creates or updates the namespace of cfg with its retention and search
// attributes. The server does not run yet, so its caches cannot be stale.
func (d *database) prepareNamespace(ctx context.Context, cfg Config) error {
	rows, err := d.handle.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &cfg.Namespace})
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("embedded: read namespace %q: %w", cfg.Namespace, err)
	}
	if len(rows) == 0 {
		return d.createNamespace(ctx, cfg)
	}
	return d.updateNamespace(ctx, cfg, rows[0])
}
