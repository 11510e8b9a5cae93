package sqlite

import (
	"context"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/threadmill/threadmill/store"
)

// classify marks errors of a busy database, and of a failing or full disk, as
// [store.ErrUnavailable], and returns [store.ErrErased] for what an erased thread refuses.
func classify(err error) error {
	// The only triggers are those of erased threads.
	if failed, ok := errors.AsType[*sqlite.Error](err); ok && failed.Code() == sqlite3.SQLITE_CONSTRAINT_TRIGGER {
		return store.ErrErased
	}
	if unavailable(err) {
		return store.UnavailableBecause(reason(err), err)
	}
	return err
}

func reason(err error) store.Reason {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return ""
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return store.ReasonFull
	case sqlite3.SQLITE_READONLY:
		return store.ReasonReadOnly
	}
	return ""
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
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}
