// Package filelock locks files. The system releases a lock when its process ends, in whatever way, and no earlier: a
// process that is paused keeps it. This holds for local file systems.
package filelock

import "errors"

// ErrHeld means that another open file, in this process or another, has the lock.
var ErrHeld = errors.New("the file is locked")
