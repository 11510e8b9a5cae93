package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// Limits of one call of get_event_info.
const (
	// maxEventIDs is the maximum number of events.
	maxEventIDs = 20
	// maxEventInfo is the maximum total size of the output, in bytes.
	maxEventInfo = 64 << 10
	// maxEventStart is the size of the part of an event that alone exceeds maxEventInfo, in bytes.
	// As a JSON string it can grow to twice that.
	maxEventStart = 24 << 10
)

// lookup returns a tool by name: the application's, or else a built-in one.
func (a *Activities) lookup(name string) (tool.Tool, bool) {
	if t, ok := a.cfg.Tools.Lookup(name); ok {
		return t, true
	}
	if d, ok := builtin.Lookup(name); ok {
		return byThread{d}, true
	}
	if name == builtin.SearchKnowledge {
		return searchKnowledge(a.library, a.collectionsOf), true
	}
	return a.builtIn(name)
}

// builtIn returns get_event_info and read_result, which every agent may call. An application's tool with such a name
// replaces it for agents that list it.
func (a *Activities) builtIn(name string) (tool.Tool, bool) {
	switch name {
	case builtin.GetEventInfo:
		return getEventInfo(a.cfg.Store), true
	case builtin.ReadResult:
		return readResult(a.cfg.Store), true
	}
	return nil, false
}

// tools describes the tools of the model call. Providers reject earlier calls of tools that are not
// described. cut means that the conversation has a result that was cut.
func (c *modelCall) tools(cut bool) []llm.Tool {
	tools := c.planner.tools.described()
	for _, own := range []struct {
		name   string
		needed bool
	}{{builtin.GetEventInfo, c.in.Observe != nil}, {builtin.ReadResult, cut}} {
		if slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == own.name }) {
			continue
		}
		if own.needed || slices.ContainsFunc(c.context, calls(own.name)) {
			t, _ := c.a.builtIn(own.name)
			tools = append(tools, described(t))
		}
	}
	return tools
}

// calls reports whether a message calls a tool.
func calls(name string) func(llm.Message) bool {
	return func(m llm.Message) bool {
		return slices.ContainsFunc(m.ToolCalls, func(call event.ToolCall) bool { return call.Function.Name == name })
	}
}

// eventIDs are the arguments of get_event_info.
type eventIDs struct {
	EventIDs []string `json:"event_ids"`
}

// getEventInfo returns the tool for a store.
func getEventInfo(s transcript.Reader) tool.Tool {
	parameters := fmt.Sprintf(`{"type":"object","properties":{"event_ids":{"type":"array","items":{"type":"string"},`+
		`"minItems":1,"maxItems":%d,"description":"ids of events of this thread"}},"required":["event_ids"],"additionalProperties":false}`, maxEventIDs)
	return tool.MustFunc(builtin.GetEventInfo, "Shows events that were observed in this thread: what happened, when, and all that is known about it.",
		func(ctx context.Context, call tool.Call, in eventIDs) (string, error) {
			found, err := readEvents(ctx, s, store.Key{Namespace: call.Namespace, ThreadID: call.ThreadID}, in.EventIDs)
			if err != nil {
				return "", err
			}
			return describeEvents(in.EventIDs, found), nil
		}, tool.Parameters(json.RawMessage(parameters)), tool.Quick())
}

