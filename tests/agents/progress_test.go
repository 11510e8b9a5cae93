package agents

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// transfer is the progress of a tool that copies files.
type transfer struct {
	Subtype string `json:"subtype"`
	Percent int    `json:"percent"`
}

// TestProgressOfTools watches tools that report progress, each in another form.
func TestProgressOfTools(t *testing.T) {
	t.Parallel()
	asksModel := tool.MustFunc("llm_call", "Asks a model.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
		for _, piece := range []string{"Once", " upon", " a\ntime"} {
			call.Progress(piece)
		}
		return "a tale", nil
	})
	copies := tool.MustFunc("FileTransfer", "Copies a file.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
		for percent := 0; percent <= 100; percent += 50 {
			call.Progress(transfer{"transfer_progress", percent})
		}
		return "copied", nil
	})
	w := harness.New(t, harness.Options{
		Tools: []tool.Tool{asksModel, copies},
		Agents: []agent.Agent{{
			Name: "assistant", Model: "openai/stand-in", Tools: []string{"shell_cmd", "llm_call", "FileTransfer"},
			Approvals: map[string]agent.Policy{"*": agent.PolicyNever},
		}},
	})
	// shown are the progress events of a turn, as JSON, until ended.
	shown := func(t *testing.T, v *check.View, ended func(check.Frame) bool) (out []string) {
		t.Helper()
		for _, f := range v.Until(t, ended) {
			if f.Event.Type == event.EventToolProgress {
				out = append(out, f.Event.ToolName+" "+string(f.Event.Data))
			}
		}
		return out
	}
	isProgress := func(f check.Frame) bool { return f.Event.Type == event.EventToolProgress }

	t.Run("S1-19 the output of a command arrives while the command runs", func(t *testing.T) {
		id := w.Open()
		v := check.Watch(t, w, id, "")
		raw, err := json.Marshal(map[string]string{"command": "echo first; until [ -e go ]; do sleep 0.02; done; echo second"})
		require.NoError(t, err)
		w.Post(id, "use shell_cmd "+string(raw))
		require.Equal(t, []string{`shell_cmd {"subtype":"stdout_chunk","content":"first\n"}`}, shown(t, v, isProgress))
		require.Empty(t, check.Results(w, id), "it runs")
		require.NoError(t, os.WriteFile(filepath.Join(w.Shell, "go"), nil, 0o600))
		require.Equal(t, []string{`shell_cmd {"subtype":"stdout_chunk","content":"second\n"}`}, shown(t, v, check.IsFinal))
		require.Contains(t, check.ResultIn(t, w, id, "shell_cmd").Content, `first\nsecond\n`)
	})
	t.Run("S1-20 progress may be a bare string", func(t *testing.T) {
		id := w.Open()
		v := check.Watch(t, w, id, "")
		w.Post(id, "use llm_call {}")
		require.Equal(t, []string{`llm_call "Once"`, `llm_call " upon"`, `llm_call " a\ntime"`}, shown(t, v, check.IsFinal))
	})
	t.Run("S1-21 the progress of a file transfer is its percentage", func(t *testing.T) {
		id := w.Open()
		v := check.Watch(t, w, id, "")
		w.Post(id, "use FileTransfer {}")
		require.Equal(t, []string{
			`FileTransfer {"subtype":"transfer_progress","percent":0}`,
			`FileTransfer {"subtype":"transfer_progress","percent":50}`,
			`FileTransfer {"subtype":"transfer_progress","percent":100}`,
		}, shown(t, v, check.IsFinal))
	})
}
