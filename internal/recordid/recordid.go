// Package recordid builds and parses the ids of records. They are derived, so a retried step finds
// the records of its first attempt.
package recordid

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Ids of an event and its attempts. Attempt 0 is the first.

// Turn returns the id of an attempt to process an event.
func Turn(eventID string, attempt int) string {
	if attempt > 0 {
		return fmt.Sprintf("%s~%d", eventID, attempt)
	}
	return eventID
}

// TurnEnded returns the id of the record of a turn's end.
func TurnEnded(turnID string) string { return turnID + ".turn_ended" }

// DebouncedTurn returns the id of the part of a turn that ends because a rule debounces its
// event.
func DebouncedTurn(turnID string) string { return turnID + ".held" }

// Unhandled returns the id of the record that nothing handled a custom event.
func Unhandled(turnID string) string { return turnID + ".unhandled" }

// Unanswered returns the id of the record that no agent answers a message.
func Unanswered(turnID string) string { return turnID + ".unanswered" }

// Unmatched returns the id of the record that no rule matched an environment event.
func Unmatched(turnID string) string { return turnID + ".unmatched" }

// Interrupted returns the id of the record that an event or its turn was interrupted.
func Interrupted(turnID string) string { return turnID + ".interrupted" }

// Error returns the id of the [event.Failure] record of an event, a turn or a model call.
func Error(id string) string { return id + ".error" }

// Expired returns the id of the record that an event expired in the queue.
func Expired(eventID string) string { return eventID + ".expired" }

// Retried returns the id of the record that a retry of a failed event starts.
func Retried(eventID string, attempt int) string {
	return fmt.Sprintf("%s.retried.%d", eventID, attempt)
}

// StatusSet returns the id of the record that the status of a queued event was set by hand.
func StatusSet(eventID, unique string) string { return eventID + ".set." + unique }

// Unqueued returns the id of the [Unqueued] record of an event.
func Unqueued(eventID string) string { return eventID + ".unqueued" }

// QueryMessage returns the id of the message that a user_query event becomes.
func QueryMessage(eventID string) string { return eventID + ".message" }

// Observed returns the id of the message that informs an agent about an environment event.
func Observed(eventID string) string { return eventID + ".observed" }

// InfoRequest returns the id of the message in which an agent requests the content of an environment
// event.
func InfoRequest(eventID string) string { return eventID + ".asked" }

// InfoCall returns the id of the tool call in the message [InfoRequest].
func InfoCall(eventID string) string { return "call_" + eventID }

// Ids of replies and model calls.

// Reply returns the id of a reply in a turn. Runs count from 0, their model calls from 1.
func Reply(turnID string, run, step int) string { return fmt.Sprintf("%s.%d.%d", turnID, run, step) }

// LLMCall returns the id of the record of the model call that generated a reply.
func LLMCall(replyID string) string { return replyID + ".llm" }

// Prompt returns the id of the record of what requests to models have in common, by its digest.
func Prompt(digest string) string { return "prompt." + digest }

// Retrieval returns the id of the record of the passages that were found for the run of a reply.
func Retrieval(replyID string) string {
	return replyID[:strings.LastIndexByte(replyID, '.')] + ".passages"
}

// Calls returns the id of the tool_call event of a reply.
func Calls(replyID string) string { return replyID + callsSuffix }

// ReplyOfCalls returns the id of the reply from an id of [Calls].
func ReplyOfCalls(id string) (replyID string, ok bool) { return strings.CutSuffix(id, callsSuffix) }

// Final returns the id of the [event.Final] record of a reply or a turn.
func Final(id string) string { return id + finalSuffix }

// ReplyOfFinal returns the id of the reply from an id of [event.Final].
func ReplyOfFinal(id string) string { return strings.TrimSuffix(id, finalSuffix) }

const (
	callsSuffix  = ".calls"
	finalSuffix  = ".final"
	resultSuffix = ".result"
)

// StepLimit returns the id of the notice that a run reached its limit of model calls.
func StepLimit(replyID string) string { return replyID + ".limit" }

// TurnLimit returns the id of the notice that an agent reached the thread's turn limit.
func TurnLimit(messageID, agent string) string { return messageID + ".limit." + agent }

// Ids of hooks.

// Interception returns the id of the [event.Interception] record of an event.
func Interception(eventID string) string { return eventID + ".hook" }

// Withdrawal returns the id of the [event.Interception] record that withdraws an event that hooks had
// passed.
func Withdrawal(eventID string) string { return eventID + ".withdrawn" }

// FailedInterception returns the id of the [event.Interception] record of an event whose hooks failed.
func FailedInterception(key string) string { return Interception(key) + ".failed" }

// Rule returns the id under which the processor of a rule handles an environment event.
func Rule(turnID string) string { return turnID + ".rule" }

// Steer returns the id under which hooks handle a message that joins a turn.
func Steer(eventID, turnID string) string { return eventID + ".steer." + turnID }

// Ids of tool calls, approvals and tasks.

// Result returns the id of the result of a tool call.
func Result(toolCallID string) string { return toolCallID + resultSuffix }

// CallOfResult returns the id of the tool call from an id of [Result].
func CallOfResult(id string) (toolCallID string, ok bool) { return strings.CutSuffix(id, resultSuffix) }

// ClientCall returns the id of the [event.ClientCall] record of a tool call.
func ClientCall(toolCallID string) string { return toolCallID + ".client" }

// InputRequest returns the id of the record of a tool's request for input. Rounds count from 1.
func InputRequest(toolCallID string, round int) string {
	return fmt.Sprintf("%s.input.%d", toolCallID, round)
}

// InputReceived returns the id of the record of the answer to a request of [InputRequest].
func InputReceived(toolCallID string, round int) string {
	return fmt.Sprintf("%s.received.%d", toolCallID, round)
}

// Request returns the id of the record of an approval request or a reminder.
func Request(q event.ApprovalRequest) string {
	switch {
	case q.Reminder > 0:
		return fmt.Sprintf("%s.reminder.%d", q.ToolCallID, q.Reminder)
	case q.Round > event.FirstRound:
		return fmt.Sprintf("%s.request.%d", q.ToolCallID, q.Round)
	}
	return q.ToolCallID + ".request"
}

// Decision returns the id of the record of the decision on an approval request.
func Decision(toolCallID string, round int) string {
	if round > event.FirstRound {
		return fmt.Sprintf("%s.decision.%d", toolCallID, round)
	}
	return toolCallID + ".decision"
}

// Vote returns the id of the record of a vote on an approval request. Votes count from 1.
func Vote(toolCallID string, round, vote int) string {
	return fmt.Sprintf("%s.vote.%d", Decision(toolCallID, round), vote)
}

// Revocation returns the id of the record that a grant was revoked.
func Revocation(toolCallID, unique string) string { return toolCallID + ".revoked." + unique }

// Ingestion returns the id of the event of a document that a tool call asks to ingest.
func Ingestion(toolCallID string) string { return toolCallID + ".ingest" }

// TaskEnded returns the id of the record of a background task's end.
func TaskEnded(taskID string) string { return taskID + ".ended" }

// Ids of the thread itself.

// Opened returns the id of the record that a thread was opened.
func Opened(threadID string) string { return threadID + ".opened" }

// Closed returns the id of the record that a thread was closed.
func Closed(threadID, unique string) string { return threadID + ".closed." + unique }

// Updated returns the id of the record that a thread's title, agents or metadata changed.
func Updated(threadID, unique string) string { return threadID + ".updated." + unique }

// Titled returns the id of the record that a title was generated for a thread.
func Titled(threadID, unique string) string { return threadID + ".titled." + unique }
