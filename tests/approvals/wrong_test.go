package approvals

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestDecisionsThatAreWrong: the error of an invalid decision names the field, and the call still
// waits.
func TestDecisionsThatAreWrong(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{Configure: func(cfg *threadmill.Config) {
		cfg.ApprovalRules = []approval.Rule{{
			Name: "no removal", When: `args.command.contains("rm ")`, Effect: approval.EffectDeny, Reason: "nothing is removed",
		}}
	}})
	c := o.talk(t)
	posted, q := c.asks(`use shell_cmd {"command":"echo hello"}`)
	pattern := func(globs map[string]string) func(*signals.Decide) {
		return func(d *signals.Decide) { d.Scope, d.Pattern = event.ScopePattern, globs }
	}
	args := func(raw string) func(*signals.Decide) {
		return func(d *signals.Decide) { d.Args = json.RawMessage(raw) }
	}
	toolArgs := func(raw string) func(*signals.Decide) {
		return func(d *signals.Decide) { d.ToolArgs = json.RawMessage(raw) }
	}
	var wrong []string
	for name, tc := range map[string]struct {
		field   string
		mistake func(*signals.Decide)
	}{
		"a scope that is none":                   {"scope", func(d *signals.Decide) { d.Scope = "forever" }},
		"a denial for the session":               {"scope", func(d *signals.Decide) { d.Decision, d.Scope = event.DecisionDeny, event.ScopeSession }},
		"a decision that is none":                {"decision", func(d *signals.Decide) { d.Decision = "approved" }},
		"expiry, which nobody decides":           {"decision", func(d *signals.Decide) { d.Decision = event.DecisionExpired }},
		"a pattern for once":                     {"pattern", func(d *signals.Decide) { d.Pattern = map[string]string{"command": "*"} }},
		"no pattern":                             {"pattern", pattern(nil)},
		"an empty glob":                          {"pattern.command", pattern(map[string]string{"command": ""})},
		"a long glob":                            {"pattern.command", pattern(map[string]string{"command": strings.Repeat("*", 1<<10+1)})},
		"a glob that does not cover the call":    {"pattern.command", pattern(map[string]string{"command": "ls *"})},
		"a glob in another case":                 {"pattern.command", pattern(map[string]string{"command": "ECHO *"})},
		"a glob for what the call does not have": {"pattern.directory", pattern(map[string]string{"command": "echo *", "directory": "*"})},
		"arguments for the session":              {"args", func(d *signals.Decide) { d.Scope, d.Args = event.ScopeSession, json.RawMessage(`{"command":"ls"}`) }},
		"arguments of a denial":                  {"args", func(d *signals.Decide) { d.Decision, d.Args = event.DecisionDeny, json.RawMessage(`{"command":"ls"}`) }},
		"arguments that are no object":           {"args", args(`["ls"]`)},
		"arguments that are text":                {"args", args(`"{\"command\":\"ls\"}"`)},
		"arguments of another type":              {"args", args(`{"command":7}`)},
		"arguments that the tool does not have":  {"args", args(`{"command":"ls","user":"root"}`)},
		"arguments twice":                        {"args.command", args(`{"command":"ls","command":"id"}`)},
		"arguments of the call twice":            {"toolArgs.command", toolArgs(`{"command":"echo hello","command":"id"}`)},
		"a name with a space at its end":         {"by", func(d *signals.Decide) { d.By = "ann " }},
		"arguments that a rule denies":           {"args", args(`{"command":"rm -r x"}`)},
		"long arguments":                         {"args", args(`{"command":"` + strings.Repeat("x", 64<<10) + `"}`)},
		"a long reason":                          {"reason", func(d *signals.Decide) { d.Reason = strings.Repeat("x", 4<<10+1) }},
		"a long name":                            {"by", func(d *signals.Decide) { d.By = strings.Repeat("x", 201) }},
		"a round below zero":                     {"round", func(d *signals.Decide) { d.Round = -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			d := check.Approving(q)
			tc.mistake(&d)
			_, err := c.Threads.Decide(c.Ctx(), c.id, d)
			// The client finds what is wrong in itself, and the thread what does not fit the call.
			require.True(t, errors.Is(err, event.ErrInvalid) || errors.Is(err, signals.ErrRefused), err)
			require.Contains(t, err.Error(), tc.field+": ", "update")

			body := bodyOf(d)
			for field, set := range map[string]bool{"pattern": d.Pattern != nil, "args": d.Args != nil, "reason": d.Reason != "", "round": d.Round != 0} {
				if set {
					body[field] = map[string]any{"pattern": d.Pattern, "args": d.Args, "reason": d.Reason, "round": d.Round}[field]
				}
			}
			status, problem := check.Request(t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/approvals/"+q.ToolCallID, body)
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, status, problem)
			require.Regexp(t, `body\.`+tc.field+`\b|(refused|message): ?`+tc.field+": ", fmt.Sprint(problem), "HTTP")

			c.signals(signals.SignalDecide, d)
			wrong = append(wrong, tc.field)
			c.undecided(q)
		})
	}
	c.decides(signals.DecideAccepted, check.Approving(q))
	c.completes(posted)
	require.Contains(t, c.result(q).Content, "hello")
	audited := c.audited(len(wrong))
	for i, problem := range audited {
		audited[i], _, _ = strings.Cut(problem, ": ")
	}
	require.ElementsMatch(t, wrong, audited, "signals leave an audit record, which names the field as well")
}
