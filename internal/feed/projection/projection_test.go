package projection_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
)

func TestCursor(t *testing.T) {
	at := feed.Cursor{Seq: 12, Offset: 5}
	for text, want := range map[string]projection.Cursor{
		"0":      {},
		"12:5":   {Cursor: at},
		"12:5~1": {Cursor: at, Sent: 1},
		"0~2":    {Sent: 2},
	} {
		got, err := projection.ParseCursor(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
		assert.Equal(t, want == projection.Cursor{}, got.IsZero())
	}
	for text, problem := range map[string]string{
		"":      "seq is missing",
		"~1":    "seq is missing",
		"1~":    "n is missing",
		"1~x":   "n is not a number",
		"1~0":   "n behind ~ must be from 1",
		"1~9":   "n behind ~ must be from 1",
		"1~1~1": "n is not a number",
	} {
		_, err := projection.ParseCursor(text)
		var bad *feed.CursorError
		require.ErrorAs(t, err, &bad, text)
		assert.Contains(t, bad.Problem, problem, text)
	}
	_, err := feed.ParseCursor("12:5~1")
	require.ErrorContains(t, err, "offset is not a number", "no place among agent events")
}
