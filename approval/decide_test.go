package approval

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecide(t *testing.T) {
	two := Terms{Approvers: []string{"ann", "bob"}, Quorum: 2}
	git := Rule{Name: "git", Tools: []string{"shell_cmd"}, When: `args.command.startsWith("git ")`, Effect: EffectAllow}
	force := Rule{Name: "force", When: `args.command.contains("--force")`, Effect: EffectDeny, Reason: "It rewrites history."}
	prod := Rule{Name: "prod", When: `args.env == "prod"`, Effect: EffectAsk, Reason: "Touches production.", Terms: two}
	all := Rule{Name: "all", Effect: EffectAsk, Terms: Terms{Quorum: 1}}
	never := Rule{Name: "never", Agents: []string{"intern"}, Effect: EffectDeny}
	broken := Rule{Name: "broken", When: `args.missing > 1`, Effect: EffectAllow}

	for name, c := range map[string]struct {
		rules []Rule
		call  Call
		want  Verdict
	}{
		"no rules":            {nil, shellCall(), Verdict{}},
		"none matches":        {[]Rule{force, never}, shellCall(), Verdict{}},
		"one matches":         {[]Rule{git}, shellCall(), Verdict{Effect: EffectAllow, Rule: "git"}},
		"the first decides":   {[]Rule{git, all}, shellCall(), Verdict{Effect: EffectAllow, Rule: "git"}},
		"in their order":      {[]Rule{all, git}, shellCall(), Verdict{Effect: EffectAsk, Rule: "all", Terms: all.Terms}},
		"deny wins, last":     {[]Rule{git, all, force}, shellCall(arguments(`{"command":"git push --force"}`)), Verdict{Effect: EffectDeny, Rule: "force", Reason: "It rewrites history."}},
		"deny wins, first":    {[]Rule{force, git}, shellCall(arguments(`{"command":"git push --force"}`)), Verdict{Effect: EffectDeny, Rule: "force", Reason: "It rewrites history."}},
		"terms come along":    {[]Rule{prod}, shellCall(arguments(`{"env":"prod"}`)), Verdict{Effect: EffectAsk, Rule: "prod", Reason: "Touches production.", Terms: two}},
		"another tool":        {[]Rule{git}, shellCall(func(c *Call) { c.Tool = "other" }), Verdict{}},
		"a tool in capitals":  {[]Rule{git}, shellCall(func(c *Call) { c.Tool = "SHELL_cmd" }), Verdict{Effect: EffectAllow, Rule: "git"}},
		"a tool's look-alike": {[]Rule{git}, shellCall(func(c *Call) { c.Tool = "\u017fhell_cmd" }), Verdict{}},
		"another agent":       {[]Rule{never}, shellCall(), Verdict{}},
		"the agent":           {[]Rule{git, never}, shellCall(func(c *Call) { c.Agent = "Intern" }), Verdict{Effect: EffectDeny, Rule: "never"}},
		"a star among names":  {[]Rule{{Name: "star", Tools: []string{"x", "*"}, Agents: []string{"*"}, Effect: EffectDeny}}, shellCall(), Verdict{Effect: EffectDeny, Rule: "star"}},

		"S4-88 what cannot be evaluated asks": {[]Rule{broken}, shellCall(), Verdict{
			Effect: EffectAsk, Rule: "broken", Reason: `rule "broken" cannot be evaluated, so a person decides: no such key: missing`,
		}},
		"S4-88 though another allows": {[]Rule{git, broken}, shellCall(), Verdict{
			Effect: EffectAsk, Rule: "broken", Reason: `rule "broken" cannot be evaluated, so a person decides: no such key: missing`,
		}},
		"S4-88 and whom another would ask": {[]Rule{broken, git, all}, shellCall(), Verdict{
			Effect: EffectAsk, Rule: "broken", Terms: all.Terms, Reason: `rule "broken" cannot be evaluated, so a person decides: no such key: missing`,
		}},
		"S4-88 the same as if it matched": {[]Rule{prod, all}, shellCall(), Verdict{
			Effect: EffectAsk, Rule: "prod", Terms: two, Reason: `rule "prod" cannot be evaluated, so a person decides: no such key: env`,
		}},
		"deny wins over what cannot be evaluated": {[]Rule{broken, force}, shellCall(arguments(`{"command":"git push --force"}`)), Verdict{
			Effect: EffectDeny, Rule: "force", Reason: "It rewrites history.",
		}},
		"S4-88 a rule that was not checked": {[]Rule{{Name: "typo", When: "arg.x", Effect: EffectDeny}}, shellCall(), Verdict{
			Effect: EffectAsk, Rule: "typo", Reason: `rule "typo" cannot be evaluated, so a person decides: line 1, column 1: undeclared reference to 'arg'; ` + visible,
		}},
		"S4-88 an effect that is none": {[]Rule{{Name: "typo", Effect: "alow"}}, shellCall(), Verdict{
			Effect: EffectAsk, Rule: "typo", Reason: `rule "typo" cannot be evaluated, so a person decides: its effect is "alow", not allow, ask or deny`,
		}},
		"S4-88 arguments that can be read in two ways": {[]Rule{git}, shellCall(arguments(`{"command":"git status","command":"rm"}`)), Verdict{
			Effect: EffectAsk, Rule: "git", Reason: `rule "git" cannot be evaluated, so a person decides: arguments: are not JSON, or are ambiguous: command: is given twice, keep one of them`,
		}},
		"S4-88 a call of which nobody knows where it works": {[]Rule{git, never}, shellCall(func(c *Call) { c.Unclear = "the working directory is away" }), Verdict{
			Effect: EffectAsk, Rule: "git", Reason: `rule "git" cannot be evaluated, so a person decides: the working directory is away`,
		}},
		"a rule without a condition needs no arguments": {[]Rule{never}, shellCall(arguments(`[`), func(c *Call) { c.Agent = "intern" }), Verdict{Effect: EffectDeny, Rule: "never"}},
		"a rule of another tool is not asked":           {[]Rule{{Name: "x", Tools: []string{"x"}, When: `args.missing`, Effect: EffectDeny}, git}, shellCall(), Verdict{Effect: EffectAllow, Rule: "git"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Decide(c.rules, c.call))
			require.Equal(t, c.want, Decide(c.rules, c.call), "the same again")
		})
	}
}

