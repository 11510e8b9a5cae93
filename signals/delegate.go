package signals

import (
	"strconv"
	"strings"
)

// DelegateWorkflow is the workflow of a sub-agent's thread. It has a thread's workflow id and
// accepts the same signals, updates and queries.
const DelegateWorkflow = "delegate"

// Metadata fields of a sub-agent's thread: the parent thread and the tool call that started it.
const (
	MetadataParent     = "parentThreadId"
	MetadataParentCall = "parentToolCallId"
)

// SubThreadID returns the id of a sub-agent's thread: the parent thread's id, ".s" and a number. If
// that is too long, the id is a hash.
func SubThreadID(namespace, threadID string, number int) string {
	id := threadID + ".s" + shortNumber(number)
	if ValidateID("threadId", id) != nil {
		return EventID(namespace, id)
	}
	return id
}

// SubThreadNumber returns the number in the id of a sub-agent's thread, or 0 if it has none.
func SubThreadNumber(id string) int {
	at := strings.LastIndex(id, ".s")
	if at < 0 {
		return 0
	}
	n, err := strconv.ParseInt(id[at+2:], 36, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
