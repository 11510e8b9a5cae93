package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/step"
)

// directory is a company's list of groups, which may be out of order.
type directory struct {
	groups approval.FixedGroups
	broken bool
	asked  int
}

func (d *directory) Members(ctx context.Context, namespace, group string) ([]string, error) {
	d.asked++
	if d.broken {
		return nil, errors.New("dial tcp 10.0.0.1: connection refused")
	}
	return d.groups.Members(ctx, namespace, group)
}

func of(names ...string) []string { return names }

// office is a world whose builds need the approval of people on these terms.
func office(t *testing.T, d approval.Groups, terms ...approval.Terms) *fixture {
	t.Helper()
	w := newFixture(t, func(c *activities.Config) {
		withOwnTools(c)
		c.ApproverGroups = d
		for i, name := range []string{"build", "task"} {
			if i < len(terms) {
				c.ApprovalRules = append(c.ApprovalRules, approval.Rule{Name: name, Tools: of(name), Effect: approval.EffectAsk, Terms: terms[i]})
			}
		}
	}, backgroundTool(returns("built")))
	return w
}

// TestGroups asks the members of groups.
func TestGroups(t *testing.T) {
	people := approval.FixedGroups{"finance": of("ann", "bob"), "board": of("bob", "eve"), "nobody": {}, "odd": of("", "human", "ann", "ann")}
	for i := range approval.MaxMembers + 1 {
		people["company"] = append(people["company"], fmt.Sprint("p", i))
	}
	people["all"] = people["company"][:approval.MaxApprovers+1]
	for name, tc := range map[string]struct {
		build, task approval.Terms
		broken      bool

		people []string
		groups []string
		reason string
	}{
		"one":              {build: approval.Terms{Groups: of("finance"), Quorum: 2}, people: of("ann", "bob"), groups: of("finance")},
		"and people":       {build: approval.Terms{Groups: of("finance"), Approvers: of("eve", "ann")}, people: of("eve", "ann", "bob"), groups: of("finance")},
		"two":              {build: approval.Terms{Groups: of("finance", "board")}, people: of("ann", "bob", "eve"), groups: of("finance", "board")},
		"empty":            {build: approval.Terms{Groups: of("nobody")}, groups: of("nobody")},
		"smaller":          {build: approval.Terms{Groups: of("finance"), Quorum: 3}, people: of("ann", "bob"), groups: of("finance")},
		"no names":         {build: approval.Terms{Groups: of("odd")}, people: of("ann"), groups: of("odd")},
		"gone":             {build: approval.Terms{Groups: of("sales")}, groups: of("sales"), reason: `group does not exist: "sales"`},
		"unread":           {build: approval.Terms{Groups: of("finance")}, broken: true, groups: of("finance"), reason: `the members of group "finance" could not be read`},
		"large":            {build: approval.Terms{Groups: of("all")}, people: people["all"][:approval.MaxApprovers], groups: of("all")},
		"in both":          {build: approval.Terms{Groups: of("finance")}, task: approval.Terms{Groups: of("board")}, people: of("bob"), groups: of("board", "finance")},
		"the same":         {build: approval.Terms{Groups: of("finance")}, task: approval.Terms{Groups: of("finance")}, people: of("ann", "bob"), groups: of("finance")},
		"people and group": {build: approval.Terms{Approvers: of("ann", "eve")}, task: approval.Terms{Groups: of("finance")}, people: of("ann"), groups: of("finance")},
		"enormous":         {build: approval.Terms{Groups: of("company")}, groups: of("company"), reason: `the members of group "company" could not be read`},
		"and anybody":      {build: approval.Terms{Groups: of("finance")}, task: approval.Terms{Quorum: 2}, people: of("ann", "bob"), groups: of("finance")},
		"in both, too few": {build: approval.Terms{Groups: of("finance")}, task: approval.Terms{Groups: of("board"), Quorum: 2}, people: of("bob"), groups: of("board", "finance")},
		"in both, unread":  {build: approval.Terms{Groups: of("finance")}, task: approval.Terms{Groups: of("board")}, broken: true, groups: of("board", "finance"), reason: `the members of group "board" could not be read; the members of group "finance" could not be read`},
	} {
		t.Run(name, func(t *testing.T) {
			d := &directory{groups: people, broken: tc.broken}
			w, asks := office(t, d, tc.build), call("c1", "build", `{}`)
			if tc.task.Restricted() || tc.task.Quorum > 0 {
				w, asks = office(t, d, tc.build, tc.task), call("c1", "task", `{"tool":"build","arguments":{}}`)
			}
			w.asked(asks)
			out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: "e1", MessageID: "e1.0.1"}, Only: of("c1")})
			require.NoError(t, err)
			planned := out.Calls[0]
			require.Empty(t, planned.Denied, "a group may get members while the call waits")
			require.True(t, planned.NeedsApproval)
			require.ElementsMatch(t, tc.people, planned.Approval.Approvers)
			require.Equal(t, tc.groups, planned.Approval.Groups)
			require.Equal(t, tc.reason, planned.Reason)
			require.NotContains(t, planned.Reason, "10.0.0.1", "what only operators should see is in the log")
			require.LessOrEqual(t, d.asked, 2, "each group is read once for a step")
		})
	}
}

// TestLateMember decides whether somebody may who was not a member when people were asked.
func TestLateMember(t *testing.T) {
	d := &directory{groups: approval.FixedGroups{"finance": of("ann")}}
	w := office(t, d, approval.Terms{Groups: of("finance")})
	w.asked(call("c1", "build", `{}`))
	check := func(by, args string) (out step.CheckReply) {
		input := step.Check{Thread: ref, Agent: "assistant", MessageID: "e1.0.1", ToolCallID: "c1", By: by, Args: args, Late: true}
		v, err := w.env.ExecuteActivity(step.ActivityCheckDecision, input)
		require.NoError(t, err)
		require.NoError(t, v.Get(&out))
		return out
	}
	require.Equal(t, step.CheckReply{}, check("bob", ""), "not a member")
	require.Equal(t, step.CheckReply{}, check("bob", `{}`), "whose edits are not even looked at")
	d.groups["finance"] = of("ann", "bob")
	require.Equal(t, step.CheckReply{Member: true}, check("bob", ""))
	edited := check("bob", `{}`)
	require.True(t, edited.Member)
	require.NotNil(t, edited.Guard)
	d.broken = true
	require.EqualError(t, check("bob", "").Err(), `by: could not be checked: the members of group "finance" could not be read`)
	d.broken, d.groups = false, approval.FixedGroups{}
	require.Equal(t, step.CheckReply{}, check("bob", ""), "of a group that is gone")
}

// TestLateMemberOfBoth: who must be in two groups must be in both of them, also later.
func TestLateMemberOfBoth(t *testing.T) {
	d := &directory{groups: approval.FixedGroups{"finance": of("ann"), "board": of("eve")}}
	w := office(t, d, approval.Terms{Groups: of("finance")}, approval.Terms{Groups: of("board")})
	w.asked(call("c1", "task", `{"tool":"build","arguments":{}}`))
	may := func(by string) bool {
		input := step.Check{Thread: ref, Agent: "assistant", MessageID: "e1.0.1", ToolCallID: "c1", By: by, Late: true}
		v, err := w.env.ExecuteActivity(step.ActivityCheckDecision, input)
		require.NoError(t, err)
		var out step.CheckReply
		require.NoError(t, v.Get(&out))
		return out.Member
	}
	require.False(t, may("ann"))
	require.False(t, may("eve"))
	d.groups["board"] = of("eve", "ann")
	require.True(t, may("ann"))
	require.False(t, may("eve"))
}
