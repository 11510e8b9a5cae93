package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// maxFile is the maximum size of a file, in bytes.
const maxFile = 1 << 20

// file is the content of a file when it was read. Changes are detected by content, since an edit
// may keep the size and fall into the same tick of the file system's clock.
type file struct {
	path string
	data string
	err  error
}

// readFile returns errors without the path.
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
