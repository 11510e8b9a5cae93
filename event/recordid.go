package event

import (
	"fmt"
	"strings"
)

// Record ids are derived from what a record is about, so that a retried step finds the records
// of its first attempt. Only this file builds and parses them.

// Ids of an event and of the attempts at it. Attempt 0 is the first.

// TurnID identifies an attempt at processing an event.
func TurnID(eventID string, attempt int) string {
	if attempt > 0 {
		return fmt.Sprintf("%s~%d", eventID, attempt)
	}
	return eventID
}

// TurnEndedID is the record that announces the end of a turn.
func TurnEndedID(turnID string) string { return turnID + ".turn_ended" }

// DebouncedTurnID identifies the part of a turn that ends because a rule debounces its event.
func DebouncedTurnID(turnID string) string { return turnID + ".held" }

// UnhandledID is the record that nothing handles a custom event.
func UnhandledID(turnID string) string { return turnID + ".unhandled" }

// UnmatchedID is the record that no rule matches an environment event.
func UnmatchedID(turnID string) string { return turnID + ".unmatched" }

// InterruptedID is the record that an event, or the turn of one, was interrupted.
func InterruptedID(turnID string) string { return turnID + ".interrupted" }

// ErrorID is the record of the [Failure] of an event, a turn or a model call.
func ErrorID(id string) string { return id + ".error" }

// ExpiredID is the record that an event has expired in the queue.
func ExpiredID(eventID string) string { return eventID + ".expired" }

// RetriedID is the record that an attempt at a failed event begins.
func RetriedID(eventID string, attempt int) string {
	return fmt.Sprintf("%s.retried.%d", eventID, attempt)
}

// StatusSetID is the record of a change of a queued event's status.
func StatusSetID(eventID, unique string) string { return eventID + ".set." + unique }

// UnqueuedID is the record of the [Unqueued] of an event.
func UnqueuedID(eventID string) string { return eventID + ".unqueued" }

// QueryMessageID is the message that a user_query event becomes.
func QueryMessageID(eventID string) string { return eventID + ".message" }

// ObservedID is the message that informs an agent about an environment event.
func ObservedID(eventID string) string { return eventID + ".observed" }

// AskedID is the message in which an agent asks for the content of an environment event.
func AskedID(eventID string) string { return eventID + ".asked" }

// InfoCallID is the tool call in the message [AskedID].
func InfoCallID(eventID string) string { return "call_" + eventID }

// Ids of replies and model calls.

// ReplyID is the reply of a turn's run. Runs count from 0, their model calls from 1.
func ReplyID(turnID string, run, step int) string { return fmt.Sprintf("%s.%d.%d", turnID, run, step) }

// LLMCallID is the model call that makes a reply.
func LLMCallID(replyID string) string { return replyID + ".llm" }

// CallsID is the tool_call event of a reply.
func CallsID(replyID string) string { return replyID + callsSuffix }

// ReplyOfCalls returns the reply of a record that [CallsID] names.
func ReplyOfCalls(id string) (replyID string, ok bool) { return strings.CutSuffix(id, callsSuffix) }

// FinalID is the [Final] of a reply, or of a turn.
func FinalID(id string) string { return id + finalSuffix }

// ReplyOfFinal returns the reply of a record that [FinalID] names.
func ReplyOfFinal(id string) string { return strings.TrimSuffix(id, finalSuffix) }

const (
	callsSuffix = ".calls"
	finalSuffix = ".final"
)

// StepLimitID is the notice that a run has reached its limit of model calls.
func StepLimitID(replyID string) string { return replyID + ".limit" }

// TurnLimitID is the notice that an agent has reached the thread's turn limit.
func TurnLimitID(messageID, agent string) string { return messageID + ".limit." + agent }

// Ids of hooks.

// InterceptionID is the [Interception] of an event.
func InterceptionID(eventID string) string { return eventID + ".hook" }

// WithdrawalID is the [Interception] that takes back an event that hooks had passed.
func WithdrawalID(eventID string) string { return eventID + ".withdrawn" }

// FailedInterceptionID is the [Interception] of an event whose hooks failed.
func FailedInterceptionID(key string) string { return InterceptionID(key) + ".failed" }

// RuleID identifies an environment event as the processor of a rule sees it.
func RuleID(turnID string) string { return turnID + ".rule" }

// SteerID identifies a message as hooks see it when it joins a turn.
func SteerID(eventID, turnID string) string { return eventID + ".steer." + turnID }

// Ids of tool calls, approvals and tasks.

// ResultID is the result of a tool call.
func ResultID(toolCallID string) string { return toolCallID + ".result" }

// ClientCallID is the [ClientCall] of a call that a connected client runs.
func ClientCallID(toolCallID string) string { return toolCallID + ".client" }

// FirstRound is the round of an approval request that names none.
const FirstRound = 1

// RequestID is an approval request, or a reminder of it.
func RequestID(q ApprovalRequest) string {
	switch {
	case q.Reminder > 0:
		return fmt.Sprintf("%s.reminder.%d", q.ToolCallID, q.Reminder)
	case q.Round > FirstRound:
		return fmt.Sprintf("%s.request.%d", q.ToolCallID, q.Round)
	}
	return q.ToolCallID + ".request"
}

// DecisionID is the decision on an approval request.
func DecisionID(toolCallID string, round int) string {
	if round > FirstRound {
		return fmt.Sprintf("%s.decision.%d", toolCallID, round)
	}
	return toolCallID + ".decision"
}

// VoteID is one of several votes on an approval request, from 1.
func VoteID(toolCallID string, round, vote int) string {
	return fmt.Sprintf("%s.vote.%d", DecisionID(toolCallID, round), vote)
}

// RevocationID is the record that a grant was revoked.
func RevocationID(toolCallID, unique string) string { return toolCallID + ".revoked." + unique }

// TaskEndedID is the record of a background task's end.
func TaskEndedID(taskID string) string { return taskID + ".ended" }

// Ids of the thread itself.

// OpenedID is the record that a thread was opened.
func OpenedID(threadID string) string { return threadID + ".opened" }

// ClosedID is the record that a thread was closed.
func ClosedID(threadID, unique string) string { return threadID + ".closed." + unique }

// UpdatedID is the record that a thread's title, agents or metadata have changed.
func UpdatedID(threadID, unique string) string { return threadID + ".updated." + unique }

// TitledID is the record that a thread was given a title.
func TitledID(threadID, unique string) string { return threadID + ".titled." + unique }
