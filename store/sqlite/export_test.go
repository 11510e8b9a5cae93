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
