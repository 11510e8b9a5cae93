package event

import (
	"fmt"
	"strings"
)

// Record ids are derived, so a retried step finds the records of its first attempt. Only this file
// builds and parses them.

// Ids of an event and its attempts. Attempt 0 is the first.

// TurnID returns the id of an attempt to process an event.
func TurnID(eventID string, attempt int) string {
	if attempt > 0 {
		return fmt.Sprintf("%s~%d", eventID, attempt)
	}
	return eventID
}

// TurnEndedID returns the id of the record of a turn's end.
func TurnEndedID(turnID string) string { return turnID + ".turn_ended" }

// DebouncedTurnID returns the id of the part of a turn that ends because a rule debounces its
// event.
func DebouncedTurnID(turnID string) string { return turnID + ".held" }

// UnhandledID returns the id of the record that nothing handled a custom event.
func UnhandledID(turnID string) string { return turnID + ".unhandled" }

// UnmatchedID returns the id of the record that no rule matched an environment event.
func UnmatchedID(turnID string) string { return turnID + ".unmatched" }

// InterruptedID returns the id of the record that an event or its turn was interrupted.
func InterruptedID(turnID string) string { return turnID + ".interrupted" }

// ErrorID returns the id of the [Failure] record of an event, a turn or a model call.
func ErrorID(id string) string { return id + ".error" }

// ExpiredID returns the id of the record that an event expired in the queue.
func ExpiredID(eventID string) string { return eventID + ".expired" }

// RetriedID returns the id of the record that a retry of a failed event starts.
func RetriedID(eventID string, attempt int) string {
	return fmt.Sprintf("%s.retried.%d", eventID, attempt)
}

// StatusSetID returns the id of the record that the status of a queued event was set by hand.
func StatusSetID(eventID, unique string) string { return eventID + ".set." + unique }

// UnqueuedID returns the id of the [Unqueued] record of an event.
func UnqueuedID(eventID string) string { return eventID + ".unqueued" }

// QueryMessageID returns the id of the message that a user_query event becomes.
func QueryMessageID(eventID string) string { return eventID + ".message" }

// ObservedID returns the id of the message that informs an agent about an environment event.
func ObservedID(eventID string) string { return eventID + ".observed" }

// InfoRequestID returns the id of the message in which an agent requests the content of an environment
// event.
func InfoRequestID(eventID string) string { return eventID + ".asked" }

// InfoCallID returns the id of the tool call in the message [InfoRequestID].
func InfoCallID(eventID string) string { return "call_" + eventID }

// Ids of replies and model calls.

// ReplyID returns the id of a reply in a turn. Runs count from 0, their model calls from 1.
func ReplyID(turnID string, run, step int) string { return fmt.Sprintf("%s.%d.%d", turnID, run, step) }

// LLMCallID returns the id of the record of the model call that generated a reply.
func LLMCallID(replyID string) string { return replyID + ".llm" }

// CallsID returns the id of the tool_call event of a reply.
func CallsID(replyID string) string { return replyID + callsSuffix }

// ReplyOfCalls returns the id of the reply from an id of [CallsID].
func ReplyOfCalls(id string) (replyID string, ok bool) { return strings.CutSuffix(id, callsSuffix) }

// FinalID returns the id of the [Final] record of a reply or a turn.
func FinalID(id string) string { return id + finalSuffix }

// ReplyOfFinal returns the id of the reply from an id of [FinalID].
func ReplyOfFinal(id string) string { return strings.TrimSuffix(id, finalSuffix) }

const (
	callsSuffix = ".calls"
	finalSuffix = ".final"
)

// StepLimitID returns the id of the notice that a run reached its limit of model calls.
func StepLimitID(replyID string) string { return replyID + ".limit" }

// TurnLimitID returns the id of the notice that an agent reached the thread's turn limit.
func TurnLimitID(messageID, agent string) string { return messageID + ".limit." + agent }

// Ids of hooks.

// InterceptionID returns the id of the [Interception] record of an event.
func InterceptionID(eventID string) string { return eventID + ".hook" }

// WithdrawalID returns the id of the [Interception] record that withdraws an event that hooks had
// passed.
func WithdrawalID(eventID string) string { return eventID + ".withdrawn" }

// FailedInterceptionID returns the id of the [Interception] record of an event whose hooks failed.
func FailedInterceptionID(key string) string { return InterceptionID(key) + ".failed" }

// RuleID returns the id under which the processor of a rule handles an environment event.
func RuleID(turnID string) string { return turnID + ".rule" }

// SteerID returns the id under which hooks handle a message that joins a turn.
func SteerID(eventID, turnID string) string { return eventID + ".steer." + turnID }

// Ids of tool calls, approvals and tasks.

// ResultID returns the id of the result of a tool call.
func ResultID(toolCallID string) string { return toolCallID + ".result" }

// ClientCallID returns the id of the [ClientCall] record of a tool call.
func ClientCallID(toolCallID string) string { return toolCallID + ".client" }

// FirstRound is the round of an approval request whose round is 0.
const FirstRound = 1

// RequestID returns the id of the record of an approval request or a reminder.
func RequestID(q ApprovalRequest) string {
	switch {
	case q.Reminder > 0:
		return fmt.Sprintf("%s.reminder.%d", q.ToolCallID, q.Reminder)
	case q.Round > FirstRound:
		return fmt.Sprintf("%s.request.%d", q.ToolCallID, q.Round)
	}
	return q.ToolCallID + ".request"
}

// DecisionID returns the id of the record of the decision on an approval request.
func DecisionID(toolCallID string, round int) string {
	if round > FirstRound {
		return fmt.Sprintf("%s.decision.%d", toolCallID, round)
	}
	return toolCallID + ".decision"
}

// VoteID returns the id of the record of a vote on an approval request. Votes count from 1.
func VoteID(toolCallID string, round, vote int) string {
	return fmt.Sprintf("%s.vote.%d", DecisionID(toolCallID, round), vote)
}

// RevocationID returns the id of the record that a grant was revoked.
func RevocationID(toolCallID, unique string) string { return toolCallID + ".revoked." + unique }

// TaskEndedID returns the id of the record of a background task's end.
func TaskEndedID(taskID string) string { return taskID + ".ended" }

// Ids of the thread itself.

// OpenedID returns the id of the record that a thread was opened.
func OpenedID(threadID string) string { return threadID + ".opened" }

// ClosedID returns the id of the record that a thread was closed.
func ClosedID(threadID, unique string) string { return threadID + ".closed." + unique }

// UpdatedID returns the id of the record that a thread's title, agents or metadata changed.
func UpdatedID(threadID, unique string) string { return threadID + ".updated." + unique }

// TitledID returns the id of the record that a title was generated for a thread.
func TitledID(threadID, unique string) string { return threadID + ".titled." + unique }
