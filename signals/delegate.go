package signals

// DelegateWorkflow is the workflow of a thread in which a sub-agent works for another
// thread. It has the id of a thread, and takes the same signals, updates and queries.
const DelegateWorkflow = "delegate"

// Names of what the threads of agents and their sub-agents tell each other. They are not
// for clients.
const (
	// SignalSubEnded tells a thread how a sub-agent has ended.
	SignalSubEnded = "sub_ended"
	// SignalSubAsks tells it that a call of the sub-agent waits for approval, and
	// SignalSubDecided that it does no more.
	SignalSubAsks    = "sub_asks"
	SignalSubDecided = "sub_decided"

	ActivityEndDelegate = "end_delegate"
)

// Fields of the metadata of a sub-agent's thread: the thread and the tool call for which
// it works.
const (
	MetadataParent     = "parentThreadId"
	MetadataParentCall = "parentToolCallId"
)

// SubThreadID is the id of the thread in which a thread's sub-agent works: the thread's
// own id with ".s" and a number behind it. An id that would be too long is derived.
func SubThreadID(namespace, threadID string, number int) string {
	id := threadID + ".s" + shortNumber(number)
	if CheckID("threadId", id) != nil {
		return EventID(namespace, id)
	}
	return id
}
