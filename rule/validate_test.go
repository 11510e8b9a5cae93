package rule_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

func handle(context.Context, rule.Context, event.EnvEvent) error { return nil }

var (
	file  = []string{"file.changed"}
	agent = &rule.Agent{Name: "reviewer", Prompt: "Review it.", SystemPrompt: "You are strict."}
)

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule rule.Rule
	}{
		{"S3-14 one type of event", rule.Rule{Events: file}},
		{"S3-14 several", rule.Rule{Events: []string{"file.changed", "github.*", "github.pull_request.*", "*"}}},
		{"S3-14 a function", rule.Rule{Events: file, Function: handle}},
		{"S3-14 an agent", rule.Rule{Events: file, Agent: agent}},
		{"S3-14 an agent that says nothing", rule.Rule{Events: file, Agent: &rule.Agent{}}},
		{"S3-14 options", rule.Rule{Events: file, Disabled: true, Priority: -3}},
		{"a function before an agent", rule.Rule{Events: file, Function: handle, Agent: agent, Timeout: 24 * time.Hour, MaxAttempts: 100}},
		{"a processor", rule.Rule{Events: file, Processor: "orders"}},
		{"S3-61 debounce", rule.Rule{Events: file, Debounce: 24 * time.Hour}},
		{"S3-61 throttle", rule.Rule{Events: file, Throttle: time.Millisecond}},
		{"priorities", rule.Rule{Events: file, Priority: rule.MaxPriority}},
		{"a name of one's own", rule.Rule{Name: "files of the build (1)", Events: file}},
		{"long prompts", rule.Rule{Events: file, Agent: &rule.Agent{Prompt: strings.Repeat("x", rule.MaxPrompt), SystemPrompt: strings.Repeat("x", rule.MaxPrompt)}}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.NoError(t, tc.rule.Validate()) })
	}
	for _, d := range rule.Defaults() {
		require.NoError(t, d.Validate(), d.Name)
	}
}

