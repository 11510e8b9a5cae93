package step

import "fmt"

// Results of calls that did not run, or did not finish.
const (
	DeniedText      = "Tool execution was denied by the user."
	InterruptedText = "Tool execution was interrupted before it finished."
	NotBegunText    = "Tool execution was interrupted before it began: the tool did not run."
)

// DeniedByPolicy returns the result of a call that a rule denies.
func DeniedByPolicy(why string) string {
	return fmt.Sprintf("Error: the policy denies this call (%s). It was not run.", why)
}

// EditedText returns the text that tells a model that a person edited the arguments of its call.
func EditedText(arguments string) string {
	const limit = 4 << 10 // bytes
	if len(arguments) > limit {
		arguments = Cut(arguments, limit) + "…"
	}
	return fmt.Sprintf("(A person has changed the arguments of this call to %s)\n", arguments)
}
