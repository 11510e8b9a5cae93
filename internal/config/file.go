package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// file is what a file held when it was read. Changes are found by content and not by
// time and size: an edit that keeps the size can fall into the same tick of the file
// system's clock, and would be missed for good.
type file struct {
	path string
	data string
	err  error
}

// readFile does not repeat the path in the error.
func readFile(path string) file {
	data, err := readBounded(path)
	return file{path: path, data: string(data), err: err}
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
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
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return data, nil
}

func (f file) changed() bool {
	now := readFile(f.path)
	return now.data != f.data || fmt.Sprint(now.err) != fmt.Sprint(f.err)
}

func paths(files []file) []string {
	var list []string
	for _, f := range files {
		list = append(list, f.path)
	}
	return list
}
