package redactlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/redact"
)

func TestNew(t *testing.T) {
	var out bytes.Buffer
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards(), redact.Emails(), {Name: "customer", Expression: `\bC-\d{4,}\b`}}})
	require.NoError(t, err)
	log := New(r, slog.New(slog.NewTextHandler(&out, nil)))
	log.With("card", "4111111111111111").WithGroup("g").Info("from ann@mail.example",
		"error", errors.New("C-1234 is unknown"), "n", 4111111111111111, "raw", []byte("C-1234"), slog.Group("in", "x", "C-1234"),
		"list", []string{"a", "C-1234"}, "small", 3, "thread", "C-1234")
	assert.NotContains(t, strings.ReplaceAll(out.String(), "g.thread=C-1234", ""), "C-1234")
	for _, want := range []string{"msg=\"from [email]\"", "card=[card]", "g.error=\"[customer] is unknown\"", "g.n=[card]", "g.raw=[customer]", "g.in.x=[customer]", "g.list=\"[a [customer]]\"", "g.small=3", "g.thread=C-1234"} {
		assert.Contains(t, out.String(), want)
	}
}

func TestNewWithoutRedactor(t *testing.T) {
	assert.Same(t, slog.Default(), New(nil, slog.Default()))
}

// Handlers that write JSON follow pointers, and write all digits of a number.
func TestNewOfJSON(t *testing.T) {
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	var out bytes.Buffer
	number := "4111111111111111"
	New(r, slog.New(slog.NewJSONHandler(&out, nil))).Info("paid", "float", 4111111111111111.0, "pointer", struct{ Card *string }{&number})
	assert.NotContains(t, out.String(), number)
	assert.Contains(t, out.String(), "[card]")
}
