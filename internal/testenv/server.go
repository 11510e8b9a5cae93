package testenv

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds the start of a server.
const startTimeout = time.Minute

// tryTimeout bounds one attempt: another process on the port may never respond.
const tryTimeout = 2 * time.Second

// errPortTaken means that a server's port is in use.
var errPortTaken = errors.New("the port is taken")

// guard runs a server until its own standard input ends, which the kernel closes however the test
// binary ends; then it stops the server and removes its folder.
//
// TERM ends a server that was just forked and still ignores QUIT; QUIT ends a PostgreSQL that would
// wait for its clients.
const guard = `PATH=$PATH:/usr/bin:/bin
dir=$1; shift
"$@" >"$dir/log" 2>&1 &
pid=$!
read -r _
kill -TERM "$pid"
kill -QUIT "$pid"
wait "$pid"
cd /
rm -rf "$dir" || rm -rf "$dir"`

// keepalive holds the pipes that keep the servers running.
var keepalive sync.Map

// serve runs a server whose data is in dir, and waits until ready succeeds.
func serve(dir string, ready func(context.Context) error, name string, args ...string) error {
	stdin, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, "guard", dir, name}, args...)...)
	cmd.Stdin = stdin
	cmd.Dir = dir
	if err := detach(cmd); err != nil {
		return errors.Join(err, pipe.Close())
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", name, err), pipe.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := await(ctx, ready); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		_ = pipe.Close()
		_ = cmd.Wait()
		return fmt.Errorf("starting %s: %w\n%s", name, err, log)
	}
	keepalive.Store(pipe, name)
	return nil
}

func await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil || errors.Is(err, errPortTaken) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", startTimeout, err)
		}
	}
}

// freePort returns a loopback port that is free at the moment.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func startNATS() (_ string, err error) {
	bin, err := exec.LookPath("nats-server")
	if err != nil {
		return "", fmt.Errorf("no nats-server on PATH: %w", errAbsent)
	}
	dir, err := privateDir("threadmill-nats-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	var addr string
	ready := func(ctx context.Context) (err error) {
		if addr, err = NATSAddr(filepath.Join(dir, "*.ports")); err != nil {
			return err
		}
		return greeted(ctx, addr)
	}
	// The server chooses a free port and reports it: a port chosen here may be taken before the
	// start.
	if err := serve(dir, ready, bin, "-js", "-a", "127.0.0.1", "-p", "-1", "-sd", dir, "--ports_file_dir", dir); err != nil {
		return "", err
	}
	return "nats://" + addr, nil
}

// NATSAddr returns the address of a NATS server from the file that matches pattern. See
// --ports_file_dir of nats-server.
func NATSAddr(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return "", errors.Join(fmt.Errorf("there is no %s", pattern), err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	var ports struct {
		NATS []string `json:"nats"`
	}
	if err := json.Unmarshal(raw, &ports); err != nil { // incomplete
		return "", fmt.Errorf("reading %s: %w", files[0], err)
	}
	if len(ports.NATS) == 0 {
		return "", fmt.Errorf("%s names no port", files[0])
	}
	return strings.TrimPrefix(ports.NATS[0], "nats://"), nil
}

// greeted checks that a NATS server responds at addr.
func greeted(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(tryTimeout)); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "INFO ") {
		return fmt.Errorf("unexpected greeting %q", line)
	}
	return nil
}