func TestValidateRefuses(t *testing.T) {
	where := func(c rule.Condition) rule.Rule { return rule.Rule{Events: file, Where: []rule.Condition{c}} }
	events := func(pattern string) rule.Rule { return rule.Rule{Events: []string{"file.changed", pattern}} }
	for _, tc := range []struct {
		name  string
		rule  rule.Rule
		field string
		says  string
	}{
		{"no events", rule.Rule{Name: "r"}, "events", "is required"},
		{"an empty type", events(""), "events[1]", "is empty"},
		{"a * in front", events("*.changed"), "events[1]", `"*.changed": a * stands alone, for every type, or at the end after a dot`},
		{"a * in the middle", events("file.*.x"), "events[1]", "a * stands alone"},
		{"a * without a dot", events("file*"), "events[1]", "a * stands alone"},
		{"two stars", events("file.**"), "events[1]", "a * stands alone"},
		{"a dot and a *", events(".*"), "events[1]", "a * stands alone"},
		{"messages", events("message"), "events[1]", `"message" is not a type of environment event`},
		{"calls", events("tool_call"), "events[1]", "hooks and processors see messages and calls"},
		{"a long type", events(strings.Repeat("x", 129)), "events[1]", "must be 1 to 128 bytes"},
		{"a type that is no text", events("file.\xff"), "events[1]", "of text"},
		{"a type of two lines", events("file\nchanged"), "events[1]", "single line"},
		{"a long name", rule.Rule{Name: strings.Repeat("x", 129), Events: file}, "name", "must be 1 to 128 bytes"},
		{"a name of two lines", rule.Rule{Name: "a\nb", Events: file}, "name", "single line"},
		{"a high priority", rule.Rule{Events: file, Priority: rule.MaxPriority + 1}, "priority", "must be -1000000 to 1000000"},
		{"a low priority", rule.Rule{Events: file, Priority: -rule.MaxPriority - 1}, "priority", "must be -1000000 to 1000000"},

		{"S3-61 negative debounce", rule.Rule{Events: file, Debounce: -1}, "debounce", "must be 0 to 24h0m0s"},
		{"S3-61 long debounce", rule.Rule{Events: file, Debounce: 24*time.Hour + 1}, "debounce", "must be 0 to 24h0m0s"},
		{"S3-61 negative throttle", rule.Rule{Events: file, Throttle: -1}, "throttle", "must be 0 to 24h0m0s"},
		{"S3-61 long throttle", rule.Rule{Events: file, Throttle: 24*time.Hour + 1}, "throttle", "must be 0 to 24h0m0s"},
		{"S3-61 both", rule.Rule{Events: file, Debounce: 1, Throttle: 1}, "throttle", "and debounce exclude each other: set one of them to 0"},

		{"function and processor", rule.Rule{Events: file, Function: handle, Processor: "p"}, "processor", "and function exclude each other"},
		{"processor and agent", rule.Rule{Events: file, Processor: "p", Agent: agent}, "agent", "and processor exclude each other"},
		{"all three", rule.Rule{Events: file, Function: handle, Processor: "p", Agent: agent}, "processor", "and function exclude each other"},
		{"a timeout of nothing", rule.Rule{Events: file, Timeout: 1}, "function", "is required with timeout or maxAttempts"},
		{"attempts of an agent", rule.Rule{Events: file, Agent: agent, MaxAttempts: 2}, "function", "is required with timeout or maxAttempts"},
		{"negative timeout", rule.Rule{Events: file, Function: handle, Timeout: -1}, "timeout", "0 is the default, 30s"},
		{"long timeout", rule.Rule{Events: file, Function: handle, Timeout: 24*time.Hour + 1}, "timeout", "must be positive and at most 24h0m0s"},
		{"negative attempts", rule.Rule{Events: file, Function: handle, MaxAttempts: -1}, "maxAttempts", "0 is the default, 3"},
		{"many attempts", rule.Rule{Events: file, Function: handle, MaxAttempts: 101}, "maxAttempts", "must be 1 to 100"},
		{"a long processor", rule.Rule{Events: file, Processor: strings.Repeat("x", 129)}, "processor", "must be 1 to 128 bytes"},
		{"a long agent", rule.Rule{Events: file, Agent: &rule.Agent{Name: strings.Repeat("x", 129)}}, "agent.name", "must be 1 to 128 bytes"},
		{"a long prompt", rule.Rule{Events: file, Agent: &rule.Agent{Prompt: strings.Repeat("x", rule.MaxPrompt+1)}}, "agent.prompt", "is 16385 bytes, must be at most 16384"},
		{"a prompt that is no text", rule.Rule{Events: file, Agent: &rule.Agent{SystemPrompt: "\xff"}}, "agent.systemPrompt", "is not UTF-8 text"},
		{"an agent after a function", rule.Rule{Events: file, Function: handle, Agent: &rule.Agent{Prompt: "\xff"}}, "agent.prompt", "is not UTF-8 text"},

		{"no field", where(rule.Condition{Equals: 1}), "where[0].field", "is required"},
		{"a field elsewhere", where(rule.Condition{Field: "branch", Equals: 1}), "where[0].field", `"branch" must begin with id, type, timestamp, metadata or payload`},
		{"a field of no place", where(rule.Condition{Field: ".payload", Equals: 1}), "where[0].field", "is required"},
		{"inside text", where(rule.Condition{Field: "type.x", Equals: 1}), "where[0].field", `"type.x": type has no fields`},
		{"an empty part", where(rule.Condition{Field: "payload..x", Equals: 1}), "where[0].field", "has an empty part"},
		{"a dot at the end", where(rule.Condition{Field: "metadata.", Equals: 1}), "where[0].field", "has an empty part"},
		{"a field that is no text", where(rule.Condition{Field: "payload.\xff", Equals: 1}), "where[0].field", "is not UTF-8 text"},
		{"no test", where(rule.Condition{Field: "payload.x"}), "where[0].equals", "is required, or another test: one of not, in, above, below, prefix, contains, exists"},
		{"two tests", where(rule.Condition{Field: "payload.x", Equals: 1, Below: ptr(2.0)}), "where[0].below", "and equals exclude each other: a condition has one test, so write two conditions"},
		{"no values", where(rule.Condition{Field: "payload.x", In: []any{}}), "where[0].in", "is empty"},
		{"no number", where(rule.Condition{Field: "payload.x", Above: ptr(math.NaN())}), "where[0].above", "must be a number"},
		{"no finite number", where(rule.Condition{Field: "payload.x", Below: ptr(math.Inf(1))}), "where[0].below", "must be a number"},
		{"a prefix that is no text", where(rule.Condition{Field: "payload.x", Prefix: "\xff"}), "where[0].prefix", "is not UTF-8 text"},
		{"no JSON", where(rule.Condition{Field: "payload.x", Equals: handle}), "where[0].equals", "has no JSON form"},
		{"no JSON in a list", where(rule.Condition{Field: "payload.x", In: []any{1, math.NaN()}}), "where[0].in", "has no JSON form"},
		{"null", where(rule.Condition{Field: "payload.x", Not: (*int)(nil)}), "where[0].not", "is null: test with exists"},
		{"the second condition", rule.Rule{Events: file, Where: []rule.Condition{{Field: "id", Equals: "x"}, {Field: "x"}}}, "where[1].field", "must begin with"},

		{"X3 the name of the pass-through", rule.Rule{Name: rule.NameStream, Events: file, Priority: 30}, "name", `"stream" is reserved for the rule that keeps stream.* from agents`},
		{"X3 the pass-through, disabled", rule.Rule{Name: rule.NameStream, Events: []string{"stream.*"}, Priority: 20, Disabled: true}, "name", "is reserved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.rule.Validate()
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, tc.field, field.Field)
			require.Contains(t, field.Problem, tc.says)
		})
	}
}

