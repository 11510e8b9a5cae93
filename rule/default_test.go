package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

const (
	backgroundPrompt = "You are a background task expert. Analyze task results and decide how to handle."
	fallbackPrompt   = "You are an event handling expert. Analyze event content and decide: 1) respond to user; 2) continue execution; 3) interact with user for confirmation."
)

func TestDefaults(t *testing.T) {
	var none *rule.Set
	empty, err := rule.NewSet(rule.Config{})
	require.NoError(t, err)
	for _, s := range []*rule.Set{none, empty, {}} {
		require.Equal(t, []rule.Spec{
			{Name: "user_query", Events: []string{"user_query"}, Priority: 100, Message: true, Default: true},
			{
				Name: "background_task", Events: []string{"background_task.completed", "background_task.failed"}, Priority: 80,
				Agent: &rule.Agent{Prompt: backgroundPrompt}, Default: true,
			},
			{Name: "session", Events: []string{"session.*"}, Priority: 50, Log: true, Default: true},
			{Name: "stream", Events: []string{"stream.*"}, Priority: 20, Default: true},
			{Name: "fallback", Events: []string{"*"}, Priority: 10, Agent: &rule.Agent{Prompt: fallbackPrompt}, Default: true},
		}, s.Specs(), "S3-26 four rules at priorities 100, 80, 50 and 10; X3 and the pass-through above the fallback")
	}
	require.Contains(t, backgroundPrompt, "background task expert", "S3-28")
	for _, choice := range []string{"respond to user", "continue execution", "interact with user for confirmation"} {
		require.Contains(t, fallbackPrompt, choice, "S3-27")
	}
	r, ok := none.Rule("fallback")
	require.True(t, ok)
	require.Equal(t, fallbackPrompt, r.Agent.Prompt)
	_, ok = none.Rule("another")
	require.False(t, ok)
}

func TestDefaultsHandle(t *testing.T) {
	var none *rule.Set
	for typ, want := range map[string]string{
		event.TypeUserQuery:               "user_query",
		event.TypeBackgroundTaskCompleted: "background_task",
		event.TypeBackgroundTaskFailed:    "background_task",
		event.TypeSessionCreated:          "session",
		event.TypeSessionUpdated:          "session",
		event.TypeSessionDeleted:          "session",
		event.TypeStreamStart:             "stream",
		event.TypeStreamText:              "stream",
		event.TypeStreamReasoning:         "stream",
		event.TypeStreamToolCall:          "stream",
		event.TypeStreamCompleted:         "stream",
		event.TypeStreamError:             "stream",
		event.TypeToolError:               "fallback",
		event.TypeToolExecuted:            "fallback",
		"file.changed":                    "fallback",
		"webhook.received":                "fallback",
	} {
		t.Run("S3-26 S3-initEventRules_registers X3 X4 "+typ, func(t *testing.T) {
			got, ok := rule.Match(none.Specs(), of(typ))
			require.True(t, ok)
			require.Equal(t, want, got.Name)
			if want == "stream" {
				require.Nil(t, got.Agent, "S3-25 no agent hears what agents say")
				require.False(t, got.Log || got.Function || got.Message)
				require.Empty(t, got.Processor)
			}
		})
	}
}

func TestDefaultsAreReplaced(t *testing.T) {
	match := func(s *rule.Set, typ string) string {
		got, _ := rule.Match(s.Specs(), of(typ))
		return got.Name
	}
	t.Run("by rules of their names", func(t *testing.T) {
		s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{{Name: rule.NameFallback, Events: []string{"*"}, Processor: "p"}}})
		require.NoError(t, err, "no other rule comes before it")
		specs := s.Specs()
		require.Len(t, specs, 5)
		require.Equal(t, rule.Spec{Name: "fallback", Events: []string{"*"}, Processor: "p"}, specs[4], "it is no default rule any more")
	})
	t.Run("by nothing, if that is disabled", func(t *testing.T) {
		s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{
			{Name: rule.NameFallback, Events: []string{"*"}, Disabled: true},
			{Events: file}, // priority 0 is valid without the fallback
		}})
		require.NoError(t, err)
		require.Equal(t, "file.changed", match(s, "file.changed"))
		require.Empty(t, match(s, "file.deleted"))
	})
	t.Run("all, but for the pass-through", func(t *testing.T) {
		s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{{Name: "all", Events: []string{"*"}, Agent: agent}}, WithoutDefaults: true})
		require.NoError(t, err)
		require.Len(t, s.Specs(), 2)
		require.Equal(t, "all", match(s, event.TypeUserQuery))
		require.Equal(t, rule.NameStream, match(s, event.TypeStreamText), "X3")
		_, ok := s.Rule(rule.NameFallback)
		require.False(t, ok)

		s, err = rule.NewSet(rule.Config{WithoutDefaults: true})
		require.NoError(t, err)
		require.Empty(t, match(s, "file.changed"), "S3-13 nothing matches")
	})
	t.Run("by themselves, changed", func(t *testing.T) {
		list := rule.Defaults()
		list[4].Agent.Prompt = "Say nothing."
		s, err := rule.NewSet(rule.Config{Rules: list})
		require.NoError(t, err)
		require.Len(t, s.Specs(), 5)
		got, _ := rule.Match(s.Specs(), of("file.changed"))
		require.Equal(t, "Say nothing.", got.Agent.Prompt)
		require.Equal(t, fallbackPrompt, rule.Defaults()[4].Agent.Prompt)
		got, _ = rule.Match(s.Specs(), of(event.TypeUserQuery))
		require.True(t, got.Message)
	})
}
