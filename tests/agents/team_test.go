package agents

import (
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// assigns is [asks] for a background task.
func assigns(who string, lines ...string) string { return check.Uses("task", who, lines) }

// awaitClosed waits until a sub-agent has ended, and all of its thread is stored.
func awaitClosed(w *harness.Harness, thread string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(thread))
		return err == nil && row.Status == store.ThreadClosed
	}, testenv.Patience, testenv.Tick, "thread %s is closed", thread)
}
