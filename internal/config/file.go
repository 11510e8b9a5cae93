package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// file is a file as it was before it was read: whatever changes after that is a
// change that has not been seen.
type file struct {
	path     string
	modified time.Time
	size     int64
}

func newFile(path string) file {
	f := file{path: path, size: -1}
	if info, err := os.Stat(path); err == nil {
		f.modified, f.size = info.ModTime(), info.Size()
	}
	return f
}

func (f file) changed() bool { return newFile(f.path) != f }

// read does not repeat the path in its errors.
func (f file) read() ([]byte, error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, errors.Unwrap(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxFile)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return data, nil
}

func paths(files []file) []string {
	var list []string
	for _, f := range files {
		list = append(list, f.path)
	}
	return list
}
