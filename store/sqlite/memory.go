package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"modernc.org/sqlite"
)

// memoryDSN is that of the databases in memory with this name, which exist while they have a connection.
func memoryDSN(name string) string {
	return "file:/threadmill-" + name + "?vfs=memdb&_txlock=immediate"
}

// openMemory opens a new database in memory: a copy of one that was migrated once, which takes a tenth of the migrations' time.
func (s *Store) openMemory(ctx context.Context) error {
	from, err := migrated()
	if err != nil {
		return err
	}
	dsn := memoryDSN(rand.Text())
	if s.anchor, err = pool(dsn, 1); err != nil {
		return err
	}
	if err := copyFrom(ctx, s.anchor, from.dsn); err != nil {
		return err
	}
	if s.writer, err = pool(dsn, 1); err != nil {
		return err
	}
	s.reader = s.writer
	return nil
}

// template is a database in memory that has all tables, and exists as long as its connection.
type template struct {
	dsn    string
	anchor driver.Conn // a pool would have a goroutine
}

var migrated = sync.OnceValues(func() (t template, err error) {
	t.dsn = memoryDSN(rand.Text())
	if t.anchor, err = (&sqlite.Driver{}).Open(t.dsn); err != nil {
		return t, err
	}
	db, err := pool(t.dsn, 1)
	if err != nil {
		return t, err
	}
	return t, errors.Join(migrate(context.Background(), db, slog.New(slog.DiscardHandler)), db.Close())
})

// copyFrom copies a migrated database, and gives the copy an id of its own.
func copyFrom(ctx context.Context, db *sql.DB, dsn string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = conn.Raw(func(raw any) error {
		restorer, ok := raw.(interface {
			NewRestore(dsn string) (*sqlite.Backup, error)
		})
		if !ok {
			return fmt.Errorf("the driver's connection is a %T, which copies no database", raw)
		}
		restore, err := restorer.NewRestore(dsn)
		if err != nil {
			return err
		}
		_, err = restore.Step(-1) // all pages
		return errors.Join(err, restore.Finish())
	})
	if err != nil {
		return fmt.Errorf("copying the tables: %w", err)
	}
	_, err = conn.ExecContext(ctx, `UPDATE identity SET id = lower(hex(randomblob(16)))`)
	return err
}
