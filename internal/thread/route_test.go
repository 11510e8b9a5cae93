package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestRoute(t *testing.T) {
	two := []string{"alice", "Bob"}
	for _, tc := range []struct {
		name    string
		agents  []string
		by      event.CreatedBy
		sender  string
		content string
		want    []string
	}{
		{"S0-26 user, no agents named: the default agent", nil, event.User, "ann", "hi", []string{""}},
		{"S0-26 user: all", two, event.User, "ann", "hi", two},
		{"S0-26 user, one mentioned", two, event.User, "ann", "@bob hi", []string{"Bob"}},
		{"S0-26 user, on two lines", two, event.User, "ann", "@bob hi\n  @Alice you too", two},
		{"S0-26 user, an unknown name: all", two, event.User, "ann", "@carol hi", two},
		{"a longer name is another name", two, event.User, "ann", "@alice2 hi\n@bo", two},
		{"S0-26 user with an agent's name is still a user", two, event.User, "alice", "@alice hi", []string{"alice"}},
		{"S0-26 tool from outside: all", two, event.Tool, "cron", "it is noon", two},
		{"S0-26 tool from outside: one", two, event.Tool, "cron", "@alice it is noon", []string{"alice"}},
		{"S0-26 system: nobody", two, event.System, "threadmill", "@alice hi", nil},
		{"S0-26 system, default agent: nobody", nil, event.System, "threadmill", "hi", nil},
		{"S0-26 agent without mention: nobody", two, event.Agent, "alice", "hi", nil},
		{"S0-26 agent in the middle of a line: nobody", two, event.Agent, "alice", "hi @bob", nil},
		{"S0-26 agent to another", two, event.Agent, "alice", "@bob hi", []string{"Bob"}},
		{"S0-26 agent to itself: nobody", two, event.Agent, "ALICE", "@alice hi", nil},
		{"S0-26 agent, default agent: nobody", nil, event.Agent, "assistant", "@assistant hi", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Route(tc.agents, tc.by, tc.sender, tc.content))
		})
	}
}
