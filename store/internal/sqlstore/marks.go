package sqlstore

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Activities are all activities but [store.ActivityIdle], in the order in which they apply.
var Activities = []store.Activity{store.ActivityWaiting, store.ActivityFailing, store.ActivityRunning, store.ActivityUnanswered}

// ActivityOf returns the activity of a thread with marks of these kinds.
func ActivityOf(kinds []store.Activity) store.Activity {
	for _, a := range Activities {
		if slices.Contains(kinds, a) {
			return a
		}
	}
	return store.ActivityIdle
}

// normalizeThread returns the row without an activity if the thread is closed.
func normalizeThread(t store.Thread) store.Thread {
	if t.Status == store.ThreadClosed {
		t.Activity, t.ActivitySince = "", time.Time{}
	}
	return t
}

// TokensOf returns the tokens of the model call that a record is of, for [store.Thread].Tokens.
func TokensOf(r event.Record) int64 {
	if r.Type != event.TypeLLMCall {
		return 0
	}
	// Part of an event.LLMCall: each model call is counted, and the rest of it costs objects.
	var call struct {
		Usage struct{ InputTokens, OutputTokens int64 }
	}
	if json.Unmarshal(r.Payload, &call) != nil {
		return 0
	}
	return call.Usage.InputTokens + call.Usage.OutputTokens
}
