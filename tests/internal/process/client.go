package process

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
)

// Try makes one request. The status is 0 without a response.
func (d *Devserver) Try(ctx context.Context, method, path string, body, out any) int {
	var in bytes.Buffer
	if body != nil && json.NewEncoder(&in).Encode(body) != nil {
		return 0
	}
	req, err := http.NewRequestWithContext(ctx, method, d.URL+path, &in)
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	if out != nil && json.NewDecoder(res.Body).Decode(out) != nil {
		return 0
	}
	return res.StatusCode
}

// Open opens a thread with a first message.
func (d *Devserver) Open(thread, text string) {
	d.t.Helper()
	body := map[string]any{"id": thread, "message": text}
	require.Equal(d.t, http.StatusCreated, d.Try(d.t.Context(), http.MethodPost, "/v1/threads", body, nil))
}

// Say posts a message.
func (d *Devserver) Say(thread, text string) {
	d.t.Helper()
	path := "/v1/threads/" + thread + "/messages"
	require.Equal(d.t, http.StatusAccepted, d.Try(d.t.Context(), http.MethodPost, path, map[string]any{"content": text}, nil))
}

// Approve approves a call and returns the result.
func (d *Devserver) Approve(thread, call string) string {
	d.t.Helper()
	var out struct{ Result string }
	status := d.Try(d.t.Context(), http.MethodPost, "/v1/threads/"+thread+"/approvals/"+call, map[string]any{"decision": "approve", "by": "ann"}, &out)
	require.Equal(d.t, http.StatusOK, status)
	return out.Result
}

// AwaitApproval waits until exactly one call waits for a decision, and returns it.
func (d *Devserver) AwaitApproval(thread string) event.ApprovalRequest {
	d.t.Helper()
	var found event.ApprovalRequest
	d.await("an approval", func() bool {
		var out struct{ Approvals []event.ApprovalRequest }
		if d.Try(d.t.Context(), http.MethodGet, "/v1/threads/"+thread+"/approvals", nil, &out) != http.StatusOK || len(out.Approvals) != 1 {
			return false
		}
		found = out.Approvals[0]
		return true
	})
	return found
}

// Messages returns a thread's messages; none while the server does not respond.
func (d *Devserver) Messages(thread string) []event.Message {
	return pages(d, "/v1/threads/"+thread+"/messages?limit=200", func(p struct {
		Messages []event.Message
		Next     string
	},
	) ([]event.Message, string) {
		return p.Messages, p.Next
	})
}

// Events returns a thread's stored events, as viewers see them; none while the server does not
// respond.
func (d *Devserver) Events(thread string) []event.AgentEvent {
	return pages(d, "/v1/threads/"+thread+"/events?limit=1000", func(p struct {
		Events []event.AgentEvent
		Next   string
	},
	) ([]event.AgentEvent, string) {
		return p.Events, p.Next
	})
}

// pages reads all pages of a list; none while the server does not respond.
func pages[P, T any](d *Devserver, path string, of func(P) (some []T, next string)) (all []T) {
	for cursor := ""; ; {
		var page P
		if d.Try(d.t.Context(), http.MethodGet, path+cursor, nil, &page) != http.StatusOK {
			return nil
		}
		some, next := of(page)
		if all = append(all, some...); next == "" {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
}

// AwaitTurns waits until n turns of a thread have ended.
func (d *Devserver) AwaitTurns(thread string, n int) {
	d.t.Helper()
	d.await("the end of the turn in thread "+thread, func() bool {
		ended := 0
		for _, e := range d.Events(thread) {
			if e.Terminal() {
				ended++
			}
		}
		return ended >= n
	})
}

func (d *Devserver) await(what string, done func() bool) {
	d.t.Helper()
	require.Eventually(d.t, done, testenv.Patience, testenv.Tick, what)
}
