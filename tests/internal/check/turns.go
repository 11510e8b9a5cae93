package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Request sends a request to the API, and returns the status and the decoded answer.
func Request(t testing.TB, w *harness.Harness, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var in bytes.Buffer
	if body != nil {
		require.NoError(t, json.NewEncoder(&in).Encode(body))
	}
	status, answer := send(t, w, method, path, &in)
	out := map[string]any{}
	_ = json.Unmarshal(answer, &out)
	return status, out
}

// CallAPI sends a request, with a JSON body if there is one, and requires the status.
func CallAPI(w *harness.Harness, method, path, body string, status int) string {
	w.T.Helper()
	got, answer := send(w.T, w, method, path, strings.NewReader(body))
	require.Equal(w.T, status, got, string(answer))
	return string(answer)
}

func send(t testing.TB, w *harness.Harness, method, path string, body io.Reader) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(w.Ctx(), method, w.API.URL+path, body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, answer
}

// Await waits for the end of a posted event's turn.
func Await(t *testing.T, w *harness.Harness, thread, eventID string) signals.TurnResult {
	t.Helper()
	// An update can overtake a signal: the thread has the event only when it is stored.
	require.Eventually(t, func() bool {
		stored, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), eventID)
		return err == nil && len(stored) == 1
	}, testenv.Patience, testenv.Tick)
	return w.Await(thread, eventID)
}

// Moves posts events for nobody until the thread continues as new, whose runs are short: a thread forgets how turns ended before
// its last 200.
func Moves(t *testing.T, w *harness.Harness, thread string) {
	t.Helper()
	before, posts := CurrentRun(w, thread), 0
	require.Eventually(t, func() bool {
		if posts++; posts <= 60 {
			if _, err := w.Threads.Post(w.Ctx(), thread, Custom("", "time.passes", 1)); err != nil {
				return false
			}
		}
		return CurrentRun(w, thread) != before
	}, testenv.Patience, testenv.Tick)
}

// Say posts a person's message, and waits until its turn has ended and all of it is stored.
func Say(w *harness.Harness, thread, content string) signals.TurnResult {
	w.T.Helper()
	return Wholly(w, thread, w.Say(thread, content))
}

// Turn posts an event, and waits like [Say].
func Turn(w *harness.Harness, thread string, p signals.Post) signals.TurnResult {
	w.T.Helper()
	out, err := w.Threads.Turn(w.Ctx(), thread, p)
	require.NoError(w.T, err)
	return Wholly(w, thread, out)
}

// Wholly waits until all of a turn is stored.
func Wholly(w *harness.Harness, thread string, out signals.TurnResult) signals.TurnResult {
	w.T.Helper()
	if out.LastRecord != "" {
		require.Eventually(w.T, func() bool {
			found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), out.LastRecord)
			return err == nil && len(found) == 1
		}, testenv.Patience, testenv.Tick)
	}
	return out
}

// Custom is the post of a custom event.
func Custom(id, typ string, payload any) signals.Post {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // plain data can be marshalled
	}
	return signals.Post{ID: id, Type: typ, Payload: raw}
}

// Approve is ann's approval of a call.
func Approve(t *testing.T, w *harness.Harness, thread, call string) signals.DecideOutcome {
	t.Helper()
	out, err := w.Threads.Decide(w.Ctx(), thread, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, By: "ann"})
	require.NoError(t, Unrefused(err))
	return out.Result
}

// Message is the post of a person's message with a given id.
func Message(thread, id, content string) signals.Post {
	p := signals.UserMessage(thread, "ann", content)
	p.ID = id
	return p
}

// Approving is ann's approval of a request.
func Approving(q event.ApprovalRequest) signals.Decide {
	return signals.Decide{ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, By: "ann", Round: q.Round}
}

// Denying is ann's denial of a request.
func Denying(q event.ApprovalRequest) signals.Decide {
	d := Approving(q)
	d.Decision = event.DecisionDeny
	return d
}

// Accepted is the answer to a question of someone who accepts, with a content if the question is a form.
func Accepted(content string) event.InputAnswer {
	a := event.InputAnswer{Action: event.InputAccept}
	if content != "" {
		a.Content = json.RawMessage(content)
	}
	return a
}

// MessagesPage reads a page of messages like a client of the API.
func MessagesPage(t *testing.T, w *harness.Harness, thread string) []map[string]any {
	t.Helper()
	status, out := Request(t, w, http.MethodGet, "/v1/threads/"+thread+"/messages?limit=100", nil)
	require.Equal(t, http.StatusOK, status, out)
	var messages []map[string]any
	for _, m := range out["messages"].([]any) {
		messages = append(messages, m.(map[string]any))
	}
	return messages
}

// LastLine is the last line of a text.
func LastLine(s string) string {
	return s[strings.LastIndex(s, "\n")+1:]
}

// Unrefused returns an error unless it says that a decision had no effect, as its outcome does.
func Unrefused(err error) error {
	if _, refused := errors.AsType[*signals.DecisionError](err); refused {
		return nil
	}
	return err
}
