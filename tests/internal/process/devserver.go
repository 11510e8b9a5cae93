package process

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Build builds the devserver and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	return BuildProgram(t, "devserver")
}

// BuildWorker builds the worker, like [Build].
func BuildWorker(t testing.TB) string {
	t.Helper()
	return BuildProgram(t, "worker")
}

// BuildStarter builds the command line, like [Build].
func BuildStarter(t testing.TB) string {
	t.Helper()
	return BuildProgram(t, "starter")
}

// BuildProgram builds the program of a folder, like [Build].
func BuildProgram(t testing.TB, folder string) string {
	t.Helper()
	path, err := program(folder)
	require.NoError(t, err)
	return path
}

// program returns the path of the program of a folder: the one in THREADMILL_PROGRAMS, where there is one, or the one that
// Go keeps in its cache of builds, so that it is linked once for all tests.
func program(folder string) (string, error) {
	path := filepath.Join(os.Getenv("THREADMILL_PROGRAMS"), filepath.Base(folder))
	if _, err := os.Stat(path); filepath.IsAbs(path) && err == nil {
		return path, nil
	}
	// The first time, Go puts the program into its cache, and runs one that it removes again.
	for range 2 {
		var problems bytes.Buffer
		cmd := exec.Command("go", "run", "-exec", "go version", "github.com/threadmill/threadmill/"+folder)
		cmd.Stderr = &problems
		out, err := cmd.Output() // path: version
		if err != nil {
			return "", fmt.Errorf("building %s: %w\n%s", folder, err, &problems)
		}
		path, _, _ = strings.Cut(string(out), ": go")
		if _, err = os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("building %s: Go has not kept %s", folder, path)
}

// Options of a [Devserver].
type Options struct {
	// Binary is the result of [Build].
	Binary string

	// Env is added to PATH and HOME, the only other variables.
	Env []string

	// Config is the text of threadmill.yaml; "" is none.
	Config string

	// Args are further arguments.
	Args []string
}

// Devserver is a devserver with fixed ports and data across restarts.
type Devserver struct {
	// URL of the API; Temporal is its host:port; Data is the data folder, Workspace the working
	// directory of commands.
	URL, Temporal, Data, Workspace string

	// Run is since the last start.
	*Run

	t    testing.TB
	dir  string
	opts Options
	args []string
	sign string
}

// New prepares a devserver, which must be started.
func New(t testing.TB, o Options) *Devserver {
	t.Helper()
	dir := t.TempDir()
	httpAddr, temporalAddr := FreeAddr(t), FreeAddr(t)
	d := &Devserver{t: t, dir: dir, opts: o, URL: "http://" + httpAddr, Temporal: temporalAddr, Data: filepath.Join(dir, "data")}
	d.Workspace = filepath.Join(d.Data, "workspace")
	d.args = []string{"--data", d.Data, "--http", httpAddr, "--temporal", temporalAddr, "--ui", ""}
	d.sign = "Threadmill is ready"
	d.prepare()
	return d
}

// NewWorker prepares a worker with an API in place of a devserver. Its Temporal server runs
// elsewhere, and outlives it.
func NewWorker(t testing.TB, o Options, temporal string) *Devserver {
	t.Helper()
	dir := t.TempDir()
	httpAddr := FreeAddr(t)
	d := &Devserver{t: t, dir: dir, opts: o, URL: "http://" + httpAddr, Temporal: temporal, Data: filepath.Join(dir, "data")}
	d.opts.Env = append(slices.Clone(o.Env), "TEMPORAL_ADDRESS="+temporal)
	d.args = []string{"--http", httpAddr}
	if o.Config != "" {
		d.args = append(d.args, "--config", configFile)
	}
	d.sign = "msg=started"
	d.prepare()
	return d
}

// configFile is the default name of a devserver's configuration.
const configFile = "threadmill.yaml"

// prepare writes the configuration.
func (d *Devserver) prepare() {
	d.t.Helper()
	d.args = append(d.args, d.opts.Args...)
	if d.opts.Config != "" {
		require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, configFile), []byte(d.opts.Config), 0o600))
	}
}

// Start starts the process and waits until it is ready.
func (d *Devserver) Start() {
	d.t.Helper()
	began := time.Now()
	d.Launch()
	d.AwaitReady()
	d.t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
}

// Launch starts the process without waiting.
func (d *Devserver) Launch() {
	d.t.Helper()
	cmd := exec.Command(d.opts.Binary, d.args...)
	cmd.Dir, cmd.Env = d.dir, d.opts.Env
	d.Run = Launch(d.t, cmd, d.sign)
}

// The kernel assigns ports above these to any listener: a stopped server could lose its own.
const (
	firstPort = 20_000
	lastPort  = 31_999
)

var taken sync.Map

// FreeAddr returns a loopback address that stays free without a listener.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, used := taken.LoadOrStore(port, true); used {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
	require.Fail(t, "no free port")
	return ""
}
