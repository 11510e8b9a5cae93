package check

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Logbook is a log that can be read while it is written.
type Logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Logbook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// Lines are the lines that contain text.
func (l *Logbook) Lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// Keep makes a runtime write this log, including its workflows and its API.
func (l *Logbook) Keep(t *testing.T, c *threadmill.Config) {
	t.Helper()
	c.Logger = slog.New(slog.NewJSONHandler(l, nil))
	temporal, err := client.Dial(client.Options{HostPort: harness.Temporal(t).Addr(), Logger: sdklog.NewStructuredLogger(c.Logger)})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	c.Temporal = temporal
}
