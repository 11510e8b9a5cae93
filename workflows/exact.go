package workflows

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// exact is input from outside, which has to pass [event.DecodeJSON]. What does not leaves a
// problem instead of a failure to decode: an update is then rejected, and a signal leaves an
// audit record, with the reason.
type exact[T any] struct {
	value   T
	problem error
}

func (in *exact[T]) UnmarshalJSON(data []byte) error {
	in.problem = event.DecodeJSON("", data, &in.value)
	return nil
}

func (in exact[T]) MarshalJSON() ([]byte, error) { return json.Marshal(in.value) }
