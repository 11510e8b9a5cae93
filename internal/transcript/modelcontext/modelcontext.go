// Package modelcontext records what models see, and reproduces it. A record of a model call refers to the
// thread's messages and to a record of what the agent's calls have in common, so it stays small.
package modelcontext

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// Describe returns what an agent's model sees with a request, and the payload of the record
// saw.Prompt, which the request has in common with others of the agent: all but the conversation.
// newest is the transcript that the conversation was made of, and at selects it.
func Describe(agentName string, req llm.Request, newest []*transcript.Message, at event.ModelContext) (saw *event.ModelContext, common llm.Request) {
	var instructions int
	if len(req.Messages) > 0 && req.Messages[0].Role == event.RoleSystem {
		instructions = 1
	}
	conversation := req.Messages[instructions:]
	req.Messages = req.Messages[:instructions]
	// The same content has the same id, so it is stored once.
	at.Prompt, at.Digest, at.Parts = recordid.Prompt(digest(req)), digestOf(conversation), parts(seen(agentName, newest), conversation)
	return &at, req
}

// Window is what at selects of a thread.
func Window(at event.ModelContext) transcript.Window {
	return transcript.Window{Head: at.Head, Limit: at.Limit, EventID: at.Turn, Also: at.Question, Bytes: at.Bytes, Result: at.Result}
}

// parts refers to shown where the conversation repeats it.
func parts(shown []shownMessage, conversation []llm.Message) []event.ContextPart {
	out := []event.ContextPart{}
	next := 0 // follows the message of shown that was repeated last
	for _, m := range conversation {
		i := index(shown[next:], m) + next
		if i < next {
			i = index(shown, m)
		}
		switch last := len(out) - 1; {
		case i < 0:
			out = append(out, event.ContextPart{Message: form(m)})
		case last >= 0 && i == next && out[last].Message == nil:
			out[last].Last = shown[i].seq
			next = i + 1
		default:
			out = append(out, event.ContextPart{First: shown[i].seq, Last: shown[i].seq})
			next = i + 1
		}
	}
	return out
}

// Reproduce returns the request of a model call, or [store.ErrNotFound] if its record does not tell.
// exact reports whether the conversation is the one that the model saw, to the letter. It may differ
// if another version of Threadmill made the call.
func Reproduce(ctx context.Context, s transcript.Reader, key store.Key, call event.LLMCall) (req llm.Request, exact bool, err error) {
	at := call.Context
	if at == nil {
		return req, false, fmt.Errorf("what the model saw for %s: %w", call.MessageID, store.ErrNotFound)
	}
	common, err := s.RecordsByID(ctx, key, at.Prompt)
	switch {
	case err != nil:
		return req, false, err
	case len(common) == 0:
		return req, false, fmt.Errorf("record %s: %w", at.Prompt, store.ErrNotFound)
	case json.Unmarshal(common[0].Payload, &req) != nil:
		return req, false, fmt.Errorf("record %s: %w", at.Prompt, transcript.ErrUnreadable)
	}
	newest, err := transcript.Read(ctx, s, key, Window(*at))
	if err != nil {
		return req, false, err
	}
	conversation, err := join(seen(call.Agent, newest), at.Parts)
	if err != nil {
		return req, false, fmt.Errorf("record %s: %w", recordid.LLMCall(call.MessageID), err)
	}
	req.Messages = append(req.Messages, conversation...)
	return req, digestOf(conversation) == at.Digest, nil
}

// join is the inverse of parts.
func join(shown []shownMessage, parts []event.ContextPart) ([]llm.Message, error) {
	out := []llm.Message{}
	for _, p := range parts {
		if p.Message != nil {
			var m llm.Message
			if json.Unmarshal(p.Message, &m) != nil {
				return nil, transcript.ErrUnreadable
			}
			out = append(out, m)
			continue
		}
		first := slices.IndexFunc(shown, func(m shownMessage) bool { return m.seq == p.First })
		last := slices.IndexFunc(shown, func(m shownMessage) bool { return m.seq == p.Last })
		if first < 0 || last < first {
			// The digest tells that messages are missing.
			continue
		}
		for _, m := range shown[first : last+1] {
			out = append(out, m.Message)
		}
	}
	return out, nil
}

// shownMessage is a message as the model sees it, with the Seq of its record.
type shownMessage struct {
	llm.Message
	seq int64
}

// index returns the index of the first message with the JSON form of m, or -1. It compares the fields
// that the form has: a call repeats most of a long conversation, and encoding it costs more than all
// else that describes the call.
func index(shown []shownMessage, m llm.Message) int {
	for i := range shown {
		if same(&shown[i].Message, &m) {
			return i
		}
	}
	return -1
}

func same(a, b *llm.Message) bool {
	return a.Role == b.Role && a.Content == b.Content && a.Name == b.Name && a.ToolCallID == b.ToolCallID && a.IsError == b.IsError &&
		slices.Equal(a.Parts, b.Parts) && slices.Equal(a.ToolCalls, b.ToolCalls)
}

// seen returns the messages of a transcript, newest first, that an agent's model may see, oldest
// first.
func seen(agentName string, newest []*transcript.Message) []shownMessage {
	out := make([]shownMessage, 0, len(newest))
	for i := len(newest) - 1; i >= 0; i-- {
		if shown, ok := SeenBy(agentName, newest[i].Message); ok {
			out = append(out, shownMessage{shown, newest[i].Record.Seq})
		}
	}
	return out
}

func form(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // messages and requests always have a JSON form
	return raw
}

func digest(v any) string {
	sum := sha256.Sum256(form(v))
	return hex.EncodeToString(sum[:])
}

// digestOf returns the digest of a conversation: that of its JSON form, of which one message is in memory at a time.
func digestOf(conversation []llm.Message) string {
	sum := sha256.New()
	var message bytes.Buffer
	encoder := json.NewEncoder(&message)
	sum.Write([]byte{'['})
	for i := range conversation {
		if i > 0 {
			sum.Write([]byte{','})
		}
		message.Reset()
		_ = encoder.Encode(&conversation[i]) // see form
		sum.Write(bytes.TrimSuffix(message.Bytes(), []byte{'\n'}))
	}
	sum.Write([]byte{']'})
	return hex.EncodeToString(sum.Sum(nil))
}
