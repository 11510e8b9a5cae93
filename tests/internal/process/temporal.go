package process

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/internal/testenv"
)

// TemporalConfig configures a Temporal server. Its fields are those of embedded.Config.
type TemporalConfig struct {
	DataDir          string
	Retention        time.Duration
	SearchAttributes map[string]enumspb.IndexedValueType
	Dynamic          map[string]any
}

func init() { gob.Register(time.Duration(0)) } // a value of Dynamic

// EnvTemporal is the environment variable with the address of a server that several packages of tests share.
const EnvTemporal = "THREADMILL_TEST_TEMPORAL"

// Temporal is a Temporal server in a process of its own, which ends with this one at the latest.
type Temporal struct {
	addr string
	stop func()
}

// SharedTemporal returns the server that [EnvTemporal] tells of, which [Temporal.Stop] leaves running, or nil.
func SharedTemporal() *Temporal {
	if addr := os.Getenv(EnvTemporal); addr != "" {
		return &Temporal{addr: addr, stop: func() {}}
	}
	return nil
}

// NewTemporal starts a server that ends with the test.
func NewTemporal(t testing.TB, c TemporalConfig) *Temporal {
	t.Helper()
	s, err := StartTemporal(c)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// StartTemporal starts a server and returns when it accepts workflows.
func StartTemporal(c TemporalConfig) (*Temporal, error) {
	path, err := program("tests/temporalserver")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	var problems testenv.Buffer
	cmd.Stderr = &problems
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Temporal{stop: sync.OnceFunc(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})}
	err = gob.NewEncoder(in).Encode(c)
	if err == nil {
		s.addr, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting a Temporal server: %w\n%s", err, problems.String())
	}
	s.addr = strings.TrimSpace(s.addr)
	return s, nil
}

// Addr returns the host:port of the frontend.
func (s *Temporal) Addr() string { return s.addr }

// Namespace returns the name of the only namespace.
func (*Temporal) Namespace() string { return "default" }

// Stop stops the server and waits until its process has ended.
func (s *Temporal) Stop() { s.stop() }
