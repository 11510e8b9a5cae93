package render_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/cli/render"
)

var inUTC = render.TableOptions{Location: time.UTC, Width: 20}

func TestAgents(t *testing.T) {
	require.Empty(t, render.Agents(nil, inUTC))
	require.Equal(t, strings.TrimLeft(`
AGENT   MODEL      SOURCE      VERSION  DESCRIPTION
helper  demo/demo  configured  -        what it is: \u001b[…
clerk   -          stored      3        cannot be used: lim…
`, "\n"), render.Agents([]agent.Summary{
		{Name: "helper", Model: "demo/demo", Source: "configured", Description: "what it is: \x1b[31mred"},
		{Name: "clerk", Source: "stored", Version: 3, Problem: "limits: too many"},
	}, inUTC))
}

func TestAgentVersions(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, strings.TrimLeft(`
VERSION  AT                   BY   MODEL      INSTRUCTIONS
3        2026-01-02 03:04:05  bob  -          deleted
2        2026-01-02 03:04:05  -    -          cannot be used: odd
1        2026-01-02 03:04:05  ann  demo/demo  Be brief. Be kind.
`, "\n"), render.AgentVersions([]agent.Version{
		{Version: 3, At: at, By: "bob", Deleted: true},
		{Version: 2, At: at, Problem: "odd"},
		{Version: 1, At: at, By: "ann", Definition: &agent.Definition{Model: "demo/demo", Instructions: "Be brief.\nBe kind.\n"}},
	}, inUTC))
}

// TestAgentIsWhatIsShown: people see all of a definition, in a file that defines the same agent.
func TestAgentIsWhatIsShown(t *testing.T) {
	for name, test := range map[string]struct {
		instructions string
		json         bool
	}{
		"none":                   {"", false},
		"a line":                 {"Be brief.", false},
		"lines":                  {"Be brief.\n\n  - item: 1 # no comment\nBe kind.\n", false},
		"like a number":          {"1", false},
		"like a comment":         {"# not one", false},
		"letters":                {"é 日本 👩", false},
		"a space before":         {"  lead\n all", true},
		"lines of other systems": {"a\r\nb", true},
		"what a terminal obeys":  {"a\x1b[31m\x00\x7f", true},
		"what is not seen":       {"a\u200bb\u202ec\u2028d\U000e0041", true},
	} {
		t.Run(name, func(t *testing.T) {
			given := agent.Agent{Name: "clerk", Model: "demo/demo", Instructions: test.instructions, Tools: []string{"a", "b"}, NoAutoMention: true}
			definition := given.Definition()
			text, err := render.Agent(agent.Detail{Summary: agent.Summary{Name: "clerk", Source: "configured"}, Definition: &definition}, inUTC)
			require.NoError(t, err)
			head, body, _ := strings.Cut(text, "\n")
			require.Equal(t, "# clerk: configured", head)
			require.Equal(t, test.json, strings.HasPrefix(body, "{"), text)
			for _, c := range text {
				require.False(t, c < ' ' && c != '\n' || c == 0x7f || c == 0x200b || c == 0x202e || c == 0x2028 || c == 0xe0041, "%q", text)
			}
			var fields any
			require.NoError(t, yaml.Unmarshal([]byte(text), &fields), text)
			raw, err := json.Marshal(fields)
			require.NoError(t, err)
			var back agent.Agent
			require.NoError(t, json.Unmarshal(raw, &back))
			require.Equal(t, given, back)
		})
	}
}

func TestAgentHead(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	text, err := render.Agent(agent.Detail{
		Summary:  agent.Summary{Name: "clerk", Source: "stored", Version: 3, By: "ann\nmodel: evil", At: at, Problem: "odd"},
		Warnings: []string{"no tool\nrm"},
	}, inUTC)
	require.NoError(t, err)
	require.Equal(t, "# clerk: stored, version 3, by ann model: evil, 2026-01-02 03:04:05\n# It cannot be used: odd\n# Warning: no tool rm\n", text)
}
