package sealed_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/mcp/sealed"
)

func key(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(b)), sealed.KeySize)))
}

func TestSealed(t *testing.T) {
	t.Parallel()
	old, err := sealed.Parse(key('a'))
	require.NoError(t, err)
	both, err := sealed.Parse(key('b') + ", " + key('a'))
	require.NoError(t, err)
	text, err := old.Seal("login", map[string]string{"token": "s3cret"})
	require.NoError(t, err)
	require.NotContains(t, text, "s3cret")
	again, err := old.Seal("login", map[string]string{"token": "s3cret"})
	require.NoError(t, err)
	require.NotEqual(t, text, again)

	var got map[string]string
	require.NoError(t, both.Open("login", text, &got), "an older key opens")
	require.Equal(t, map[string]string{"token": "s3cret"}, got)
	renewed, err := both.Seal("login", got)
	require.NoError(t, err)

	changed := []byte(text)
	changed[len(changed)/2] ^= 1
	for name, open := range map[string]error{
		"another key":     old.Open("login", renewed, &got),
		"another purpose": old.Open("cookie", text, &got),
		"changed":         old.Open("login", string(changed), &got),
		"short":           old.Open("login", text[:8], &got),
		"empty":           old.Open("login", "", &got),
		"no Base64":       old.Open("login", "%", &got),
		"no keys":         sealed.Keys{}.Open("login", text, &got),
	} {
		require.ErrorIs(t, open, sealed.ErrOpen, name)
	}
	_, err = sealed.Keys{}.Seal("login", 1)
	require.Error(t, err)
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"", "hunter2", key('a') + ",", key('a')[:20]} {
		_, err := sealed.Parse(list)
		require.ErrorContains(t, err, "openssl rand -base64 32")
		require.NotContains(t, err.Error(), "hunter2")
	}
}
