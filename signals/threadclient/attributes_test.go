package threadclient

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
)

func TestEnsureAttributes(t *testing.T) {
	for _, c := range []struct {
		name      string
		known     attributes
		refusals  int
		meanwhile bool // another worker registers them while this one is refused
		asked     int
		problem   string
	}{
		{name: "missing", asked: 1},
		{name: "there", known: searchattr.Types()},
		{name: "another worker was quicker", refusals: 9, meanwhile: true, asked: 1},
		{name: "another worker changed the namespace", refusals: 1, asked: 2},
		{
			name: "not allowed", refusals: 9, asked: ensureTries,
			problem: "registering them: refused; create them by hand: ThreadmillAgents (KeywordList), ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			known, asked := c.known, 0
			err := ensure(func() (attributes, error) { return known, nil }, func(missing attributes) error {
				asked++
				if asked > c.refusals || c.meanwhile {
					known = missing
				}
				if asked <= c.refusals {
					return errors.New("refused")
				}
				return nil
			})
			require.Equal(t, c.asked, asked)
			if c.problem != "" {
				require.ErrorContains(t, err, c.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, searchattr.Types(), known)
		})
	}
	require.EqualError(t, ensure(func() (attributes, error) { return nil, errors.New("gone") }, nil), "asking Temporal for them: gone")
}
