package embedded

import (
	"errors"
	"syscall"
)

const errorSharingViolation = syscall.Errno(32)

// dirLock is a file opened exclusively, which the system closes when its process ends.
type dirLock struct{ handle syscall.Handle }

func lockDir(path string) (*dirLock, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		return nil, ErrDataDirInUse
	}
	if err != nil {
		return nil, err
	}
	return &dirLock{handle: handle}, nil
}

func (l *dirLock) release() error { return syscall.CloseHandle(l.handle) }
