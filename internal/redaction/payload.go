package redaction

import (
	"encoding/json"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
)

// Payload returns the payload of a signal or an update, or the input of a thread or a schedule, without text that must not be
// kept. Ids, types and the names of people, agents and tools remain.
func Payload[T any](r *redact.Redactor, payload T) T {
	if r == nil {
		return payload
	}
	out, _ := payloadOf(r, payload).(T)
	return out
}

func payloadOf(r *redact.Redactor, payload any) any {
	switch p := payload.(type) {
	case signals.Post:
		return post(r, p)
	case signals.PostBatch:
		posts := make([]signals.Post, len(p.Posts))
		for i, one := range p.Posts {
			posts[i] = post(r, one)
		}
		p.Posts = posts
		return p
	case signals.Start:
		p.Title, p.Metadata = r.Text(p.Title), r.JSON(p.Metadata)
		if p.First != nil {
			first := post(r, *p.First)
			p.First = &first
		}
		return p
	case signals.ThreadChange:
		p.Title, p.Metadata = r.Text(p.Title), r.JSON(p.Metadata)
		return p
	case signals.Control:
		p.Reason = r.Text(p.Reason)
		return p
	case signals.SetStatus:
		p.Reason, p.Content = r.Text(p.Reason), r.Text(p.Content)
		return p
	case signals.Decide:
		p.Reason, p.Args, p.ToolArgs = r.Text(p.Reason), r.JSON(p.Args), r.JSON(p.ToolArgs)
		p.Pattern = texts(r, p.Pattern)
		return p
	case signals.Revoke:
		p.Reason = r.Text(p.Reason)
		return p
	case signals.ToolResult:
		p.Output = r.Text(p.Output)
		return p
	case signals.InputAnswers:
		p.Answers = answers(r, p.Answers)
		return p
	case signals.CompleteTask:
		p.Result, p.Error = r.JSON(p.Result), r.Text(p.Error)
		return p
	case signals.CancelTask:
		p.Reason = r.Text(p.Reason)
		return p
	case signals.Restore:
		return restore(r, p)
	case hook.Verdict:
		return verdict(r, p)
	case string:
		return r.Text(p)
	case signals.Schedule:
		return schedule(r, p)
	}
	return payload
}

// payloadIDs are the ids at the top of the payloads of messages and environment events, and metadataIDs those of their metadata.
var (
	payloadIDs  = []string{"threadId", "sessionId", "senderId", "senderType"}
	metadataIDs = []string{
		"trigger_session_id", "trigger_agent_id", "trigger_agent_name", "env_name", "source", signals.MetadataScheduleID, signals.MetadataScheduledAt,
	}
)

func post(r *redact.Redactor, p signals.Post) signals.Post {
	p.Payload, p.Metadata = r.JSON(p.Payload, payloadIDs...), r.JSON(p.Metadata, metadataIDs...)
	p.Tools = slices.Clone(p.Tools) // need not be names of tools
	for i, name := range p.Tools {
		p.Tools[i] = r.Text(name)
	}
	return p
}

func schedule(r *redact.Redactor, s signals.Schedule) signals.Schedule {
	s.Note, s.Title = r.Text(s.Note), r.Text(s.Title)
	if s.Message != nil {
		m := message(r, *s.Message)
		s.Message = &m
	}
	if s.Event != nil {
		e := envEvent(r, *s.Event)
		s.Event = &e
	}
	return s
}

func restore(r *redact.Redactor, p signals.Restore) signals.Restore {
	p.Title, p.Metadata = r.Text(p.Title), r.JSON(p.Metadata)
	p.Posts, p.Decisions, p.Results = each(r, p.Posts), each(r, p.Decisions), each(r, p.Results)
	p.Inputs, p.Tasks, p.Interrupts = each(r, p.Inputs), each(r, p.Tasks), each(r, p.Interrupts)
	p.SubAgents = slices.Clone(p.SubAgents)
	for i := range p.SubAgents {
		p.SubAgents[i].Restore = subRestore(r, p.SubAgents[i].Restore)
	}
	return p
}

func subRestore(r *redact.Redactor, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	var in signals.Restore
	if json.Unmarshal(raw, &in) != nil {
		return r.JSON(raw)
	}
	out, err := json.Marshal(restore(r, in))
	if err != nil {
		return r.JSON(raw)
	}
	return out
}

func each[T any](r *redact.Redactor, payloads []T) []T {
	out := make([]T, len(payloads))
	for i, p := range payloads {
		out[i] = Payload(r, p)
	}
	return out
}

func texts(r *redact.Redactor, in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, text := range in {
		out[name] = r.Text(text)
	}
	return out
}

func answers(r *redact.Redactor, in map[string]event.InputAnswer) map[string]event.InputAnswer {
	if in == nil {
		return nil
	}
	out := make(map[string]event.InputAnswer, len(in))
	for id, one := range in {
		one.Content = r.JSON(one.Content)
		out[id] = one
	}
	return out
}
