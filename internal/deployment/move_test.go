package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckMove: threads move from a build that gets none to the current one, if it has workers.
func TestCheckMove(t *testing.T) {
	status := func(from, to BuildStatus, workers bool) Status {
		return Status{Builds: []Build{{ID: "1", Status: from}, {ID: "2", Status: to, Workers: workers}}}
	}
	for want, c := range map[string]struct {
		status   Status
		from, to string
	}{
		"":                             {status(Draining, Current, true), "1", "2"},
		`there is no build "0"`:        {status(Draining, Current, true), "0", "2"},
		`build "1" is current`:         {status(Current, Draining, true), "1", "2"},
		`build "2" is current`:         {status(Draining, Current, true), "2", "2"},
		`build "2" is not current`:     {status(Draining, Ramping, true), "1", "2"},
		`build "3" is not current`:     {status(Draining, Current, true), "1", "3"},
		`no worker of build "2" polls`: {status(Draining, Current, false), "1", "2"},
	} {
		err := c.status.CheckMove(c.from, c.to)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
