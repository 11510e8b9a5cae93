package rule

import (
	"reflect"

	"github.com/threadmill/threadmill/event"
)

// Names and priorities of the default rules.
const (
	UserQuery      = "user_query"
	BackgroundTask = "background_task"
	Session        = "session"
	Fallback       = "fallback"

	// Stream is no default that can be replaced: see [Defaults].
	Stream = "stream"

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

// Defaults returns the rules that there are unless others come before them: four that
// handle events, and the one that lets stream.* pass.
//
// A rule of the same name replaces one of the four, or, disabled, takes it away. The
// pass-through stays: what agents say must not wake the agent that handles what no other
// rule does, since that would say something too, and so on without an end.
func Defaults() []Rule {
	return []Rule{
		{
			Name: UserQuery, Priority: priorityUserQuery,
			Events:  []string{event.TypeUserQuery},
			message: true,
		},
		{
			// Code comes before the agent here as well: the thread keeps account of its
			// tasks by itself, and has noted the end of one before it publishes the event.
			Name: BackgroundTask, Priority: priorityBackgroundTask,
			Events: []string{event.TypeBackgroundTaskCompleted, event.TypeBackgroundTaskFailed},
			Agent:  &Agent{Prompt: BackgroundTaskPrompt},
		},
		{
			Name: Session, Priority: prioritySession,
			Events: []string{"session.*"},
			Log:    true,
		},
		passThrough(),
		{
			Name: Fallback, Priority: priorityFallback,
			Events: []string{"*"},
			Agent:  &Agent{Prompt: FallbackPrompt},
		},
	}
}

// defaults are those that rules of these names leave in place; bare leaves only the
// pass-through.
func defaults(bare bool, taken map[string]bool) []Rule {
	var kept []Rule
	for _, d := range Defaults() {
		if !taken[d.Name] && (!bare || d.Name == Stream) {
			kept = append(kept, d)
		}
	}
	return kept
}

func passThrough() Rule {
	return Rule{Name: Stream, Priority: priorityStream, Events: []string{"stream.*"}}
}

// passesStream reports whether the rule is the pass-through, from [Defaults].
func (r Rule) passesStream() bool {
	return !r.Disabled && reflect.DeepEqual(r.Spec(), passThrough().Spec())
}
