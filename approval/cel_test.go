package approval

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestCheck(t *testing.T) {
	ask := func(change func(*Rule)) []Rule {
		r := Rule{Name: "r", Effect: EffectAsk}
		change(&r)
		return []Rule{{Name: "first", Effect: EffectDeny, When: "args.x == 1"}, r}
	}
	when := func(expression string) []Rule { return ask(func(r *Rule) { r.When = expression }) }
	terms := func(t Terms) []Rule { return ask(func(r *Rule) { r.Terms = t }) }
	for name, c := range map[string]struct {
		rules []Rule
		field string
		want  string
	}{
		"no name":          {ask(func(r *Rule) { r.Name = " " }), "name", "is required"},
		"name of lines":    {ask(func(r *Rule) { r.Name = "a\nb" }), "name", "contains U+000A, white space"},
		"long name":        {ask(func(r *Rule) { r.Name = strings.Repeat("a", 129) }), "name", "is 129 bytes long, must be at most 128"},
		"name taken":       {ask(func(r *Rule) { r.Name = "First" }), "name", `"First" is already the name of rule 1`},
		"no effect":        {ask(func(r *Rule) { r.Effect = "" }), "effect", `is required: allow, ask or deny (rule "r")`},
		"unknown effect":   {ask(func(r *Rule) { r.Effect = "Deny" }), "effect", `"Deny" is not allow, ask or deny`},
		"part of a name":   {ask(func(r *Rule) { r.Tools = []string{"a", "shell*"} }), "tools[1]", `"shell*" is neither a name`},
		"agent look-alike": {ask(func(r *Rule) { r.Agents = []string{"\u0430ssistant"} }), "agents[0]", "is neither a name"},
		"long reason":      {ask(func(r *Rule) { r.Reason = strings.Repeat("a", MaxReason+1) }), "reason", "is 4097 bytes, must be at most 4096"},
		"terms of allow":   {ask(func(r *Rule) { r.Effect, r.Terms.Quorum = EffectAllow, 2 }), "terms", "require the effect ask"},

		"unknown variable":    {when("args.x == 1 &&\n arg.y == 2"), "when", `line 2, column 2: undeclared reference to 'arg'; there are tool, agent, ns (the namespace), thread, workingDirectory, args and paths`},
		"the namespace":       {when(`namespace == "a"`), "when", "line 1, column 1: reserved identifier: namespace is a word of CEL; the namespace is called ns"},
		"unknown function":    {when(`args.x.contain("a")`), "when", "line 1, column 15: undeclared reference to 'contain'"},
		"macros that explode": {when(`args.x.map(i, i) == []`), "when", "undeclared reference to 'map'"},
		"no clock":            {when(`now() == now()`), "when", "undeclared reference to 'now'"},
		"wrong type":          {when(`tool == 1`), "when", "line 1, column 6: found no matching overload for '_==_' applied to '(string, int)'"},
		"paths are text":      {when(`paths.file > 1`), "when", "found no matching overload"},
		"no truth":            {when(`args`), "when", "it is map(string, dyn), must be true or false"},
		"text":                {when(`"true"`), "when", "it is string, must be true or false"},
		"cut off":             {when(`args.x ==`), "when", `line 1, column 10: it ends too early (rule "r")`},
		"a comment":           {when(`// all`), "when", "it ends too early"},
		"a pattern":           {when(`args.x.matches("(")`), "when", "error parsing regexp: missing closing )"},
		"nested":              {when(strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200)), "when", "expression recursion limit exceeded"},
		"long":                {when(strings.Repeat(" ", MaxWhen) + "true"), "when", "it is 4100 bytes, must be at most 4096"},

		"approver twice":    {terms(Terms{Approvers: []string{"ann", "Ann"}}), "terms.approvers[1]", `"Ann" is duplicated`},
		"approver nobody":   {terms(Terms{Approvers: []string{""}}), "terms.approvers[0]", "is required"},
		"approver unnamed":  {terms(Terms{Approvers: []string{"Human"}}), "terms.approvers[0]", `"Human" identifies nobody`},
		"approver in space": {terms(Terms{Approvers: []string{"ann "}}), "terms.approvers[0]", "ends with a space: remove it"},
		"approver unseen":   {terms(Terms{Approvers: []string{"ann\u200b"}}), "terms.approvers[0]", "contains U+200B, which cannot be seen"},
		"quorum below":      {terms(Terms{Quorum: -1}), "terms.quorum", "is -1, must be 1 to 100"},
		"quorum of few":     {terms(Terms{Quorum: 3, Approvers: []string{"ann", "bob"}}), "terms.quorum", "is 3, but only 2 may approve"},
		"expires at once":   {terms(Terms{Expires: time.Millisecond}), "terms.expires", "is 1ms, must be 1s to 8760h0m0s (or 0: never)"},
		"expires never":     {terms(Terms{Expires: MaxExpires + 1}), "terms.expires", "must be 1s to 8760h0m0s"},
		"reminds at once":   {terms(Terms{Remind: -time.Second}), "terms.remind", "is -1s, must be 1s"},
		"on expiry":         {terms(Terms{OnExpiry: "approve"}), "terms.onExpiry", `"approve" is not deny or interrupt`},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateRules(c.rules)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, "approvalRules[1]."+c.field, field.Field)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, field.Problem, "\n")
		})
	}
	require.ErrorContains(t, ValidateRules(make([]Rule, MaxRules+1)), "approvalRules: has 1001 entries, must have at most 1000")
	require.NoError(t, ValidateRules(nil))
	require.NoError(t, ValidateRules([]Rule{{
		Name: "everything", Tools: []string{"*", "shell_cmd"}, Agents: []string{"Ops-2"}, Effect: EffectAsk, Reason: "Costs money.",
		When:  `has(args.amount) && args.amount > 100 || ["a"].exists(x, x in args) && ns == "default" && thread != "" && workingDirectory.startsWith("/") && paths.size() == 0`,
		Terms: Terms{Approvers: []string{"ann", "bob"}, Quorum: 2, Expires: MaxExpires, Remind: time.Second, OnExpiry: OnExpiryInterrupt},
	}}))

	t.Run("terms of an agent", func(t *testing.T) {
		require.NoError(t, Terms{}.Validate())
		require.EqualError(t, Terms{Quorum: 101}.Validate(), "quorum: is 101, must be 1 to 100 (default 1)")
	})
}

