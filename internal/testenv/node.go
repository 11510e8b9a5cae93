package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// npmDir is the folder of the npm packages of tests, relative to the root of the repository.
const npmDir = "tests/npm"

// Node returns a command that runs a file with Node.js. The file finds the packages of tests/npm,
// in which it has to be.
func Node(t testing.TB, file string, args ...string) *exec.Cmd {
	t.Helper()
	return NodeIn(t, npmDir, file, args...)
}

// NodeIn is [Node] for the packages of another folder, relative to the root of the repository.
func NodeIn(t testing.TB, folder, file string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := npm(folder)
	present(t, "node", "npm's packages", "run npm ci in "+folder, err)
	root, err := moduleRoot()
	present(t, "node", "npm's packages", "run npm ci in "+folder, err)
	binary := nodeBinary(filepath.Join(root, filepath.FromSlash(npmDir)))
	if _, err := exec.LookPath(binary); err != nil {
		present(t, "node", "Node.js", "install it", fmt.Errorf("%w: %w", errAbsent, err))
	}
	cmd := exec.Command(binary, append([]string{file}, args...)...)
	cmd.Dir = dir
	return cmd
}

// NPM returns the path of a file in an installed npm package of tests/npm.
func NPM(t testing.TB, path string) string {
	t.Helper()
	dir, err := npm(npmDir)
	present(t, "node", "npm's packages", "run npm ci in "+npmDir, err)
	return filepath.Join(dir, "node_modules", filepath.FromSlash(path))
}

// Browser returns the path of an installed Chromium. Its headless shell, without the windows of a browser, takes half the CPU.
func Browser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	present(t, "browser", "Chromium", "install it", fmt.Errorf("chromium: %w", errAbsent))
	return ""
}

// npm returns the path of a folder in which npm's packages are installed.
func npm(folder string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, filepath.FromSlash(folder))
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil {
		return "", fmt.Errorf("node_modules: %w", errAbsent)
	}
	return dir, nil
}

// nodeBinary prefers the Node.js among the packages, whose version the clients need, to the
// machine's.
func nodeBinary(dir string) string {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	path := filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return "node"
}

// moduleRoot returns the nearest folder above that has a go.work, the root of the repository.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.Join(errAbsent, errors.New("no go.work in any folder above"))
		}
		dir = parent
	}
}