// FuzzDecide: whatever rules and arguments say, there is a verdict. None that [ValidateRules] takes
// runs what it could not evaluate.
func TestDecideOnServers(t *testing.T) {
	rules := []Rule{
		{Name: "write", Tools: []string{"files__write"}, Effect: EffectDeny},
		{Name: "files", Tools: []string{"FILES__*"}, Effect: EffectAsk},
		{Name: "all", Tools: []string{"*"}, Effect: EffectAllow},
	}
	require.NoError(t, ValidateRules(rules))
	for tool, want := range map[string]string{"files__write": "write", "files__Read": "files", "files_read": "all", "file__read": "all"} {
		require.Equal(t, want, Decide(rules, Call{Tool: tool, Arguments: "{}"}).Rule, tool)
	}
	for _, names := range [][]string{{"files*"}, {"__*"}, {"my_files__*"}} {
		require.Error(t, Rule{Name: "r", Effect: EffectAsk, Tools: names}.Validate(), names)
	}
	require.Error(t, Rule{Name: "r", Effect: EffectAsk, Agents: []string{"files__*"}}.Validate())
}

func FuzzDecide(f *testing.F) {
	for _, seed := range [][2]string{
		{`args.command.startsWith("git ")`, `{"command":"git status"}`},
		{`has(args.a) && args.a.b[0] > 1`, `{"a":{"b":[1.5]}}`},
		{`args.l.exists(i, i.x == null)`, `{"l":[{"x":null},1]}`},
		{`args.x.matches("^(a|b)*$")`, `{"x":"ab"}`},
		{`1 / args.n == 1`, `{"n":0}`},
		{`timestamp(args.t) > timestamp("2026-01-01T00:00:00Z")`, `{"t":"2026-01-02T00:00:00Z"}`},
		{`duration("1h") > duration(args.d)`, `{"d":"2h"}`},
		{`paths.f.startsWith("/desk/")`, ``},
		{`arg`, `[`},
		{`b"\xff" == bytes(args.x)`, `{"x":"\ud83d\ude00"}`},
		{`dyn(args) == {"a": [1u, 2.0]}`, `{"a":[1,2]}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, when, raw string) {
		r := Rule{Name: "r", When: when, Effect: EffectAllow}
		c := shellCall(arguments(raw))
		verdict := Decide([]Rule{r}, c)
		require.Contains(t, []Effect{"", EffectAllow, EffectAsk}, verdict.Effect)
		if r.Validate() != nil {
			require.Equal(t, EffectAsk, verdict.Effect, "a mistake never allows")
		}
		if _, err := Canonical(raw); err != nil && strings.TrimSpace(when) != "" {
			require.Equal(t, EffectAsk, verdict.Effect, "nor do arguments that cannot be read")
		}
		require.Equal(t, EffectDeny, Decide([]Rule{r, {Name: "d", Effect: EffectDeny}}, c).Effect)
	})
}
