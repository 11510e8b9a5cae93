package event_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/threadmill/threadmill/event"
)

// A hook workflow gets the event as JSON.
func ExampleUnmarshal() {
	e, err := event.Unmarshal([]byte(`{"type": "message", "createdBy": "user", "message": {"id": "m1", "threadId": "t1", "role": "user", "senderId": "ann", "content": "Hello"}}`))
	if err != nil {
		log.Fatal(err)
	}
	if m, ok := e.(event.MessageEvent); ok {
		fmt.Println(m.Message.SenderID, "writes", m.Message.Content)
	}
	// Output: ann writes Hello
}

// An environment event has a type and any payload.
func ExampleEnvEvent() {
	e := event.EnvEvent{Type: "order.paid", Payload: json.RawMessage(`{"order": "A-1", "euros": 20}`)}
	fmt.Println(e.Validate())
	e.Type = ""
	fmt.Println(e.Validate())
	// Output:
	// <nil>
	// type: is required: what has happened, such as file.changed
}
