package workflows

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// exact is external input that must pass [event.DecodeJSON]. Invalid input sets problem instead of
// failing to decode, so an update is rejected, and a signal leaves an audit record, with the
// reason.
type exact[T any] struct {
	value   T
	problem error
}

func (in *exact[T]) UnmarshalJSON(data []byte) error {
	in.problem = event.DecodeJSON("", data, &in.value)
	return nil
}

func (in exact[T]) MarshalJSON() ([]byte, error) { return json.Marshal(in.value) }
