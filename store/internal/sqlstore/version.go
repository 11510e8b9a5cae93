package sqlstore

import "github.com/threadmill/threadmill/store"

// CheckVersion returns a [store.VersionError] if a program is too old for a database.
func CheckVersion(database, lowest, program int64) error {
	if program >= lowest {
		return nil
	}
	return &store.VersionError{Database: database, Lowest: lowest, Program: program}
}
