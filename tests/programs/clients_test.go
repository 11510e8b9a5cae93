package programs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestClientsOfKilledServers kills the server while the clients of tests/npm talk to it, in their scenario "killed".
func TestClientsOfKilledServers(t *testing.T) {
	for name, command := range map[string][]string{
		"ai6": {"aisdk.mjs", "ai6"}, "ai7": {"aisdk.mjs", "ai7"}, "workflow": {"aisdk.mjs", "workflow"},
		"AG-UI": {"agui.mjs", "@ag-ui/client"}, "agui-old": {"agui.mjs", "agui-old"}, "EventSource": {"eventsource.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := proc.New(t, proc.Options{Binary: proc.Build(t)})
			d.Start()
			client := testenv.Node(t, "run.mjs", append(command, d.URL, "killed")...)
			var out []byte
			ended := make(chan error)
			go func() {
				var err error
				out, err = client.CombinedOutput()
				ended <- err
			}()
			// A client whose first message was not taken has to say it again, which these do not.
			require.Eventually(t, func() bool { return len(d.Messages("killed")) > 0 }, testenv.Patience, testenv.Tick)
			for range 3 {
				time.Sleep(time.Second) // whatever it does then
				d.Kill()
				d.Start()
			}
			err := <-ended
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "resuming")
		})
	}
}
