package activities

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/tool"
)

// maxLinks is the maximum number of links in one path.
const maxLinks = 100

// unresolved is the prefix of the placeholder for a directory that cannot be resolved. It is not a
// path, so no call can run there, and stores accept it.
const unresolved = "?unresolved: "

// place is the directory in which calls run.
type place struct {
	// dir is the directory with links resolved. Empty if none is set.
	dir string

	// lost is the reason why the directory cannot be resolved. dir then begins with [unresolved].
	lost error
}

func placeOf(dir string) place {
	if dir == "" {
		return place{}
	}
	followed, err := follow("", dir)
	if err != nil {
		return place{dir: unresolved + dir, lost: err}
	}
	return place{dir: followed}
}

// pathsOf returns the arguments that are paths, resolved. The error, for the model, names an
// ambiguous path: rules, grants and people must see the file that the tool opens.
func (p place) pathsOf(d tool.Definition, arguments string) (map[string]string, error) {
	if len(d.PathArguments) == 0 {
		return nil, nil
	}
	var args map[string]any
	// Arguments that are not an object do not match the tool.
	_ = json.Unmarshal([]byte(arguments), &args)
	paths := map[string]string{}
	for _, name := range d.PathArguments {
		path, ok := args[name].(string)
		if !ok {
			continue
		}
		followed, err := p.leadsTo(path)
		if err != nil {
			return nil, &tool.ArgumentError{Tool: d.Name, Reason: name + ": " + err.Error()}
		}
		paths[name] = followed
	}
	return paths, nil
}

// leadsTo resolves a path. Programs resolve ".." either after following links or by the names
// alone; both must give the same result.
func (p place) leadsTo(path string) (string, error) {
	byName := filepath.Clean(path)
	if !filepath.IsAbs(path) {
		if p.lost != nil {
			return "", fmt.Errorf("begins in the working directory, which %w; write an absolute path", p.lost)
		}
		byName = filepath.Join(p.dir, path)
	}
	followed, err := follow(p.dir, path)
	if err != nil {
		return "", fmt.Errorf("%w; write a path that exists, or whose folder exists", err)
	}
	if other, err := follow("", byName); err != nil || other != followed {
		return "", errors.New(`leads to one file by the links in it, and to another by its names alone; write it without ".." behind a link`)
	}
	return followed, nil
}

// follow resolves a path from a directory as a program that opens it does: it follows links before
// "..", including links to missing files.
func follow(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		base, err := filepath.Abs(dir)
		if err != nil {
			return "", lostBy(err)
		}
		// Not Join, which resolves ".." by the names alone.
		path = base + string(filepath.Separator) + path
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, todo, links := root, names(path), 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", lostBy(err)
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", lostBy(err)
		}
		if links++; links > maxLinks {
			return "", lostBy(fmt.Errorf("more than %d links", maxLinks))
		}
		if filepath.IsAbs(target) {
			at = root
		}
		todo = append(names(target), todo...)
	}
	return at, nil
}

// lostBy returns the reason why a path cannot be resolved, without the path, which the model may
// not know.
func lostBy(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("cannot be followed (%w)", err)
}

// names returns the elements of a path.
func names(path string) []string {
	path = filepath.ToSlash(path[len(filepath.VolumeName(path)):])
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}
