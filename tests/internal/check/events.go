package check

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Happened returns an environment event with a unique id.
func Happened(typ string, payload any, change ...func(*event.EnvEvent)) event.EnvEvent {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // plain data can be marshalled
	}
	e := event.EnvEvent{
		ID: signals.NewEventID(), Type: typ, Timestamp: 1700000000123, Payload: raw,
		Metadata: event.EnvMetadata{Source: event.SourceEnv},
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

// Handle publishes an event, and waits until everything that follows from it is stored.
func Handle(w *harness.Harness, thread string, e event.EnvEvent) signals.TurnResult {
	w.T.Helper()
	return Turn(w, thread, signals.EnvPost(e))
}