// TestDefaultQueryMakesMessages: the rule that turns a user_query into a message may change its
// priority, but not its events, and may not have a handler.
func TestDefaultQueryMakesMessages(t *testing.T) {
	query := rule.Defaults()[0]
	require.True(t, query.Spec().Message)
	query.Priority, query.Log = 60, true
	require.NoError(t, query.Validate())
	query.Agent = agent
	require.ErrorContains(t, query.Validate(), "agent: and message exclude each other")
	query.Agent, query.Events = nil, file
	require.ErrorContains(t, query.Validate(), "events: of a rule that creates messages must be user_query alone")
}

func TestSpec(t *testing.T) {
	t.Run("S3-14 S3-61 all of it", func(t *testing.T) {
		r := rule.Rule{
			Name: "r", Events: file, Where: []rule.Condition{{Field: "payload.n", Equals: 1}}, Priority: 30, Debounce: time.Second,
			Log: true, Function: handle, Timeout: time.Minute, MaxAttempts: 7, Agent: agent,
		}
		got := r.Spec()
		got.Where = nil
		require.Equal(t, rule.Spec{
			Name: "r", Events: file, Priority: 30, Debounce: time.Second, Log: true, Function: true, Timeout: time.Minute, MaxAttempts: 7, Agent: agent,
		}, got)
		require.Equal(t, time.Hour, rule.Rule{Events: file, Throttle: time.Hour}.Spec().Throttle)
	})
	t.Run("defaults", func(t *testing.T) {
		require.Equal(t, rule.Spec{Name: "file.changed", Events: file, Function: true, Timeout: 30 * time.Second, MaxAttempts: 3},
			rule.Rule{Events: file, Function: handle}.Spec())
		require.Equal(t, rule.Spec{Name: "file.changed", Events: file, Processor: "p"}, rule.Rule{Events: file, Processor: "p"}.Spec(),
			"what is not a function has no time of its own")
	})
	t.Run("it is a copy", func(t *testing.T) {
		r := rule.Rule{Events: []string{"a", "b"}, Agent: &rule.Agent{Name: "one"}, Where: []rule.Condition{{Field: "payload.n", Above: ptr(1.0), In: []any{"x"}}}}
		got := r.Spec()
		r.Events[0], r.Agent.Name, *r.Where[0].Above, r.Where[0].In[0] = "z", "two", 2, "y"
		require.Equal(t, "a", got.Events[0])
		require.Equal(t, "one", got.Agent.Name)
		require.InDelta(t, 1.0, *got.Where[0].Above, 0)
		require.Equal(t, "x", got.Where[0].In[0])
	})
}