// TestArguments: arguments compare as people expect, however the model writes them.
func TestArguments(t *testing.T) {
	in := input(shellCall(arguments(`{"command":"git push","x":3.0,"e":3e2,"f":2.5,"n":null,"yes":true,"l":[1,2.0,{"a":"b"}],
		"big":9223372036854775808,"exact":9007199254740993.0,"huge":1e30,"tiny":1e-400,"o":{"p":{"q":1}},"a-b":1}`), func(c *Call) {
		c.Paths = map[string]string{"file": "/desk/a"}
	}))
	for _, expression := range []string{
		`args.x == 3 && args.x == 3.0 && args.x + 1 == 4 && args.x < 3.5 && args.x == 3u`, `args.e == 300`, `args.f > 2 && args.f < 3 && args.f != 2`,
		`args.n == null`, `args.yes`, `args.l[1] == 2 && 2 in args.l && args.l.exists(i, i == 2) && args.l[2].a == "b"`, `args.big > 9223372036854775807`,
		`args.exact == 9007199254740993 && args.exact != 9007199254740992`, `args.huge > 1 && args.huge == 1e30`, `args.tiny == 0`,
		`args.o.p.q == 1`, `args["a-b"] == 1`, `!has(args.missing) && !("missing" in args)`, `has(args.n)`, `args.command.matches("^git (push|pull)( |$)")`,
		`tool == "shell_cmd" && agent == "assistant" && ns == "default" && thread == "t1" && workingDirectory == "/desk"`, `paths.file == "/desk/a"`,
		`args.missing == 1 || true`, `size(args.command) == 8`,
	} {
		is, err := in.evaluate(expression)
		require.NoError(t, err, expression)
		require.True(t, is, expression)
	}
	for expression, want := range map[string]string{
		`args.missing == 1`:                        "no such key: missing",
		`paths.missing == ""`:                      "no such key: missing",
		`args.x`:                                   "it is int, neither true nor false",
		`args.command > 3`:                         "no such overload",
		`args.o.p.q.r == 1`:                        "no such key: r",
		`int(args.command) == 1`:                   "type conversion error",
		`1 / int(args.tiny) == 1`:                  "division by zero",
		`args.command.matches("(" + args.command)`: "missing closing",
	} {
		_, err := in.evaluate(expression)
		require.ErrorContains(t, err, want, expression)
	}
	_, err := input(shellCall(arguments(`{"x":1e400}`))).evaluate("args.x > 1")
	require.ErrorContains(t, err, `the number "1e400" is out of range`)
	_, err = input(shellCall(arguments(`{"x":1,"x":2}`))).evaluate("true")
	require.ErrorContains(t, err, "x: is given twice")
}

// TestEvaluationIsBounded: neither rules nor arguments hold a worker up.
func TestEvaluationIsBounded(t *testing.T) {
	in := input(shellCall(arguments(`{"l":[` + strings.Repeat("1,", 5000) + `1],"text":"` + strings.Repeat("ab", 500_000) + `"}`)))
	for expression, want := range map[string]string{
		`args.l.all(a, args.l.all(b, args.l.all(c, a == b && b == c)))`:      "it takes longer than 1s",
		`args.text.matches("(a|b)*c" + "` + strings.Repeat("x?", 200) + `")`: "actual cost limit exceeded",
	} {
		start := time.Now()
		_, err := in.evaluate(expression)
		require.Error(t, err)
		if !strings.Contains(err.Error(), "actual cost limit exceeded") { // whichever comes first on this machine
			require.ErrorContains(t, err, want)
		}
		require.Less(t, time.Since(start), time.Minute, "it would take hours, or with the race detector some seconds")
	}
}

// TestProgramsAreShared: an expression is compiled once, also by many at a time, and those
// of long ago make room.
func TestProgramsAreShared(t *testing.T) {
	first, err := compiled(`args.shared == 1`)
	require.NoError(t, err)
	again, err := compiled(`args.shared == 1`)
	require.NoError(t, err)
	require.Same(t, first.program, again.program)

	in := input(shellCall(arguments(`{"n":7}`)))
	var wait sync.WaitGroup
	wrong := make(chan string, 1000)
	for worker := range 8 {
		wait.Go(func() {
			for i := range 100 {
				n := (worker + i) % 10
				is, err := in.evaluate(fmt.Sprintf("args.n == %d", n))
				if err != nil || is != (n == 7) {
					wrong <- fmt.Sprint(n, is, err)
				}
			}
		})
	}
	wait.Wait()
	require.Empty(t, wrong)

	for i := range maxCached + 10 {
		_, err := compiled(fmt.Sprintf("args.n == %d", i))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(programs.entries), maxCached)
	is, err := in.evaluate("args.n == 7")
	require.NoError(t, err)
	require.True(t, is)
}
