package excerpt_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/text/excerpt"
)

func TestWholeCharacters(t *testing.T) {
	for n, want := range []struct{ start, end string }{
		{"", ""},
		{"a", "z"},
		{"a", "z"},
		{"aé", "éz"},
		{"aéb", "béz"},
		{"aéb", "béz"},
		{"aébé", "ébéz"},
		{"aébéz", "aébéz"},
	} {
		require.Equal(t, want.start, excerpt.Start("aébéz", n), n)
		require.Equal(t, want.end, excerpt.End("aébéz", n), n)
	}
	require.Empty(t, excerpt.Start("a", -1))
	require.Empty(t, excerpt.End("a", -1))
}
