package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

const (
	// scrubTries bounds the attempts to empty the write-ahead log while others read. Each keeps the writer for as long as the
	// connection waits for readers.
	scrubTries = 5

	// scrubPages is how many pages a transaction of Scrub reads: others may write in between.
	scrubPages = 1000

	// maxScrubbed is the number of pages from which on an overflow page or a trunk of the free list can begin like a B-tree page: its
	// first bytes are the number of another page.
	maxScrubbed = 1 << 25
)

// scrub implements [store.Erasures].Scrub. What was deleted or replaced is overwritten in the file of the database (secure_delete), but
// not the copies of rows that stay where SQLite moved these to other pages: those are overwritten, in files of up to 128 GiB without
// auto_vacuum. Then it brings all changes to the file and empties the write-ahead log, which still has what was overwritten.
func (s *Store) scrub(ctx context.Context) error {
	if s.reader == s.writer {
		return nil // in memory
	}
	if err := s.clearGaps(ctx); err != nil {
		return fmt.Errorf("overwriting what pages do not use: %w", err)
	}
	var busy, pages, moved int
	for range scrubTries {
		if err := s.writer.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &moved); err != nil {
			return fmt.Errorf("emptying the write-ahead log: %w", err)
		}
		if busy == 0 {
			return nil
		}
	}
	return fmt.Errorf("emptying the write-ahead log: %w", store.Unavailable(errors.New("others read all the time")))
}

func (s *Store) clearGaps(ctx context.Context) error {
	var pages, vacuum int
	if err := s.writer.QueryRowContext(ctx, `SELECT page_count, auto_vacuum FROM pragma_page_count, pragma_auto_vacuum`).Scan(&pages, &vacuum); err != nil {
		return err
	}
	// With auto_vacuum, a file also has pointer-map pages, which begin like B-tree pages.
	if pages >= maxScrubbed || vacuum != 0 {
		return nil
	}
	for first := 1; first <= pages; first += scrubPages {
		err := s.db.Transaction(ctx, "", func(tx sqlstore.Querier) error {
			changed, err := gaps(ctx, tx, first, min(first+scrubPages-1, pages))
			for number, page := range changed {
				if err == nil {
					_, err = tx.Exec(ctx, writePage, number, page)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The virtual table of pages looks up one page, and scans all for a range of them.
var (
	readPages = only(`WITH RECURSIVE wanted (pgno) AS (VALUES ($1) UNION ALL SELECT pgno + 1 FROM wanted WHERE pgno < $2)
		SELECT p.pgno, p.data FROM wanted w CROSS JOIN sqlite_dbpage p ON p.pgno = w.pgno`)
	writePage = only(`UPDATE sqlite_dbpage SET data = $2 WHERE pgno = $1`)
)

// gaps returns the pages whose gaps are not empty, by their numbers, with empty gaps.
func gaps(ctx context.Context, tx sqlstore.Querier, first, last int) (map[int][]byte, error) {
	changed := map[int][]byte{}
	err := sqlstore.Each(ctx, tx, readPages, func(row sqlstore.Row) error {
		var number int
		var page sql.RawBytes
		if err := row.Scan(&number, &page); err != nil {
			return err
		}
		if len(bytes.Trim(gap(page), "\x00")) > 0 {
			changed[number] = bytes.Clone(page)
			clear(gap(changed[number]))
		}
		return nil
	}, first, last)
	return changed, err
}

// gap returns what a page of a B-tree has between the list of its cells and the first of them, nil for other pages: see "B-tree
// Pages" in SQLite's description of its file format. The first page, which has only the schema, is none of them.
func gap(page []byte) []byte {
	list := 0
	switch page[0] {
	case 2, 5: // interior
		list = 12
	case 10, 13: // leaf
		list = 8
	default:
		return nil
	}
	start := list + 2*int(binary.BigEndian.Uint16(page[3:]))
	end := int(binary.BigEndian.Uint16(page[5:])) // 0 in a page of 64 KiB without cells
	if start >= end || end > len(page) {
		return nil
	}
	return page[start:end]
}
