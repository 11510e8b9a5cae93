package store

import (
	"fmt"
)

// VersionError means that a program is too old for a database: a newer one has changed its tables in a
// way that this one does not know.
type VersionError struct {
	// Database is the version of the database's schema, and Lowest the lowest version that programs
	// must know to use it.
	Database, Lowest int64

	// Program is the version that this program knows.
	Program int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the database has schema version %d, for programs that know version %d or newer, and this program knows version %d: "+
		"start a newer version of Threadmill, or restore the backup from before the upgrade", e.Database, e.Lowest, e.Program)
}
