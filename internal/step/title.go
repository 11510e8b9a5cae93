package step

import "github.com/threadmill/threadmill/event"

// Title is the input of title_thread, which generates a title from the messages of a thread.
type Title struct {
	Thread Ref    `json:"thread"`
	Agent  string `json:"agent,omitempty"`

	// RecordID is the id of the status record of the title. Flush is stored before it.
	RecordID string `json:"recordId"`
	Flush    Flush  `json:"flush"`

	// Route has the meaning of [Model.Route].
	Route *Route `json:"route,omitempty"`
}

// TitleReply is the result of title_thread. Title is empty if there was nothing to generate it
// from.
type TitleReply struct {
	Title string      `json:"title,omitempty"`
	Usage event.Usage `json:"usage"`

	// Route is set instead of a title when another model, or another task queue, makes the call.
	Route *Route `json:"route,omitempty"`
}
