package hook_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

func TestFilter(t *testing.T) {
	said := hook.Subject{Namespace: "default", Type: event.TypeMessage, CreatedBy: event.CreatedByUser}
	replied := hook.Subject{Namespace: "default", Type: event.TypeMessage, CreatedBy: event.CreatedByAgent, Agent: "Writer"}
	resulted := hook.Subject{Namespace: "default", Type: event.TypeMessage, CreatedBy: event.CreatedByTool, Agent: "Writer", Tools: []string{"sh"}}
	called := hook.Subject{Namespace: "default", Type: event.TypeToolCall, CreatedBy: event.CreatedByAgent, Agent: "Writer", Tools: []string{"add", "sh"}}
	asked := hook.Subject{Namespace: "default", Type: event.TypeLLMCall, CreatedBy: event.CreatedByAgent, Agent: "Writer"}
	ordered := hook.Subject{Namespace: "red", Type: "order.created"}
	subjects := []hook.Subject{said, replied, resulted, called, asked, ordered}
	names := []string{"said", "replied", "resulted", "called", "asked", "ordered"}

	for _, tc := range []struct {
		name   string
		filter hook.Filter
		want   []string
	}{
		{"all but model calls", hook.Filter{}, []string{"said", "replied", "resulted", "called", "ordered"}},
		{"a type", hook.Filter{Types: []string{"message"}}, []string{"said", "replied", "resulted"}},
		{"types", hook.Filter{Types: []string{"tool_call", "order.created"}}, []string{"called", "ordered"}},
		{"what begins like it", hook.Filter{Types: []string{"order.*"}}, []string{"ordered"}},
		{"nothing begins like it", hook.Filter{Types: []string{"orders.*"}}, nil},
		{"the star alone names no model calls", hook.Filter{Types: []string{"*"}}, []string{"said", "replied", "resulted", "called", "ordered"}},
		{"nor does a beginning", hook.Filter{Types: []string{"llm*"}}, nil},
		{"model calls, by name", hook.Filter{Types: []string{"llm_call"}}, []string{"asked"}},
		{"a star in the middle is none", hook.Filter{Types: []string{"order*created"}}, nil},
		{"types are exact", hook.Filter{Types: []string{"Message", "mess"}}, nil},
		{"people", hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByUser}}, []string{"said"}},
		{"agents and tools", hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByAgent, event.CreatedByTool}}, []string{"replied", "resulted", "called"}},
		{"an agent, whatever its case", hook.Filter{Agents: []string{"other", "wRITER"}}, []string{"replied", "resulted", "called"}},
		{"another agent", hook.Filter{Agents: []string{"writer2"}}, nil},
		{"a tool, one of several calls", hook.Filter{Tools: []string{"sh"}}, []string{"resulted", "called"}},
		{"any of the tools", hook.Filter{Tools: []string{"mul", "add"}}, []string{"called"}},
		{"tools are exact", hook.Filter{Tools: []string{"SH"}}, nil},
		{"a namespace", hook.Filter{Namespaces: []string{"red", "blue"}}, []string{"ordered"}},
		{"everything has to match", hook.Filter{
			Types: []string{"message"}, CreatedBy: []event.CreatedBy{event.CreatedByTool}, Agents: []string{"writer"}, Tools: []string{"sh"}, Namespaces: []string{"default"},
		}, []string{"resulted"}},
		{"one that does not is enough", hook.Filter{Types: []string{"message"}, Namespaces: []string{"red"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for i, s := range subjects {
				if tc.filter.Matches(s) {
					got = append(got, names[i])
				}
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestFilterOfServers(t *testing.T) {
	called := hook.Subject{Type: event.TypeToolCall, CreatedBy: event.CreatedByAgent, Tools: []string{"clock", "files__read"}}
	require.True(t, hook.Filter{Tools: []string{"files__*"}}.Matches(called))
	require.True(t, hook.Filter{Tools: []string{"files__read"}}.Matches(called))
	require.False(t, hook.Filter{Tools: []string{"file__*", "*", "files__write"}}.Matches(called))
}

func TestMatching(t *testing.T) {
	require.Empty(t, hook.Matching(nil, hook.Subject{Type: event.TypeMessage}), "S0-08 none is declared")
	var specs []hook.Spec
	for i, typ := range []string{"message", "tool_call", "*", "message"} {
		specs = append(specs, hook.Spec{Name: fmt.Sprint(i), Filter: hook.Filter{Types: []string{typ}}})
	}
	var got []string
	for _, s := range hook.Matching(specs, hook.Subject{Type: event.TypeMessage}) {
		got = append(got, s.Name)
	}
	require.Equal(t, []string{"0", "2", "3"}, got, "S2-33 in their order")
}
