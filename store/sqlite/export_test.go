package sqlite

import (
	"context"
	"fmt"
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

// KnowledgeRows returns how many rows the tables of knowledge have, those of full-text indexes among them.
func KnowledgeRows(ctx context.Context, s *Store) (map[string]int, error) {
	tables, err := s.reader.PrepareContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'knowledge%'`)
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	names, err := collect(ctx, tables, func(row scanner) (name string, err error) {
		err = row.Scan(&name)
		return name, err
	})
	counts := map[string]int{}
	for _, name := range names {
		var n int
		if err := s.reader.QueryRowContext(ctx, "SELECT count(*) FROM "+name).Scan(&n); err != nil {
			return nil, err
		}
		counts[name] = n
	}
	return counts, err
}
