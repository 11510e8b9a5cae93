package testenv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// portTries bounds the number of ports that are tried. PostgreSQL cannot choose a port itself, and
// a free one may be taken before it starts.
const portTries = 5

func startPostgres() (url string, err error) {
	bin, err := postgresBin()
	if err != nil {
		return "", err
	}
	for range portTries {
		var port string
		if port, err = freePort(); err != nil {
			return "", err
		}
		if url, err = postgresOn(bin, port); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return url, err
}

// postgresOn starts a server on a port.
func postgresOn(bin, port string) (_ string, err error) {
	dir, err := privateDir("threadmill-postgres-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"),
		"-D", data, "-U", "threadmill", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir = dir
	if err := detach(initdb); err != nil {
		return "", err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	url := "postgres://threadmill@" + net.JoinHostPort("127.0.0.1", port) + "/postgres?sslmode=disable"
	ready := func(ctx context.Context) error {
		if log, _ := os.ReadFile(filepath.Join(dir, "log")); bytes.Contains(log, []byte(noSocket)) {
			return fmt.Errorf("%w: %s", errPortTaken, port)
		}
		return keeps(ctx, url, data)
	}
	err = serve(dir, ready, filepath.Join(bin, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", port, "-k", "",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=400")
	return url, err
}

// noSocket is what PostgreSQL logs when its port is taken.
const noSocket = "could not create any TCP/IP sockets"

// keeps checks that the server at url has its data in dir: another server may have taken the port.
func keeps(ctx context.Context, url, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	var found string
	err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&found)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	if found != dir {
		return fmt.Errorf("%w: another PostgreSQL answers", errPortTaken)
	}
	return nil
}

// postgresBin returns the folder of the newest server binaries: distributions install them outside
// PATH, one folder per version.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && hasServer(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !hasServer(dir) })
	if len(dirs) == 0 {
		return "", fmt.Errorf("no initdb and postgres on PATH or in /usr/lib/postgresql/*/bin: %w", errAbsent)
	}
	return slices.MaxFunc(dirs, func(a, b string) int { return cmp.Compare(version(a), version(b)) }), nil
}

// postgresProgram returns the path of a client program of the newest server: an older one does not dump its databases.
func postgresProgram(name string) (string, error) {
	if bin, err := postgresBin(); err == nil {
		if path, err := exec.LookPath(filepath.Join(bin, name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no %s beside the server or on PATH: %w", name, errAbsent)
	}
	return path, nil
}

func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// version returns the number in …/postgresql/<number>/bin, or 0.
func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}