// readEvents returns the thread's events with these ids, by id.
func readEvents(ctx context.Context, s transcript.Reader, key store.Key, ids []string) (map[string]event.EnvEvent, error) {
	var wanted []string
	for _, id := range ids {
		// Other ids are not event ids, and stores may reject them.
		if signals.ValidateEventID("event_ids", id) == nil {
			wanted = append(wanted, id, recordid.Interception(id), recordid.Withdrawal(id))
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	records, err := s.RecordsByID(ctx, key, wanted...)
	if err != nil {
		return nil, tool.Retryable(fmt.Errorf("the events could not be read: %w", err))
	}
	return envEvents(records), nil
}

// envEvents returns the environment events among records that hooks have passed, by id, with the
// changes of hooks. The records of the decisions must be among the records. It omits events that
// are unreadable or have an unreadable decision.
func envEvents(records []event.Record) map[string]event.EnvEvent {
	out := map[string]event.EnvEvent{}
	for _, r := range records {
		if r.Type != event.TypeEnv {
			continue
		}
		var e event.EnvEvent
		if err := json.Unmarshal(r.Payload, &e); err != nil {
			continue
		}
		if passed, ok := passedEnv(r, e, records); ok {
			passed.ID = r.ID
			out[r.ID] = passed
		}
	}
	return out
}

// passedEnv returns an environment event with the changes of hooks, if they have passed it.
func passedEnv(r event.Record, e event.EnvEvent, records []event.Record) (event.EnvEvent, bool) {
	passed := len(r.Undecided()) == 0
	for _, about := range records {
		if about.Type != event.TypeHook || about.ID != recordid.Interception(r.ID) && about.ID != recordid.Withdrawal(r.ID) {
			continue
		}
		var decision event.Interception
		if json.Unmarshal(about.Payload, &decision) != nil {
			return e, false
		}
		switch {
		case decision.Outcome == event.OutcomePassed:
			passed = true
		case decision.Outcome == event.OutcomeReplaced && decision.Env != nil:
			e, passed = *decision.Env, true
		default:
			return e, false
		}
	}
	return e, passed
}

// eventInfo is an event in the form for models.
type eventInfo struct {
	EventID   string            `json:"event_id"`
	EventType string            `json:"event_type"`
	Timestamp int64             `json:"timestamp"`
	Metadata  event.EnvMetadata `json:"metadata"`
	Payload   json.RawMessage   `json:"payload"`
}

// noEventInfo says why there is no information about an event.
type noEventInfo struct {
	EventID string `json:"event_id"`
	Error   string `json:"error"`
}

// someEventInfo is the beginning of an event that is too large.
type someEventInfo struct {
	EventID   string `json:"event_id"`
	EventType string `json:"event_type"`
	Timestamp int64  `json:"timestamp"`
	Error     string `json:"error"`
	Start     string `json:"start"`
}

func describeEvent(e event.EnvEvent) string {
	return encode(eventInfo{e.ID, e.Type, e.Timestamp, e.Metadata, e.Payload})
}

// describeEvents returns the tool's output: an object for one event, an array for several, in the
// order of ids. It has at most
// [maxEventInfo] bytes: later events are omitted, and the array says so.
func describeEvents(ids []string, found map[string]event.EnvEvent) string {
	if len(ids) == 1 {
		return describeAlone(ids[0], found)
	}
	list, size := make([]string, len(ids)), len("[]")
	for i, id := range ids {
		list[i] = encode(noEventInfo{named(id), fmt.Sprintf("left out, as all of them would take more than %d bytes; ask for it alone", maxEventInfo)})
		size += len(list[i]) + len(",")
	}
	for i, id := range ids {
		whole := describeFound(id, found)
		if grown := size + len(whole) - len(list[i]); grown <= maxEventInfo {
			list[i], size = whole, grown
		}
	}
	return "[" + strings.Join(list, ",") + "]"
}

func describeFound(id string, found map[string]event.EnvEvent) string {
	if e, ok := found[id]; ok {
		return describeEvent(e)
	}
	return encode(noEventInfo{named(id), "not found in this thread"})
}

// describeAlone cuts an event that alone exceeds the limit.
func describeAlone(id string, found map[string]event.EnvEvent) string {
	whole := describeFound(id, found)
	if len(whole) <= maxEventInfo {
		return whole
	}
	e := found[id]
	return encode(someEventInfo{
		e.ID, e.Type, e.Timestamp,
		fmt.Sprintf("takes %d bytes, more than the %d that can be shown; start is how it begins", len(whole), maxEventInfo),
		strings.ToValidUTF8(whole[:maxEventStart], ""),
	})
}

// named returns an id for the model, cut to a length that exceeds any event id.
func named(id string) string {
	const most = 200
	if len(id) > most {
		return strings.ToValidUTF8(id[:most], "") + "…"
	}
	return id
}

// encode marshals JSON for models without escaping <, > and &, which stored records escape.
func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("activities: an event has no JSON form: " + err.Error())
	}
	return escape.ReplaceAllStringFunc(string(raw), func(found string) string {
		switch found {
		case `\u003c`:
			return "<"
		case `\u003e`:
			return ">"
		case `\u0026`:
			return "&"
		}
		return found
	})
}

// escape matches every escape in JSON, so that the text after an escaped backslash is not taken for
// one.
var escape = regexp.MustCompile(`\\(u[0-9a-f]{4}|.)`)
