package world

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// Human is who decides if a decision does not say it.
const Human = "human"

// Senders that are no agents, nor people.
const (
	senderSystem = "system"
	senderWorld  = "world"
)

// DecisionError says why a decision has changed nothing.
type DecisionError struct {
	ChatID     string
	ToolCallID string
	Outcome    signals.DecideOutcome
}

func (e *DecisionError) Error() string {
	return fmt.Sprintf("the decision on tool call %q in chat %q changes nothing: %s", e.ToolCallID, e.ChatID, e.Outcome)
}

// Said is what somebody says in a chat.
type Said struct {
	Content string
	Sender  string
	ChatID  string

	// MessageID makes it idempotent: publishing the same id twice has the effect of once.
	// Letters, digits and _ : @ -. Default: a new one.
	MessageID string
}

// Published is what became of it.
type Published struct {
	MessageID string                `json:"messageId"`
	Result    signals.DecideOutcome `json:"result,omitempty" enum:"accepted,already_resolved" doc:"Of a decision: already_resolved if the same was decided before"`
	Missing   int                   `json:"missing,omitempty" doc:"Of a decision: how many more have to approve. The message comes with the last of them"`
}

// Publish publishes what somebody says in a chat, which must be there: see [World.Start].
//
// Content that is a decision on a tool call, see [event.ParseContent], decides on it, as
// the sender, who must be a person. The id is that of the decision's message then. A
// decision that changes nothing is a [*DecisionError].
func (w *World) Publish(ctx context.Context, said Said) (Published, error) {
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

// PublishMessage is [World.Publish] of a message with a new id.
func (w *World) PublishMessage(ctx context.Context, content, sender, chatID string) (messageID string, err error) {
	return w.PublishMessageWithID(ctx, content, sender, "", chatID)
}

// PublishMessageWithID is [World.Publish] of a message with its id.
func (w *World) PublishMessageWithID(ctx context.Context, content, sender, messageID, chatID string) (string, error) {
	out, err := w.Publish(ctx, Said{Content: content, Sender: sender, ChatID: chatID, MessageID: messageID})
	return out.MessageID, err
}

// PublishToolResult publishes a decision on an agent's tool call, by [Human]. See
// [World.PublishToolResultAs].
func (w *World) PublishToolResult(ctx context.Context, agentID string, d ToolResultData, chatID string) (messageID string, err error) {
	out, err := w.PublishToolResultAs(ctx, Human, agentID, d, chatID)
	return out.MessageID, err
}

// PublishToolResultAs publishes somebody's decision on an agent's tool call, any agent's if
// agentID is empty. Subscribers get its message when the thread has stored it.
func (w *World) PublishToolResultAs(ctx context.Context, by, agentID string, d ToolResultData, chatID string) (Published, error) {
	if d.ToolCallID == "" {
		return Published{}, event.FieldErrorf("tool_call_id", "is required: the id of the call, or of its approval request")
	}
	content, err := d.Content(agentID)
	if err != nil {
		return Published{}, err
	}
	return w.Publish(ctx, Said{Content: content, Sender: by, ChatID: chatID})
}

func (w *World) decide(ctx context.Context, chatID string, by sender, d signals.Decide) (Published, error) {
	if err := d.Validate(); err != nil {
		return Published{}, err
	}
	got := signals.DecideResult{Result: signals.DecideNotAllowed}
	if by.kind == event.CreatedByUser {
		var err error
		if got, err = w.cfg.Client.Decide(ctx, chatID, d); err != nil {
			return Published{}, err
		}
	}
	if got.Result != signals.DecideAccepted && got.Result != signals.DecideAlreadyResolved {
		return Published{}, &DecisionError{ChatID: chatID, ToolCallID: d.ToolCallID, Outcome: got.Result}
	}
	return Published{MessageID: event.DecisionID(d.ToolCallID, d.Round), Result: got.Result, Missing: got.Missing}, nil
}

// sender is somebody of whom it is known what they are.
type sender struct {
	id   string
	kind event.CreatedBy
}

// sender says what somebody is in a chat. An agent goes by the name that it has there.
func (w *World) sender(ctx context.Context, name, chatID string) (sender, error) {
	switch {
	case name == "":
		return sender{}, event.FieldErrorf("sender", "is required")
	case strings.EqualFold(name, senderSystem):
		return sender{senderSystem, event.CreatedBySystem}, nil
	case strings.EqualFold(name, senderWorld):
		// It reports from outside, and answers no call.
		return sender{senderWorld, event.CreatedByTool}, nil
	}
	known, isAgent, err := w.agent(ctx, name, chatID)
	switch {
	case err != nil:
		return sender{}, fmt.Errorf("asking who %q is: %w", name, err)
	case isAgent:
		return sender{known, event.CreatedByAgent}, nil
	}
	return sender{name, event.CreatedByUser}, nil
}

// agent finds an agent of the registry or of the chat.
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

// agentsOf are the agents that take part in a chat. One that has stored nothing yet is asked
// itself.
func (w *World) agentsOf(ctx context.Context, chatID string) ([]string, error) {
	row, err := w.cfg.Store.Thread(ctx, w.key(chatID))
	if !errors.Is(err, store.ErrNotFound) {
		return row.Agents, err
	}
	state, err := w.cfg.Client.State(ctx, chatID)
	return state.Agents, err
}
