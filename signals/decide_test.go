package signals_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// refused asserts that err names a field and what is wrong with it; nothing wrong is "".
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	var field *event.FieldError
	require.ErrorAs(t, err, &field)
	require.Contains(t, err.Error(), want)
}

func TestCheckDecide(t *testing.T) {
	globs := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("a", i)] = "*"
		}
		return out
	}
	for name, c := range map[string]struct {
		change func(*signals.Decide)
		want   string
	}{
		"S4-78 once":                 {func(*signals.Decide) {}, ""},
		"S4-80 for the session":      {func(d *signals.Decide) { d.Scope = event.ScopeSession }, ""},
		"a pattern":                  {func(d *signals.Decide) { d.Scope, d.Pattern = event.ScopePattern, globs(20) }, ""},
		"other arguments":            {func(d *signals.Decide) { d.Args = json.RawMessage(`{"a":1}`) }, ""},
		"S4-82 a denial":             {func(d *signals.Decide) { d.Decision, d.Scope = event.DecisionDeny, event.ScopeOnce }, ""},
		"no call":                    {func(d *signals.Decide) { d.ToolCallID = "" }, "toolCallId: is required"},
		"no person":                  {func(d *signals.Decide) { d.By = "" }, "by: is required"},
		"a person without end":       {func(d *signals.Decide) { d.By = strings.Repeat("x", 201) }, "by: is 201 bytes long, must be at most 200"},
		"a reason without end":       {func(d *signals.Decide) { d.Reason = strings.Repeat("x", 4097) }, "reason: must be at most 4096 bytes"},
		"what people do not decide":  {func(d *signals.Decide) { d.Decision = event.DecisionExpired }, `decision: "expired" is neither approve nor deny`},
		"an unknown scope":           {func(d *signals.Decide) { d.Scope = "ever" }, `scope: "ever" is not one of once, session, pattern`},
		"a denial for the session":   {func(d *signals.Decide) { d.Decision, d.Scope = event.DecisionDeny, event.ScopeSession }, "scope: must be once for a denial"},
		"a round before the first":   {func(d *signals.Decide) { d.Round = -1 }, "round: must not be negative"},
		"arguments of a denial":      {func(d *signals.Decide) { d.Decision, d.Args = event.DecisionDeny, json.RawMessage(`{}`) }, "args: require an approval"},
		"arguments that are granted": {func(d *signals.Decide) { d.Scope, d.Args = event.ScopeSession, json.RawMessage(`{}`) }, "args: require scope once"},
		"arguments that are a list":  {func(d *signals.Decide) { d.Args = json.RawMessage(`[]`) }, "args: must be a JSON object"},
		"arguments that are null":    {func(d *signals.Decide) { d.Args = json.RawMessage(`null`) }, "args: must be a JSON object"},
		"arguments without end":      {func(d *signals.Decide) { d.Args = json.RawMessage(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`) }, "args: is 65544 bytes, must be at most 65536"},
		"a pattern without globs":    {func(d *signals.Decide) { d.Scope = event.ScopePattern }, "pattern: and scope pattern require each other"},
		"globs without the scope":    {func(d *signals.Decide) { d.Pattern = globs(1) }, "pattern: and scope pattern require each other"},
		"globs without end":          {func(d *signals.Decide) { d.Scope, d.Pattern = event.ScopePattern, globs(21) }, "pattern: has 21 globs, must have at most 20"},
		"an empty glob":              {func(d *signals.Decide) { d.Scope, d.Pattern = event.ScopePattern, map[string]string{"a": ""} }, "pattern.a: must be a glob of 1 to 1024 bytes"},
		"a long glob": {func(d *signals.Decide) {
			d.Scope, d.Pattern = event.ScopePattern, map[string]string{"a": strings.Repeat("x", 1025)}
		}, "pattern.a: must be a glob"},
	} {
		t.Run(name, func(t *testing.T) {
			d := signals.Decide{ToolCallID: "c", Decision: event.DecisionApprove, By: "ann"}
			c.change(&d)
			refused(t, d.Validate(), c.want)
		})
	}
}

func TestCheckRevokeAndToolResult(t *testing.T) {
	long := strings.Repeat("x", 201)
	for want, r := range map[string]signals.Revoke{
		"":                             {ToolCallID: "c", By: "ann", Reason: strings.Repeat("x", 4096)},
		"toolCallId: is required":      {By: "ann"},
		"toolCallId: must be at most":  {ToolCallID: long, By: "ann"},
		"by: is required":              {ToolCallID: "c"},
		"reason: must be at most 4096": {ToolCallID: "c", By: "ann", Reason: strings.Repeat("x", 4097)},
	} {
		refused(t, r.Validate(), want)
	}
	refused(t, signals.Revoke{ToolCallID: "c", By: long}.Validate(), "by: is 201 bytes long")
	for want, r := range map[string]signals.ToolResult{
		"":                         {ToolCallID: "c", By: "phone", Output: strings.Repeat("x", signals.MaxPayload)},
		"toolCallId: is required":  {By: "phone"},
		"by: is required":          {ToolCallID: "c"},
		"output: is 262145 bytes,": {ToolCallID: "c", By: "phone", Output: strings.Repeat("x", signals.MaxPayload+1)},
	} {
		refused(t, r.Validate(), want)
	}
}

func TestCheckParticipants(t *testing.T) {
	for want, c := range map[string]signals.ThreadChange{
		"": {AddAgents: []string{"a"}, RemoveAgents: []string{"b"}, TurnLimit: 1000},
		"title: set at least one of title, agents, addAgents": {By: "ann"},
		"agents: replace all agents":                          {Agents: []string{"a"}, RemoveAgents: []string{"b"}},
		"turnLimit: is 1001, must be 1":                       {TurnLimit: 1001},
		"turnLimit: is -1, must be 1":                         {TurnLimit: -1},
		`addAgents[1]: "no good" must be`:                     {AddAgents: []string{"a", "no good"}},
		`removeAgents[0]: "" must be`:                         {RemoveAgents: []string{""}},
		"addAgents: has 101 entries, must have at most 100":   {AddAgents: make([]string, 101)},
	} {
		refused(t, c.Validate(), want)
	}
}

func TestStart(t *testing.T) {
	for want, start := range map[string]signals.Start{
		"":                      {Agents: []string{"alice", "bob-2"}, Title: "A title", Metadata: json.RawMessage(`{}`), TurnLimit: 0},
		`agents[1]: "" must be`: {Agents: []string{"alice", ""}},
		`agents[0]: "a\x00"`:    {Agents: []string{"a\x00"}},
		"agents: ":              {Agents: make([]string, signals.MaxAgents+1)},
		"title: ":               {Title: strings.Repeat("x", signals.MaxTitle+1)},
		"metadata: ":            {Metadata: json.RawMessage(`"` + strings.Repeat("x", signals.MaxPayload) + `"`)},
	} {
		refused(t, start.Validate(), want)
	}
}
