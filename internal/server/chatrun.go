package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat/chatfeed"
	"github.com/threadmill/threadmill/signals"
)

// run is an answer whose stream can be resumed at any chunk. Its id has all that the stream depends on,
// so that each API process can resume it.
type run struct {
	chatfeed.Answer
	ThreadID string   `json:"t"`
	Tools    []string `json:"tools,omitempty"`
	Version  int      `json:"v,omitempty"`
}

// runPrefix begins the id of a run, and no id of a thread.
const runPrefix = "~"

func (r run) id() string {
	data, _ := json.Marshal(r) // it has only strings and numbers
	return runPrefix + base64.RawURLEncoding.EncodeToString(data)
}

func parseRun(id string) (r run, err error) {
	data, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil || r.MessageID == "" || signals.ValidateID("threadId", r.ThreadID) != nil {
		return r, refuse(http.StatusNotFound, "id", "is neither a thread nor a run that x-workflow-run-id named")
	}
	return r, nil
}

// maxRunTools is the maximum size of the names of tools in the id of a run. Clients accept headers of some
// KiB.
const maxRunTools = 4 << 10

// checkRun returns an error unless the thread of a run has its message, and has had it in the event of the
// run: the stream of any other would wait for ever.
func (h *chatHandlers) checkRun(ctx context.Context, r run) error {
	if _, err := h.thread(ctx, r.ThreadID); err != nil {
		return err
	}
	record, err := h.chats.Record(ctx, r.ThreadID, r.MessageID)
	switch {
	case err != nil:
		return err
	case record != nil && (r.EventID == "" || r.EventID == record.EventID):
		return nil
	case record != nil || r.EventID != "" && r.EventID != r.MessageID:
		return refuse(http.StatusNotFound, "id", "is no run of this thread")
	}
	_, err = ask(ctx, h.core, r.ThreadID, func(ctx context.Context) (event.Item, error) { return h.threads.Item(ctx, r.ThreadID, r.MessageID) })
	return err
}
