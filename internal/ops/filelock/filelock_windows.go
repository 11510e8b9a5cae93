package filelock

import (
	"errors"
	"os"
	"syscall"
)

const errorSharingViolation = syscall.Errno(32)

// Open opens a file for reading and writing, with the flags of [os.OpenFile] in addition, and locks it until it is
// closed. It returns [ErrHeld] if another open file has the lock.
func Open(path string, flag int) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	mode := uint32(syscall.OPEN_EXISTING)
	switch {
	case flag&os.O_EXCL != 0:
		mode = syscall.CREATE_NEW
	case flag&os.O_CREATE != 0:
		mode = syscall.OPEN_ALWAYS
	}
	// Nobody else can open the file; its owner can remove it.
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.FILE_SHARE_DELETE, nil, mode, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(handle), path), nil
}
