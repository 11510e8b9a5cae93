package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// NewMessage is a message to post.
type NewMessage struct {
	Content string `json:"content"`

	// ID makes the post idempotent. Empty: the API chooses one.
	ID string `json:"id,omitempty"`
}

// NewThread is a thread to open. All fields are optional.
type NewThread struct {
	ID      string      `json:"id,omitempty"`
	Agent   string      `json:"agent,omitempty"`
	Title   string      `json:"title,omitempty"`
	Message *NewMessage `json:"message,omitempty"`
}

// OpenedThread is a new thread, with the event of its message if it has one.
type OpenedThread struct {
	store.Thread
	EventID string `json:"eventId"`
}

// Open opens a thread.
func (c *Client) Open(ctx context.Context, t NewThread) (OpenedThread, error) {
	return call[OpenedThread](ctx, c, http.MethodPost, c.url(nil, "threads"), t, "opening a thread")
}

// Post is a message to a thread.
type Post struct {
	NewMessage

	// Agents are those that answer. Empty: as the thread routes the message.
	Agents []string `json:"agents,omitempty"`
	OnBusy string   `json:"onBusy,omitempty"`
}

// Post posts a message, and returns the id of its event.
func (c *Client) Post(ctx context.Context, threadID string, p Post) (string, error) {
	out, err := call[signals.TurnResult](ctx, c, http.MethodPost, c.url(nil, "threads", threadID, "messages"), p, "posting to thread %q", threadID)
	return out.EventID, err
}

// Thread returns a thread.
func (c *Client) Thread(ctx context.Context, threadID string) (Thread, error) {
	return call[Thread](ctx, c, http.MethodGet, c.url(nil, "threads", threadID), nil, "reading thread %q", threadID)
}

// Page is a part of a list. Next is the cursor of the next page, or empty.
type Page[E any] struct {
	Items []E
	Next  string
}

// MessagePage returns a page of the messages of a thread, the oldest first.
func (c *Client) MessagePage(ctx context.Context, threadID, cursor string, limit int) (Page[event.StoredMessage], error) {
	u := c.url(pageQuery(cursor, limit), "threads", threadID, "messages")
	out, err := call[struct {
		Messages []event.StoredMessage `json:"messages"`
		Next     string                `json:"next"`
	}](ctx, c, http.MethodGet, u, nil, "reading the messages of thread %q", threadID)
	return Page[event.StoredMessage]{out.Messages, out.Next}, err
}

func pageQuery(cursor string, limit int) url.Values {
	out := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		out.Set("cursor", cursor)
	}
	return out
}

// Approvals returns the calls of a thread that wait for a decision.
func (c *Client) Approvals(ctx context.Context, threadID string) (signals.Approvals, error) {
	return call[signals.Approvals](ctx, c, http.MethodGet, c.url(nil, "threads", threadID, "approvals"), nil, "reading the approvals of thread %q", threadID)
}

// AllApprovals returns the calls of all threads that wait for a decision.
func (c *Client) AllApprovals(ctx context.Context) (threadclient.Waiting, error) {
	return call[threadclient.Waiting](ctx, c, http.MethodGet, c.url(nil, "approvals"), nil, "reading the approvals")
}

// Decide decides on a tool call.
func (c *Client) Decide(ctx context.Context, threadID string, d signals.Decide) (signals.DecideResult, error) {
	body := struct {
		signals.Decide
		ToolCallID string `json:"toolCallId,omitempty"`
		By         string `json:"by,omitempty"`
	}{Decide: d, By: d.By}
	return call[signals.DecideResult](ctx, c, http.MethodPost, c.url(nil, "threads", threadID, "approvals", d.ToolCallID), body, "deciding on call %q", d.ToolCallID)
}

// AnswerInput answers a tool call that waits for input.
func (c *Client) AnswerInput(ctx context.Context, threadID string, a signals.InputAnswers) (signals.DecideResult, error) {
	body := struct {
		signals.InputAnswers
		ToolCallID string `json:"toolCallId,omitempty"`
		By         string `json:"by,omitempty"`
	}{InputAnswers: a, By: a.By}
	u := c.url(nil, "threads", threadID, "tool-calls", a.ToolCallID, "input")
	return call[signals.DecideResult](ctx, c, http.MethodPost, u, body, "answering call %q", a.ToolCallID)
}

// Roles returns the roles of the client's API key.
func (c *Client) Roles(ctx context.Context) (auth.Roles, error) {
	out, err := call[struct {
		Roles auth.Roles `json:"roles"`
	}](ctx, c, http.MethodGet, c.url(nil, "server"), nil, "reading the state of the server")
	return out.Roles, err
}
