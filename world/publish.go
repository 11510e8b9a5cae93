package world

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// Human is the sender of decisions of [World.PublishToolResult], and over HTTP of messages without one.
const Human = "human"

// Senders that are neither agents nor people.
const (
	senderSystem = "system"
	senderWorld  = "world"
)

// NewMessage is a message to a chat.
type NewMessage struct {
	Content string
	Sender  string
	ChatID  string

	// MessageID is an idempotency key: duplicates are ignored. It consists of letters, digits and
	// _ : @ -. Default: a new id.
	MessageID string
}

// Published is the result of [World.Publish].
type Published struct {
	// The id of the message: the given one, or a new one.
	MessageID string `json:"messageId"`

	// Of a decision: already_resolved if the same was decided before.
	Result signals.DecideOutcome `json:"result,omitempty" enum:"accepted,already_resolved"`

	// Of a decision: how many more have to approve. The message comes with the last of them.
	Missing int `json:"missing,omitempty"`
}

// Publish posts a message to an existing chat: see [World.Start].
//
// If the content is a decision on a tool call, see [event.ParseContent], Publish applies the
// decision for the sender, who must be a person, and returns the id of the decision's message. The
// error for a decision without effect is a [*signals.DecisionError].
func (w *World) Publish(ctx context.Context, said NewMessage) (Published, error) {
	if err := signals.ValidateID("chatId", said.ChatID); err != nil {
		return Published{}, err
	}
	by, err := w.sender(ctx, said.Sender, said.ChatID)
	if err != nil {
		return Published{}, err
	}
	result, decides, warning := event.ParseContent(said.Content)
	if warning != "" {
		w.log.Warn(warning, "thread", said.ChatID, "sender", said.Sender)
	}
	if decides {
		return w.decide(ctx, said.ChatID, by, signals.DecideOf(result, by.id))
	}
	post := signals.NewPost(said.MessageID, event.NewMessage{
		ThreadID: said.ChatID, SenderID: by.id, SenderType: by.kind, Content: said.Content,
	})
	if err := threadclient.Prepare(said.ChatID, &post); err != nil {
		return Published{}, err
	}
	posted, err := w.cfg.Client.Post(ctx, said.ChatID, post)
	return Published{MessageID: posted.EventID}, err
}

// PublishMessage publishes a message with a new id: see [World.Publish].
func (w *World) PublishMessage(ctx context.Context, content, sender, chatID string) (messageID string, err error) {
	return w.PublishMessageWithID(ctx, content, sender, "", chatID)
}

// PublishMessageWithID publishes a message with an id: see [World.Publish].
func (w *World) PublishMessageWithID(ctx context.Context, content, sender, messageID, chatID string) (string, error) {
	out, err := w.Publish(ctx, NewMessage{Content: content, Sender: sender, ChatID: chatID, MessageID: messageID})
	return out.MessageID, err
}

// PublishToolResult publishes a decision of [Human] on a tool call: see
// [World.PublishToolResultAs].
func (w *World) PublishToolResult(ctx context.Context, agentID string, d ToolResultData, chatID string) (messageID string, err error) {
	out, err := w.PublishToolResultAs(ctx, Human, agentID, d, chatID)
	return out.MessageID, err
}

// PublishToolResultAs publishes the decision of a person on an agent's tool call. Empty agentID =
// any agent. Subscribers receive its message when it is stored.
func (w *World) PublishToolResultAs(ctx context.Context, by, agentID string, d ToolResultData, chatID string) (Published, error) {
	if d.ToolCallID == "" {
		return Published{}, event.FieldErrorf("tool_call_id", "is required: the id of the call, or of its approval request")
	}
	content, err := d.Content(agentID)
	if err != nil {
		return Published{}, err
	}
	return w.Publish(ctx, NewMessage{Content: content, Sender: by, ChatID: chatID})
}

func (w *World) decide(ctx context.Context, chatID string, by sender, d signals.Decide) (Published, error) {
	if err := d.Validate(); err != nil {
		return Published{}, err
	}
	if by.kind != event.CreatedByUser {
		return Published{}, &signals.DecisionError{ThreadID: chatID, ToolCallID: d.ToolCallID, Outcome: signals.DecideNotAllowed}
	}
	got, err := w.cfg.Client.Decide(ctx, chatID, d)
	if err != nil {
		return Published{}, err
	}
	return Published{MessageID: recordid.Decision(d.ToolCallID, d.Round), Result: got.Result, Missing: got.Missing}, nil
}

// SenderType returns the type with which messages of a sender are stored in a chat.
func (w *World) SenderType(ctx context.Context, name, chatID string) (event.CreatedBy, error) {
	by, err := w.sender(ctx, name, chatID)
	return by.kind, err
}

// sender is the sender of a message with its kind.
type sender struct {
	id   string
	kind event.CreatedBy
}

// sender returns the kind of a sender in a chat, and the exact name of an agent.
func (w *World) sender(ctx context.Context, name, chatID string) (sender, error) {
	switch {
	case name == "":
		return sender{}, event.FieldErrorf("sender", "is required")
	case strings.EqualFold(name, senderSystem):
		return sender{senderSystem, event.CreatedBySystem}, nil
	case strings.EqualFold(name, senderWorld):
		// A report from outside the chat, which answers no call.
		return sender{senderWorld, event.CreatedByTool}, nil
	}
	known, isAgent, err := w.agent(ctx, name, chatID)
	switch {
	case err != nil:
		return sender{}, fmt.Errorf("looking up sender %q: %w", name, err)
	case isAgent:
		return sender{known, event.CreatedByAgent}, nil
	}
	return sender{name, event.CreatedByUser}, nil
}

// agent finds an agent of the source or of the chat.
func (w *World) agent(ctx context.Context, name, chatID string) (known string, is bool, err error) {
	if w.cfg.Agents != nil {
		found, err := w.cfg.Agents.Agent(ctx, w.cfg.Namespace, name)
		if err == nil || !errors.Is(err, agent.ErrUnknown) {
			return found.Name, err == nil, err
		}
	}
	names, err := w.agentsOf(ctx, chatID)
	for _, known := range names {
		if strings.EqualFold(known, name) {
			return known, true, nil
		}
	}
	return "", false, err
}

// agentsOf returns the agents of a chat: from the store or, if the thread has stored nothing yet,
// from its workflow.
func (w *World) agentsOf(ctx context.Context, chatID string) ([]string, error) {
	row, err := w.cfg.Store.Thread(ctx, w.key(chatID))
	if !errors.Is(err, store.ErrNotFound) {
		return row.Agents, err
	}
	state, err := w.cfg.Client.State(ctx, chatID)
	return state.Agents, err
}
