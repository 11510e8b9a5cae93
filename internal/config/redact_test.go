package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const agents = "agents: [{name: a, model: demo/demo}]\n"

// TestRedact: the section redact becomes a redactor, and errors have the line of the field.
func TestRedact(t *testing.T) {
	parse := func(section string) (*Config, error) { return Parse("f", []byte(agents+section), "", Env(env())) }

	c, err := parse("redact:\n  cards: true\n  emails: true\n  patterns: [{name: customer, expression: 'C-\\d{4}'}]\n")
	require.NoError(t, err)
	require.Equal(t, "[card], [email], [customer]", c.Redact.Text("4111111111111111, a@b.example, C-1234"))
	for _, nothing := range []string{"", "redact: {cards: false}\n"} {
		c, err = parse(nothing)
		require.NoError(t, err)
		require.Nil(t, c.Redact)
	}
	for section, want := range map[string]string{
		"redact: {card: true}":                                                "redact.card: unknown field",
		"redact: {keys: true, patterns: [{name: a}]}":                         "f:2:33: redact.patterns[0].expression: is missing: write expression",
		"redact: {patterns: [{expression: b}]}":                               "redact.patterns[0].name: is missing: write name",
		"redact: {patterns: []}":                                              "redact.patterns: ",
		"redact: {cards: true, patterns: [{name: a, expression: '('}]}":       "redact.patterns[0].expression: is not a regular expression",
		"redact: {patterns: [{name: A, expression: b}]}":                      `redact.patterns[0].name: "A" must be`,
		"redact: {cards: true, patterns: [{name: a, expression: '\\[card'}]}": "redact.patterns[0].expression: matches the replacement [card]",
	} {
		_, err := parse(section)
		require.ErrorContains(t, err, want, section)
	}
}

// TestRedactor reads nothing but the section redact of a file.
func TestRedactor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "threadmill.yaml")
	read := func(text string) (string, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r, err := Redactor(path)
		return r.Text("4111111111111111"), err
	}
	got, err := read("agents: [{name: a, model: openai/needs-a-key, nonsense: 1}]\nredact: {cards: true}")
	require.NoError(t, err)
	require.Equal(t, "[card]", got)
	for text, want := range map[string]string{
		agents:                            "redact: nothing is set: set cards, keys, emails or patterns",
		"redact: {cards: 1}":              "redact.cards: ",
		"redact: [":                       "threadmill.yaml:1:",
		"redact: {patterns: [{name: a}]}": "redact.patterns[0].expression",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want, text)
	}
	_, err = Redactor(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorContains(t, err, "none.yaml")
}
