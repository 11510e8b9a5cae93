package envview_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/feed/projection/envview"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
)

type item = projection.Item[event.EnvEvent]

// newThread returns a thread that is read as environment events.
func newThread(t *testing.T, o feedtest.Options) *feedtest.Projected[event.EnvEvent] {
	w := feedtest.New(t, o)
	return &feedtest.Projected[event.EnvEvent]{Thread: w, Projection: envview.New(w.Feed, w.Store)}
}

// payload contains the tested fields of a payload.
type payload struct {
	Type, Content, MessageID, ToolCallID, ToolName, Output, Error, SessionID string
	Attempt                                                                  int
}

func payloadOf(i item) (p payload) {
	if err := json.Unmarshal(i.Event.Payload, &p); err != nil {
		panic(err)
	}
	return p
}

// tell makes sequences readable: the type and the subject of each event.
func tell(items []item) []string {
	var out []string
	for _, i := range items {
		p := payloadOf(i)
		text := i.Event.Type
		for _, part := range []string{p.MessageID, p.ToolCallID, p.Content, p.Output, p.Error, p.SessionID} {
			if part != "" {
				text += " " + part
			}
		}
		out = append(out, text)
	}
	return out
}

// same makes sequences comparable: each read returns the same events with the same ids.
func same(items []item) []string {
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprintf("%s %s %s", i.Event.ID, i.Event.Type, i.Event.Payload))
	}
	return out
}
