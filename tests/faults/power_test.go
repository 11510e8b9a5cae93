package faults

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/tests/internal/check"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestPowerLoss lets a database lose its last commits, as when the machine stops without notice. The devserver finds and mends what
// differs before it answers.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	f := faults{binary: proc.Build(t)}
	for name, database := range map[string]string{"Temporal": "temporal.db", "the store": "threadmill.db"} {
		t.Run(name+" S0-36 S2-51", func(t *testing.T) {
			t.Parallel()
			f.powerLoss(t, database)
		})
	}
}

func (f faults) powerLoss(t *testing.T, database string) {
	s := f.stage(t, nil)
	s.Start()
	s.Open("said", "hello")
	s.AwaitTurns("said", 1)
	s.Open("asks", check.Touches("asks"))
	call := s.AwaitApproval("asks").ToolCallID
	require.Zero(t, s.Terminate())
	kept, err := os.ReadFile(filepath.Join(s.Data, database))
	require.NoError(t, err)

	s.Start()
	second := map[string]any{"id": "second", "content": "are you there?"}
	require.Equal(t, http.StatusAccepted, s.Try(t.Context(), http.MethodPost, "/v1/threads/said/messages", second, nil))
	s.AwaitTurns("said", 2)
	require.Equal(t, "accepted", s.Approve("asks", call))
	s.AwaitTurns("asks", 1)
	s.Open("new", "hello")
	s.AwaitTurns("new", 1)
	before := map[string][]string{}
	for _, id := range []string{"said", "asks", "new"} {
		before[id] = s.contents(id)
		s.awaitRest(id) // the next worker gets a task in progress after ten seconds, in which no machine boots
	}

	s.Kill()
	for _, suffix := range []string{"-wal", "-shm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(s.Data, database+suffix)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.Data, database), kept, 0o600))
	s.bootAnew()
	s.Start()

	for id, want := range before {
		require.Equal(t, want, s.contents(id), id)
	}
	var found repair.Comparison
	require.Equal(t, http.StatusOK, s.Try(t.Context(), http.MethodPost, "/v1/repair", map[string]any{}, &found))
	require.Empty(t, found.Threads, "nobody had to repair")
	var waiting struct{ Approvals []event.ApprovalRequest }
	require.Equal(t, http.StatusOK, s.Try(t.Context(), http.MethodGet, "/v1/threads/asks/approvals", nil, &waiting))
	require.Empty(t, waiting.Approvals)
	require.Equal(t, http.StatusAccepted, s.Try(t.Context(), http.MethodPost, "/v1/threads/said/messages", second, nil), "it has no effect again")
	s.Say("said", "still there?")
	s.AwaitTurns("said", 3)
	require.Equal(t, append(before["said"], "user: still there?", "assistant: still there?"), s.contents("said"))
	s.Say("asks", "and now?")
	s.AwaitTurns("asks", 2)
	s.Say("new", "go on")
	s.AwaitTurns("new", 2)
	require.Len(t, s.lines("asks"), 1, "the command ran once")
	require.Zero(t, s.Terminate())
	db := s.open()
	for id := range before {
		requireWhole(t, db, id)
	}
}

// bootAnew makes the killed process one of a system that ran before.
func (s stage) bootAnew() {
	s.t.Helper()
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		s.t.Skipf("this system does not tell its boots apart: %v", err)
	}
	journals, err := filepath.Glob(filepath.Join(s.Data, "recovery", "*.tasks"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, journals)
	for _, path := range journals {
		raw, err := os.ReadFile(path)
		require.NoError(s.t, err)
		own := []byte(strings.TrimSpace(string(id)))
		require.Contains(s.t, string(raw), string(own))
		require.NoError(s.t, os.WriteFile(path, bytes.Replace(raw, own, bytes.Repeat([]byte("0"), len(own)), 1), 0o600))
	}
}
