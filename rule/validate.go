package rule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

// Limits of a rule.
const (
	// MaxHold is the maximum of Debounce, Throttle and Timeout.
	MaxHold = 24 * time.Hour

	// MaxPriority is the maximum absolute value of Priority.
	MaxPriority = 1_000_000

	// MaxPrompt is the maximum length of each of an agent's two prompts, in bytes.
	MaxPrompt = 16 << 10

	maxAttempts = 100
	maxWord     = 128 // bytes, as of the types of events
)

// within prefixes the field of an error with its place.
func within(place string, err error) error {
	var field *event.FieldError
	if errors.As(err, &field) {
		return event.FieldErrorf(place+"."+field.Field, "%s", field.Problem)
	}
	return err
}

// Validate reports the first field that is missing or invalid, as an [*event.FieldError]. Field
// names are those of configuration files: "where[0].field".
func (r Rule) Validate() error {
	if len(r.Events) == 0 {
		return event.FieldErrorf("events", "is required: the types of events, such as file.changed, github.* or *")
	}
	for i, pattern := range r.Events {
		if problem := patternProblem(pattern); problem != "" {
			return event.FieldErrorf(fmt.Sprintf("events[%d]", i), "%s", problem)
		}
	}
	if problem := wordProblem(r.name()); problem != "" {
		return event.FieldErrorf("name", "%s", problem)
	}
	if r.name() == NameStream && !r.passesStream() {
		return event.FieldErrorf("name", "%q is reserved for the rule that keeps stream.* from agents: choose another name; a priority above %d precedes that rule", NameStream, priorityStream)
	}
	if r.Priority < -MaxPriority || r.Priority > MaxPriority {
		return event.FieldErrorf("priority", "is %d, must be %d to %d", r.Priority, -MaxPriority, MaxPriority)
	}
	for i, c := range r.Where {
		if err := c.Validate(); err != nil {
			return within(fmt.Sprintf("where[%d]", i), err)
		}
	}
	if err := r.validateHold(); err != nil {
		return err
	}
	return r.validateHandler()
}

func (r Rule) validateHold() error {
	for _, hold := range []struct {
		name string
		time time.Duration
	}{{"debounce", r.Debounce}, {"throttle", r.Throttle}} {
		if hold.time < 0 || hold.time > MaxHold {
			return event.FieldErrorf(hold.name, "is %s, must be 0 to %s", hold.time, MaxHold)
		}
	}
	if r.Debounce > 0 && r.Throttle > 0 {
		return event.FieldErrorf("throttle", "and debounce exclude each other: set one of them to 0")
	}
	return nil
}

// validateHandler reports a rule with more than one handler, other than a function followed by an
// agent.
func (r Rule) validateHandler() error {
	var set []string
	for _, handler := range []struct {
		name string
		set  bool
	}{{"message", r.message}, {"function", r.Function != nil}, {"processor", r.Processor != ""}, {"agent", r.Agent != nil}} {
		if handler.set {
			set = append(set, handler.name)
		}
	}
	both := len(set) == 2 && set[0] == "function" && set[1] == "agent"
	switch {
	case r.message && (len(r.Events) != 1 || r.Events[0] != event.TypeUserQuery):
		return event.FieldErrorf("events", "of a rule that creates messages must be %s alone", event.TypeUserQuery)
	case len(set) > 1 && !both:
		return event.FieldErrorf(set[1], "and %s exclude each other: an event is handled by one of function, processor and agent, or by a function before an agent", set[0])
	case r.Function == nil && (r.Timeout != 0 || r.MaxAttempts != 0):
		return event.FieldErrorf("function", "is required with timeout or maxAttempts: they apply to functions only")
	case r.Timeout < 0 || r.Timeout > MaxHold:
		return event.FieldErrorf("timeout", "is %s, must be positive and at most %s; 0 is the default, %s", r.Timeout, MaxHold, DefaultTimeout)
	case r.MaxAttempts < 0 || r.MaxAttempts > maxAttempts:
		return event.FieldErrorf("maxAttempts", "is %d, must be 1 to %d; 0 is the default, %d", r.MaxAttempts, maxAttempts, DefaultMaxAttempts)
	case r.Processor != "":
		if problem := wordProblem(r.Processor); problem != "" {
			return event.FieldErrorf("processor", "%s", problem)
		}
	case r.Agent != nil:
		return r.Agent.validate()
	}
	return nil
}

func (a Agent) validate() error {
	if a.Name != "" {
		if problem := wordProblem(a.Name); problem != "" {
			return event.FieldErrorf("agent.name", "%s", problem)
		}
	}
	for _, prompt := range []struct{ name, text string }{{"agent.prompt", a.Prompt}, {"agent.systemPrompt", a.SystemPrompt}} {
		switch {
		case len(prompt.text) > MaxPrompt:
			return event.FieldErrorf(prompt.name, "is %d bytes, must be at most %d: move long text to the instructions of an agent", len(prompt.text), MaxPrompt)
		case !utf8.ValidString(prompt.text):
			return event.FieldErrorf(prompt.name, "is not UTF-8 text")
		}
	}
	return nil
}

// patternProblem returns the problem of a type or a pattern of types, or "".
func patternProblem(pattern string) string {
	begin, wild := strings.CutSuffix(pattern, "*")
	switch {
	case pattern == "":
		return "is empty: name a type of events, such as file.changed, github.* or *"
	case strings.Contains(begin, "*") || wild && begin != "" && !strings.HasSuffix(begin, ".") || begin == ".":
		return fmt.Sprintf("%q: a * stands alone, for every type, or at the end after a dot, such as github.*", pattern)
	case pattern == event.TypeMessage || event.Reserved(pattern):
		return fmt.Sprintf("%q is not a type of environment event: rules see these only; hooks and processors see messages and calls", pattern)
	}
	return wordProblem(pattern)
}

// wordProblem returns the problem of a name, or "". Names are written to histories and logs.
func wordProblem(s string) string {
	switch {
	case s == "" || len(s) > maxWord || !utf8.ValidString(s):
		return fmt.Sprintf("%.*q must be 1 to %d bytes of text", maxWord, s, maxWord)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Sprintf("%q must be a single line without control characters", s)
	}
	return ""
}
