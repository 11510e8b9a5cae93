package sqlite

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// LimitPages limits the size of the database, as a full disk would: 0 = to what it has now.
func LimitPages(ctx context.Context, s *Store, pages int) error {
	if pages == 0 {
		if err := s.writer.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
	}
	var got int
	return s.writer.QueryRowContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Scan(&got)
}

// TableRows returns how many rows the tables have whose names begin with a prefix, those of full-text indexes among them.
func TableRows(ctx context.Context, s *Store, prefix string) (map[string]int, error) {
	counts := map[string]int{}
	err := sqlstore.Each(ctx, s.db.Reader, only(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE $1 || '%'`), func(row sqlstore.Row) error {
		var name string
		err := row.Scan(&name)
		counts[name] = 0
		return err
	}, prefix)
	for name := range counts {
		var n int
		if err := s.reader.QueryRowContext(ctx, "SELECT count(*) FROM "+name).Scan(&n); err != nil {
			return nil, err
		}
		counts[name] = n
	}
	return counts, err
}

// Downgrade returns the database to an older version of its schema.
func Downgrade(ctx context.Context, s *Store, version int64) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, s.writer, dir, goose.WithTableName("threadmill_migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.DownTo(ctx, version)
	return err
}
