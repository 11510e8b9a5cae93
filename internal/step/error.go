package step

import "strings"

// maxWhy is the maximum length of the reason of a failure, in bytes.
const maxWhy = 4 << 10

// Why returns the reason of a failure, cut to the length that the state keeps.
func Why(text string) string {
	if len(text) > maxWhy {
		return Cut(text, maxWhy) + "…"
	}
	return text
}

// Types of the application errors of activities. The workflow depends on these types and never on
// messages.
const (
	// ErrTypeModel means that the model provider rejected the request or failed too often. See
	// [ModelErrorType].
	ErrTypeModel = "model"
	// ErrTypeConfig means that an agent, model or tool is not configured as the step requires.
	ErrTypeConfig = "config"
	// ErrTypeRetry means that a retry may succeed.
	ErrTypeRetry = "retry"
	// ErrTypeStopped means that hooks were told to stop before they had decided.
	ErrTypeStopped = "stopped"
	// ErrTypeLost means that the step's worker was killed. See package recovery.
	ErrTypeLost = "lost"
	// ErrTypeLeft means that an erasure has left something, which a later look may find gone.
	ErrTypeLeft = "left"
	// ErrTypeRule means that the function of a rule failed.
	ErrTypeRule = "rule"
)

// ModelErrorType returns the type of the error of a failed model call, such as
// "model.context_overflow". class is its class, if it is known.
func ModelErrorType(class string) string {
	if class == "" {
		return ErrTypeModel
	}
	return ErrTypeModel + "." + class
}

// ModelErrorClass returns the class from a type of [ModelErrorType], or "".
func ModelErrorClass(errorType string) string {
	class, ok := strings.CutPrefix(errorType, ErrTypeModel+".")
	if !ok {
		return ""
	}
	return class
}
