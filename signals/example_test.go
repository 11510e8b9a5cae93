package signals_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/threadmill/threadmill/signals"
)

// What any Temporal client needs to post a message: the id of the thread's workflow, and the argument of an update or a signal.
func ExampleUserMessage() {
	post := signals.UserMessage("t1", "ann", "Hello")
	post.ID = "m1" // the same id posts the message once
	arg, err := json.Marshal(post)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(signals.WorkflowID("default", "t1"), signals.UpdatePost)
	fmt.Println(string(arg))
	// Output:
	// thread/default/t1 post
	// {"id":"m1","type":"message","payload":{"threadId":"t1","senderId":"ann","senderType":"user","content":"Hello"}}
}
