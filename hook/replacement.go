package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// checkReplacement reports why one event cannot replace another.
func checkReplacement(seen, got event.Event) error {
	if threadOf(got) != threadOf(seen) {
		return event.FieldErrorf("threadId", "is %q, but the event's is %q", threadOf(got), threadOf(seen))
	}
	_, wasLLM := seen.(event.LLMCallEvent)
	switch got := got.(type) {
	case event.LLMCallEvent:
		if !wasLLM {
			return event.FieldErrorf("type", "a %s cannot become an llm_call", seen.EventType())
		}
		return nil
	case event.ToolCallEvent:
		if wasLLM {
			break
		}
		return checkCalls(seen, got)
	case event.MessageEvent:
		if wasLLM {
			break
		}
		return checkMessage(seen, got)
	case event.CustomEvent:
		if wasLLM {
			break
		}
		if got.Type == "" || got.Type == event.TypeMessage || event.Reserved(got.Type) {
			return event.FieldErrorf("type", "%q is not a custom type", got.Type)
		}
		return nil
	case event.EnvEvent:
		if wasLLM {
			break
		}
		if was, ok := seen.(event.EnvEvent); ok && was.ID != got.ID {
			return event.FieldErrorf("id", "is %q, but the event's is %q", got.ID, was.ID)
		}
		return got.Validate()
	}
	return event.FieldErrorf("type", "an llm_call cannot become a %s; respond instead", got.EventType())
}

// checkMessage validates a replacement of a message: the content may change, the tool calls may
// not.
func checkMessage(seen event.Event, got event.MessageEvent) error {
	was, _ := seen.(event.MessageEvent)
	if !slices.Equal(was.Message.ToolCalls, got.Message.ToolCalls) {
		return event.FieldErrorf("message.toolCalls", "cannot be changed; change the tool_call event")
	}
	m := got.Message
	if m.ThreadID == "" {
		m.ThreadID = got.ThreadID
	}
	return event.WithinField("message", m.Validate())
}

// checkCalls validates a replacement of tool calls: calls may be edited or removed, but not added,
// since the model would not know them.
func checkCalls(seen event.Event, got event.ToolCallEvent) error {
	if m, ok := seen.(event.MessageEvent); ok && (m.CreatedBy == event.CreatedByAgent || m.CreatedBy == event.CreatedByTool) {
		return event.FieldErrorf("type", "a message of an agent or a tool cannot become a tool_call; respond instead")
	}
	was, ok := seen.(event.ToolCallEvent)
	if !ok {
		if got.AgentName == "" {
			return event.FieldErrorf("agentName", "is required: the agent that continues with the results")
		}
		if len(got.ToolCalls) == 0 {
			return event.FieldErrorf("toolCalls", "are required")
		}
		return nil
	}
	known := map[string]bool{}
	for i, c := range got.ToolCalls {
		at := slices.IndexFunc(was.ToolCalls, func(o event.ToolCall) bool { return o.ID == c.ID })
		switch {
		case at < 0 || known[c.ID]:
			return event.FieldErrorf(fmt.Sprintf("toolCalls[%d].id", i), "%q is not one of the event's calls, or is duplicated", c.ID)
		case was.ToolCalls[at].Function.Name != c.Function.Name:
			return event.FieldErrorf(fmt.Sprintf("toolCalls[%d].function.name", i), "of a call cannot be changed; remove the call, or respond")
		}
		known[c.ID] = true
	}
	if got.AgentName != was.AgentName {
		return event.FieldErrorf("agentName", "of an agent's calls cannot be changed")
	}
	return checkRefusals(was, got, known)
}

// checkRefusals validates the refusals of calls. kept are the calls that were not removed.
func checkRefusals(was, got event.ToolCallEvent, kept map[string]bool) error {
	for i, r := range got.Refused {
		field := fmt.Sprintf("refused[%d]", i)
		switch {
		case slices.Contains(was.Refused, r):
			continue
		case kept[r.ID] || !slices.ContainsFunc(was.ToolCalls, func(c event.ToolCall) bool { return c.ID == r.ID }):
			return event.FieldErrorf(field+".id", "%q is not one of the event's calls, is still among toolCalls, or is duplicated", r.ID)
		case event.Blank(r.Reason) || len(r.Reason) > event.MaxRefusal:
			return event.FieldErrorf(field+".reason", "must be text of 1 to %d bytes: the model learns it", event.MaxRefusal)
		}
		kept[r.ID] = true
	}
	return nil
}

// withRefusals returns the event with the refusals of earlier hooks, which none can take back.
func withRefusals(seen, got event.Event) event.Event {
	was, isCall := seen.(event.ToolCallEvent)
	now, stays := got.(event.ToolCallEvent)
	if !isCall || !stays {
		return got
	}
	for _, r := range was.Refused {
		if !slices.Contains(now.Refused, r) {
			now.Refused = append(slices.Clone(now.Refused), r)
		}
	}
	return now
}

func same(a, b event.Event) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func fits(field string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return event.FieldErrorf(field, "%s", "has no JSON form: "+err.Error())
	}
	if len(raw) > MaxEvent {
		return event.FieldErrorf(field, "is %d bytes, must be at most %d", len(raw), MaxEvent)
	}
	return nil
}
