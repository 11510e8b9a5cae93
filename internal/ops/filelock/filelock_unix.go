//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Open opens a file for reading and writing, with the flags of [os.OpenFile] in addition, and locks it until it is
// closed. It returns [ErrHeld] if another open file has the lock.
func Open(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrHeld
	}
	return nil, err
}
