package rule

import (
	"reflect"

	"github.com/threadmill/threadmill/event"
)

// Names and priorities of the default rules.
const (
	NameUserQuery      = "user_query"
	NameBackgroundTask = "background_task"
	NameSession        = "session"
	NameFallback       = "fallback"

	// NameStream is the name of a default rule that cannot be replaced: see [Defaults].
	NameStream = "stream"

	priorityUserQuery      = 100
	priorityBackgroundTask = 80
	prioritySession        = 50
	priorityStream         = 20
	priorityFallback       = 10
)

// Prompts of the default rules.
const (
	BackgroundTaskPrompt = "You are a background task expert. Analyze task results and decide how to handle."
	FallbackPrompt       = "You are an event handling expert. Analyze event content and decide: 1) respond to user; 2) continue execution; 3) interact with user for confirmation."
)

// Defaults returns the default rules: four that handle events, and one that ignores stream.*
// events.
//
// A rule with the same name replaces one of the four or, if disabled, removes it. The stream rule
// always remains: agents' own output must not start the agent of the fallback rule, since its
// output would start it again without end.
func Defaults() []Rule {
	return []Rule{
		{
			Name: NameUserQuery, Priority: priorityUserQuery,
			Events:  []string{event.TypeUserQuery},
			message: true,
		},
		{
			// No function is needed before the agent: the thread tracks its tasks, and records the
			// end of a task before it publishes the event.
			Name: NameBackgroundTask, Priority: priorityBackgroundTask,
			Events: []string{event.TypeBackgroundTaskCompleted, event.TypeBackgroundTaskFailed},
			Agent:  &Agent{Prompt: BackgroundTaskPrompt},
		},
		{
			Name: NameSession, Priority: prioritySession,
			Events: []string{"session.*"},
			Log:    true,
		},
		passThrough(),
		{
			Name: NameFallback, Priority: priorityFallback,
			Events: []string{"*"},
			Agent:  &Agent{Prompt: FallbackPrompt},
		},
	}
}

// defaults returns the default rules whose names are not taken; bare returns only the stream rule.
func defaults(bare bool, taken map[string]bool) []Rule {
	var kept []Rule
	for _, d := range Defaults() {
		if !taken[d.Name] && (!bare || d.Name == NameStream) {
			kept = append(kept, d)
		}
	}
	return kept
}

func passThrough() Rule {
	return Rule{Name: NameStream, Priority: priorityStream, Events: []string{"stream.*"}}
}

// passesStream reports whether the rule is the pass-through, from [Defaults].
func (r Rule) passesStream() bool {
	return !r.Disabled && reflect.DeepEqual(r.Spec(), passThrough().Spec())
}
