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

// maxLinks bounds how many links one path leads through.
const maxLinks = 100

// unresolved begins what stands for a directory that cannot be followed: it is no path, so
// nothing can be worked on there. Stores take it.
const unresolved = "?unresolved: "

// place is where calls work.
type place struct {
	// dir has its links resolved. Empty if no directory is set.
	dir string

	// lost says why the directory cannot be followed. Then dir begins with [unresolved].
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

// pathsOf are the arguments of a call that are paths, with what they lead to. The error names
// one that could be taken for another path than it is, for the model: rules, grants and people
// must see what the tool opens, however the model writes it.
func (p place) pathsOf(d tool.Definition, arguments string) (map[string]string, error) {
	if len(d.PathArguments) == 0 {
		return nil, nil
	}
	var args map[string]any
	// Arguments that are no object do not fit the tool.
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

// leadsTo is what a path leads to. Programs read one with ".." in two ways: by what it leads
// through, or by the names alone. Both have to come to the same.
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

// follow is what a path leads to, seen from a directory, as a program that opens it comes
// there: links are followed before "..", also those that lead to nothing yet.
func follow(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		base, err := filepath.Abs(dir)
		if err != nil {
			return "", lostBy(err)
		}
		// Not Join, which takes ".." for the folder above by the names alone.
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

// lostBy says why a path cannot be followed. It does not say where: the path may lead
// through what a model is not to know.
func lostBy(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("cannot be followed (%w)", err)
}

// names are the steps of a path.
func names(path string) []string {
	path = filepath.ToSlash(path[len(filepath.VolumeName(path)):])
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}
