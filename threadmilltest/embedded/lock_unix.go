//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// dirLock is an advisory lock that the kernel releases when its process ends.
type dirLock struct{ file *os.File }

func lockDir(path string) (*dirLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &dirLock{file: file}, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrDataDirInUse
	}
	return nil, err
}

func (l *dirLock) release() error { return l.file.Close() }
