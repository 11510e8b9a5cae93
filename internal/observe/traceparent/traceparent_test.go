package traceparent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	for value, want := range map[string]string{
		"00-" + ids + "-01":       "00-" + ids + "-01",
		"00-" + ids + "-00":       "00-" + ids + "-00",
		"00-" + ids + "-03":       "00-" + ids + "-03",
		"00-" + ids + "-ff":       "00-" + ids + "-03",
		"00-" + ids + "-0a":       "00-" + ids + "-02",
		"01-" + ids + "-01":       "00-" + ids + "-01",
		"cc-" + ids + "-01-":      "00-" + ids + "-01",
		"cc-" + ids + "-01-A.b-c": "00-" + ids + "-01",
	} {
		got, ok := Parse(value)
		require.True(t, ok, value)
		require.Equal(t, want, got)
	}
	for _, value := range []string{
		"", "x", "ff-" + ids + "-01", "ff-" + ids + "-01-more", "00-" + ids, "00-" + ids + "-01-", "00-" + ids + "-01-more", "01-" + ids + "-01.more",
		"00-" + ids + "-01\n", "01-" + ids + "-01-\n", " 00-" + ids + "-01", "00-" + strings.ToUpper(ids) + "-01", "0X-" + ids + "-01", "00-" + ids + "-1",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"01-" + ids + "-01-" + strings.Repeat("x", maxLen),
	} {
		got, ok := Parse(value)
		require.False(t, ok, value)
		require.Empty(t, got)
	}
}
