package sqlite

import (
	"context"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/threadmill/threadmill/store"
)

// classify marks errors of a busy database, and of a failing or full disk, as
// [store.ErrUnavailable].
func classify(err error) error {
	if unavailable(err) {
		return store.Unavailable(err)
	}
	return err
}

func unavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}
