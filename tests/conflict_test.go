package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestConflictAtEveryDoor: a message whose id the thread has with another content is refused, wherever it comes in, and nobody gets the
// reply to the earlier one as if it were its own. The same message may be repeated.
func TestConflictAtEveryDoor(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	type object = map[string]any
	byHTTP := func(path string, body func(id, text string) object) func(t *testing.T, id, text string) error {
		return func(t *testing.T, id, text string) error {
			raw, err := json.Marshal(body(id, text))
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(w.Ctx(), http.MethodPost, w.API.URL+strings.ReplaceAll(path, "%s", id), bytes.NewReader(raw))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			said, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			if res.StatusCode == http.StatusConflict {
				return fmt.Errorf("%w: %s", signals.ErrConflict, said)
			}
			require.Less(t, res.StatusCode, 300, "%s", said)
			return nil
		}
	}
	message := func(id, text string) signals.Post { return check.Message(id, "e1", text) }
	doors := map[string]func(t *testing.T, id, text string) error{
		"messages":      byHTTP("/v1/threads/%s/messages", func(_, text string) object { return object{"id": "e1", "content": text} }),
		"messages?wait": byHTTP("/v1/threads/%s/messages?wait=true", func(_, text string) object { return object{"id": "e1", "content": text} }),
		"queue": byHTTP("/v1/threads/%s/queue", func(_, text string) object {
			return object{"id": "e1", "type": "message", "payload": object{"senderId": "ann", "senderType": "user", "content": text}}
		}),
		"events": byHTTP("/v1/threads/%s/events", func(_, text string) object {
			return object{"id": "e1", "type": "file.changed", "payload": text, "timestamp": 1}
		}),
		"chat": byHTTP("/v1/chat", func(id, text string) object {
			return object{"id": id, "trigger": "submit-message", "messages": []object{{"id": "e1", "role": "user", "parts": []object{{"type": "text", "text": text}}}}}
		}),
		"ag-ui": byHTTP("/v1/ag-ui", func(id, text string) object {
			return object{
				"threadId": id, "runId": "r1", "tools": []object{}, "context": []object{}, "state": object{}, "forwardedProps": object{},
				"messages": []object{{"id": "e1", "role": "user", "content": text}},
			}
		}),
		"Send": func(t *testing.T, id, text string) error {
			turn, err := w.Runtime.Send(w.Ctx(), event.NewMessage{ThreadID: id, Content: text}, threadmill.SendOptions{EventID: "e1"})
			if err == nil {
				_, err = turn.Wait(w.Ctx())
			}
			return err
		},
		"Turn": func(t *testing.T, id, text string) error {
			_, err := w.Threads.Turn(w.Ctx(), id, message(id, text))
			return err
		},
		"update post": func(t *testing.T, id, text string) error {
			h, err := w.Temporal.UpdateWorkflow(w.Ctx(), client.UpdateWorkflowOptions{
				WorkflowID: signals.WorkflowID(w.TaskQueue, id), UpdateName: signals.UpdatePost, Args: []any{message(id, text)}, WaitForStage: client.WorkflowUpdateStageCompleted,
			})
			if err == nil {
				err = h.Get(w.Ctx(), nil)
			}
			app, ok := errors.AsType[*temporal.ApplicationError](err)
			switch {
			case ok && app.Type() == signals.ConflictType:
				return signals.ErrConflict
			case ok && app.Type() == signals.DuplicateType:
				return nil
			}
			return err
		},
	}
	for name, door := range doors {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, after the turn: %v", name, waits), func(t *testing.T) {
				t.Parallel()
				id := w.Open()
				require.NoError(t, door(t, id, "transfer 10"))
				if waits {
					w.Await(id, "e1")
				}
				require.ErrorIs(t, door(t, id, "transfer 99"), signals.ErrConflict)
				require.NoError(t, door(t, id, "transfer 10"), "it may be repeated")
				w.Await(id, "e1")
				check.AwaitRest(w, id)
				for _, r := range check.AllRecords(w, id) {
					require.NotContains(t, string(r.Payload), "transfer 99")
				}
			})
		}
	}
}
