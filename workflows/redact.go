package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/redact"
)

// changeRedaction is the version of workflow runs that redact what they receive. A run that was in progress when a redactor was
// configured does so from its next run on.
const changeRedaction = "redaction"

// redactor redacts what a workflow receives from elsewhere. Clients do the same before they send, so there is seldom anything left.
type redactor struct {
	r *redact.Redactor

	// received counts what the workflow has received, and last is the last of it that had something left.
	received int
	last     lastRedacted
}

// lastRedacted is the value that enters history.
//
// Value is JSON. As bytes, its size in history has a bound: text in text would double with each quotation mark.
type lastRedacted struct {
	N     int    `json:"n,omitempty"`
	Value []byte `json:"value,omitempty"`
}

// maxSignal is the maximum size of the payload of a signal, in bytes: Temporal terminates a workflow with a marker of more than
// 2 MB, and no valid signal is as large.
const maxSignal = 1 << 20

// redacted redacts a value. Only redacted values enter history, so that a redactor that changes does not change the past: on replay, a
// value that is not in history had nothing to redact.
func redacted[T any](ctx workflow.Context, by *redactor, value T) T {
	if !by.active(ctx) {
		return value
	}
	by.received++
	n := by.received
	clean := func(workflow.Context) any {
		before, after := mustJSON(value), mustJSON(redaction.Payload(by.r, value))
		if string(before) == string(after) {
			return by.last
		}
		return lastRedacted{n, after}
	}
	// A new variable, since decoding into last would keep fields that the value omits.
	var last lastRedacted
	shown := workflow.MutableSideEffectOptions{Summary: "redacted"}
	if err := workflow.MutableSideEffectWithOptions(ctx, "redacted", shown, clean, equalJSON).Get(&last); err != nil {
		panic(fmt.Sprintf("reading the redacted value that history has: %v", err))
	}
	by.last = last
	if last.N != n {
		return value
	}
	var out T
	if err := json.Unmarshal(last.Value, &out); err != nil {
		panic(fmt.Sprintf("reading the redacted value that history has: %v", err))
	}
	return out
}

// active reports whether the run redacts. A run that did continues to return what it had redacted, whatever is configured now.
func (by *redactor) active(ctx workflow.Context) bool {
	return (by.r != nil || workflow.IsReplaying(ctx)) && workflow.GetVersion(ctx, changeRedaction, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a received value has no JSON form: %v", err)) // it was decoded from JSON
	}
	return raw
}
