package webhook_test

import (
	"fmt"
	"net/http"

	"github.com/threadmill/threadmill/webhook"
)

// A request becomes an event of the thread that the template names.
func ExampleEndpoint_Map() {
	github := webhook.Endpoint{
		Name:     "github",
		Unsigned: true,
		Event: webhook.Event{
			Type:   "github.{header.X-GitHub-Event}",
			Thread: "{payload.repository.full_name}",
			ID:     "{header.X-GitHub-Delivery}",
		},
	}
	header := http.Header{}
	header.Set("X-GitHub-Event", "push")
	header.Set("X-GitHub-Delivery", "7d0c")
	e, threadID, err := github.Map(header, []byte(`{"repository":{"full_name":"ann/notes"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Type, "in thread", threadID, "with id", e.ID)
	// Output:
	// github.push in thread ann-notes with id 7d0c
}
