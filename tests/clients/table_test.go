package clients

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/frontends.md")

// killed is the scenario of TestClientsOfKilledServers, in tests/programs.
const killed = "killed"

// The columns of the table: the AI SDK has the first three.
const (
	columnAGUI        = 3
	columnEventSource = 5
)

var columns = []string{"`ai` 6", "`ai` 7", "`WorkflowChatTransport`", "AG-UI 1.0", "AG-UI 0.0.59", "`EventSource`"}

// row is what a person does, and for each client the scenario that does it, or why there is none, behind a dash.
type row struct {
	what  string
	cells [6]string
}

// all is a row of one scenario for the AI SDK, one for AG-UI and one for EventSource.
func all(what, sdk, agui, events string) row {
	return row{what, [6]string{sdk, sdk, sdk, agui, agui, events}}
}

// table is the table of docs/frontends.md.
var table = []row{
	all("text", "reply", "reply", "reply"),
	{"reasoning", [6]string{"reply", "reply", "- its stream is made of records, and thoughts are live", "reply", "reply", "reply"}},
	{"a tool with progress", [6]string{"progress", "progress", "- its stream is made of records, and progress is live", "progress", "progress", "tools"}},
	all("approve", "approval", "interrupt", "approval"),
	all("deny", "approval", "interrupt", "approval"),
	all("approve for the session", "decided since", "decided since", "decided since"),
	all("approve with other arguments", "decided since", "interrupt", "decided since"),
	all("a sub-agent asks", "sub-agent asks", "sub-agent asks", "sub-agent asks"),
	all("a tool asks for input", "input", "input", "input"),
	all("a tool of a sub-agent asks for input", "sub-agent input", "sub-agent input", "sub-agent input"),
	all("decided elsewhere", "approval elsewhere", "interrupt elsewhere", "approval"),
	all("a request expires", "expired", "expired", "expired"),
	all("a client tool", "client tool", "client tool", "client tool"),
	all("a client tool that needs approval", "client tool with approval", "client tool with approval", "client tool with approval"),
	all("a message that is queued", "queue", "queue", "queue"),
	all("a message that steers", "steer", "steer", "steer"),
	all("a message while a call waits", "message while waiting", "interrupt", "message while waiting"),
	all("stop", "stop", "cancelled", "stop"),
	all("try again", "regenerate", "missed end", "error"),
	all("the model fails", "error", "error", "error"),
	all("a reload at every stage", "reload at every stage", "reload at every stage", "resume"),
	all("a second tab", "resume", "resume", "resume"),
	{"30 cuts of the connection", [6]string{"cuts", "cuts", "workflow", "cuts", "cuts", "cuts"}},
	all("`kill -9` of the server", killed, killed, killed),
	{"a forged history", [6]string{"forged history", "forged history", "forged history", "interrupt", "interrupt", "- it sends none"}},
	{"keys and roles", [6]string{"keys and roles", "keys and roles", "keys and roles", "keys and roles", "keys and roles", "- it cannot send a key: see stream tickets"}},
}

// scenarios are those of a column, each once.
func scenarios(column int) []string {
	var out []string
	for _, r := range table {
		if one := r.cells[column]; !strings.HasPrefix(one, "- ") && one != killed && !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// TestTable: the table in docs/frontends.md says what the tests of clients show.
func TestTable(t *testing.T) {
	const file, begin, end = "../../docs/frontends.md", "<!-- table of clients -->\n", "<!-- end of table -->\n"
	var b strings.Builder
	b.WriteString("| | " + strings.Join(columns, " | ") + " |\n|---" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, r := range table {
		b.WriteString("| " + r.what)
		for _, cell := range r.cells {
			why, none := strings.CutPrefix(cell, "- ")
			if !none {
				why = "yes"
			}
			b.WriteString(" | " + why)
		}
		b.WriteString(" |\n")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "%s has no %s and %s", file, begin, end)
	want := before + begin + b.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./tests/clients -run TestTable -update writes the table")
}
