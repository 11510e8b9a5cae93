package programs

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// counting starts a devserver, makes the model of thread "cut" count, and returns once it does. The viewer connects
// first: after the turn, viewers see no pieces.
func counting(t *testing.T, to int) (d *proc.Devserver, end <-chan error) {
	t.Helper()
	d = proc.New(t, proc.Options{
		Binary: proc.Build(t),
		// What continues before that was freed by the next process.
		Config: "agents: [{name: assistant, model: demo/demo}]\ntemporal: {staleAfter: 1h}\n",
		Args:   []string{"--ui", "127.0.0.1:0"},
	})
	d.Start()
	require.Equal(t, http.StatusCreated, d.Try(t.Context(), http.MethodPost, "/v1/threads", map[string]any{"id": "cut"}, nil))
	lines, end := watch(t, d.URL, "cut")
	d.Say("cut", fmt.Sprintf("count %d every 40ms", to))
	collect(t, lines, `"type":"stream"`)
	return d, end
}

// TestSignals sends signals to a devserver in the middle of a turn.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{
		{"SIGTERM", syscall.SIGTERM, program.ExitOK},
		{"SIGKILL", syscall.SIGKILL, -1},
	} {
		t.Run(c.name+" in the middle of a turn, which goes on after a restart", func(t *testing.T) {
			d, ended := counting(t, 150)
			require.NoError(t, d.Signal(c.signal))
			require.Equal(t, c.code, d.AwaitExit())
			if c.code == program.ExitOK {
				require.NoError(t, <-ended)
				require.Empty(t, d.Stderr())
			}

			d.Start()
			begin := time.Now()
			var messages []event.Message
			require.Eventually(t, func() bool {
				messages = d.Messages("cut")
				return len(messages) == 2
			}, testenv.Patience, testenv.Tick)
			t.Logf("the turn ended %s after the restart", time.Since(begin).Round(time.Millisecond))
			require.True(t, strings.HasSuffix(messages[1].Content, " 149 150"), messages[1].Content)
			require.Equal(t, program.ExitOK, d.Terminate())
			require.Equal(t, c.code != program.ExitOK, strings.Contains(d.Stderr(), "freed the tasks of a killed worker"), d.Stderr())
		})
	}
	t.Run("a second SIGINT ends it at once", func(t *testing.T) {
		d, _ := counting(t, 10_000)
		// Signals right after the first count as the same one.
		require.Eventually(t, func() bool { return errors.Is(d.Signal(syscall.SIGINT), os.ErrProcessDone) }, testenv.Patience, testenv.Tick)
		require.Equal(t, program.ExitFailed, d.AwaitExit())
		require.Equal(t, "devserver: stopped at once\n", d.Stderr())
	})
}
