package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/internal/chat/aisdk"
)

// chatter keeps a connection for each thread, as the backend of a frontend does.
var chatter = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// chatRequest is the body of a request of useChat, the hook of the AI SDK.
type chatRequest struct {
	ID       string             `json:"id"`
	Agents   []string           `json:"agents,omitempty"`
	Sender   string             `json:"sender"`
	Messages []*aisdk.UIMessage `json:"messages"`
}

// chat takes a turn over HTTP, as useChat does: a request for the message, and another one for the
// decision if a call needs approval. The response of each ends where the turn does, or waits.
func (t *millThread) chat(ctx context.Context) error {
	p, want := t.next()
	answer, err := t.say(ctx, &aisdk.UIMessage{
		ID: p.ID, Role: "user", Parts: []*aisdk.UIPart{{Type: "text", Text: t.shape.message(t.turns, t.by)}},
	})
	if err == nil && t.shape.asks {
		if err := answer.approve(); err != nil {
			return err
		}
		answer, err = t.say(ctx, &answer.message)
	}
	if err != nil {
		return err
	}
	return same(answer.text, want)
}

// say posts a message and returns the answer. It repeats the request while the API asks for that.
func (t *millThread) say(ctx context.Context, m *aisdk.UIMessage) (*chatAnswer, error) {
	body, err := json.Marshal(chatRequest{t.id, t.agents(), person, []*aisdk.UIMessage{m}})
	if err != nil {
		return nil, err
	}
	for {
		answer, later, err := t.stream(ctx, body)
		switch {
		case err != nil:
			return nil, fmt.Errorf("chatting with thread %s: %w", t.id, err)
		case answer != nil:
			return answer, nil
		}
		if err := pause(ctx, later); err != nil {
			return nil, err
		}
	}
}

// stream sends a request and reads the stream of the response. If the request must be repeated, it returns the
// delay and no answer.
func (t *millThread) stream(ctx context.Context, body []byte) (answer *chatAnswer, later time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.api+"/v1/chat", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := chatter.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		problem, err := io.ReadAll(res.Body)
		if later = retryAfter(res); later == 0 {
			err = errors.Join(fmt.Errorf("%s: %s", res.Status, problem), err)
		}
		return nil, later, err
	}
	answer = &chatAnswer{}
	return answer, 0, answer.read(res.Body)
}

// chatAnswer is the assistant's message as a stream has told it.
type chatAnswer struct {
	message aisdk.UIMessage
	text    string
}

// read reads a stream up to its end.
func (a *chatAnswer) read(r io.Reader) error {
	lines, done := bufio.NewReader(r), false
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && done:
			return nil
		case err != nil:
			return err
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok {
			continue
		}
		if done = string(data) == "[DONE]"; done {
			continue
		}
		var c aisdk.Chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return err
		}
		a.add(c)
	}
}

func (a *chatAnswer) add(c aisdk.Chunk) {
	switch c.Type {
	case "start":
		a.message.ID, a.message.Role = c.MessageID, "assistant"
	case "text-delta":
		a.text += c.Delta
	case "tool-input-available":
		a.message.Parts = append(a.message.Parts, &aisdk.UIPart{Type: "dynamic-tool", ToolName: c.ToolName, ToolCallID: c.ToolCallID, Input: c.Input})
	case "tool-approval-request":
		for _, p := range a.message.Parts {
			if p.ToolCallID == c.ToolCallID {
				p.Approval = &aisdk.UIApproval{ID: c.ApprovalID}
			}
		}
	case "finish":
		a.message.Metadata = c.MessageMetadata
	}
}

// approve approves the calls that need approval.
func (a *chatAnswer) approve() error {
	approved, asked := true, false
	for _, p := range a.message.Parts {
		if p.Approval != nil {
			p.State, p.Approval.Approved, asked = "approval-responded", &approved, true
		}
	}
	if !asked {
		return errors.New("the stream has no request for approval")
	}
	return nil
}
