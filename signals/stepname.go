package signals

import "strings"

// betweenNames separates the type of an activity from what its name says beyond it.
const betweenNames = " · "

// LocalName returns the type under which an activity runs as a local activity: Temporal's Web UI shows nothing else of it. It is not for
// clients.
func LocalName(activity, shown string) string { return activity + betweenNames + shown }

// ActivityOf returns the type of an activity by its [LocalName].
func ActivityOf(name string) string {
	activity, _, _ := strings.Cut(name, betweenNames)
	return activity
}
