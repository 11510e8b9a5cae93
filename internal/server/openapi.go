package server

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/event"
)

// document returns the OpenAPI document of all registered operations. Its schemas differ from those by
// which requests are validated: responses may gain fields, and agent events are a union.
func document(api *huma.OpenAPI) *huma.OpenAPI {
	all := api.Components.Schemas.Map()
	requests, responses := map[string]bool{}, map[string]bool{}
	for op := range operations(api) {
		if op.RequestBody != nil {
			reach(all, op.RequestBody.Content, requests)
		}
		for _, response := range op.Responses {
			reach(all, response.Content, responses)
		}
	}
	published := map[string]*huma.Schema{}
	for name, schema := range all {
		if requests[name] || responses[name] { // others are of other handlers of the process
			published[name] = publish(schema, responses[name], requests[name])
		}
	}
	uniteAgentEvents(published)

	components := *api.Components
	components.Schemas = documented{api.Components.Schemas, published}
	doc := *api
	doc.Components = &components
	return &doc
}

// operations are all registered operations.
func operations(api *huma.OpenAPI) iter.Seq[*huma.Operation] {
	return func(yield func(*huma.Operation) bool) {
		for _, item := range api.Paths {
			for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
				if op != nil && !yield(op) {
					return
				}
			}
		}
	}
}

// documented is a registry with other schemas than those by which requests are validated.
type documented struct {
	huma.Registry
	all map[string]*huma.Schema
}

func (d documented) Map() map[string]*huma.Schema { return d.all }

func (d documented) MarshalJSON() ([]byte, error) { return json.Marshal(d.all) }

// reach adds the names of the schemas to which bodies refer.
func reach(all map[string]*huma.Schema, bodies map[string]*huma.MediaType, found map[string]bool) {
	for _, body := range bodies {
		eachSchema(body.Schema, func(s *huma.Schema) bool {
			name := strings.TrimPrefix(s.Ref, schemaPrefix)
			if name == "" || found[name] {
				return name == ""
			}
			found[name] = true
			reach(all, map[string]*huma.MediaType{"": {Schema: all[name]}}, found)
			return true
		})
	}
}

// eachSchema calls visit with a schema and, while visit returns true, with those within it.
func eachSchema(s *huma.Schema, visit func(*huma.Schema) bool) {
	if s == nil || !visit(s) {
		return
	}
	eachSchema(s.Items, visit)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		eachSchema(more, visit)
	}
	for _, property := range s.Properties {
		eachSchema(property, visit)
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		eachSchema(one, visit)
	}
}

// publish returns a schema for the document. Those of responses permit further fields, which later
// versions may add; lists of responses alone are never null, since they are left out instead.
func publish(s *huma.Schema, response, request bool) *huma.Schema {
	if s == nil {
		return nil
	}
	out := *s
	out.PatternDescription = ""
	if response && out.AdditionalProperties == false {
		out.AdditionalProperties = nil
	}
	if !request && out.Type == huma.TypeArray {
		out.Nullable = false
	}
	out.Items = publish(s.Items, response, request)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		out.AdditionalProperties = publish(more, response, request)
	}
	out.Properties = map[string]*huma.Schema{}
	for name, property := range s.Properties {
		out.Properties[name] = publish(property, response, request)
	}
	return &out
}

// agentEventDocs describes the types of agent event.
var agentEventDocs = map[event.AgentEventType]string{
	event.EventThought:         "A piece of a model's reasoning. Live only.",
	event.EventToolCall:        "A call in an agent's reply.",
	event.EventToolProgress:    "Progress of a tool or a background task, or a piece of a sub-agent's reply. Live only.",
	event.EventToolResult:      "The result of a call.",
	event.EventStream:          "A piece of an agent's reply. Live only.",
	event.EventFinal:           "An agent has finished. Its reply was a message before.",
	event.EventError:           "An agent failed or, without an agent, the event failed before an agent took part.",
	event.EventMessage:         "A stored message. It supersedes its pieces, and an earlier message with its id.",
	event.EventApprovalRequest: "A call waits for a decision of people.",
	event.EventApproval:        "A decision on a call.",
	event.EventClientCall:      "A call waits for a connected client to run it.",
	event.EventInputRequest:    "A call waits for a person's input.",
	event.EventInputReceived:   "A person's input, with which the call continues.",
	event.EventEnvironment:     "Something happened outside the thread. Rules decide what the thread does with it.",
	event.EventStatus:          "The thread, a turn or an event of the queue has changed.",
	event.EventRetrieval:       "The passages of documents that an agent was given for the message that it answers.",
	event.EventReset:           "A reply begins again: its pieces of earlier attempts are void.",
	event.EventGap:             "Live pieces were lost. The messages that they belong to follow whole. With the id 0: the store has lost records, and all that remain follow; discard what was shown.",
}

// uniteAgentEvents replaces the schema of an agent event by a union of one schema for each type, with
// the fields that [event.AgentEvent.MarshalJSON] writes for that type.
func uniteAgentEvents(all map[string]*huma.Schema) {
	const name, paged = "AgentEvent", "PagedEvent"
	whole := all[name]
	union := &huma.Schema{
		Description:   "What viewers of a thread receive. Ignore types that you do not know: later versions may add some.",
		Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}},
	}
	for _, value := range whole.Properties["type"].Enum {
		typ := event.AgentEventType(fmt.Sprint(value))
		one := &huma.Schema{Type: huma.TypeObject, Description: agentEventDocs[typ], Properties: map[string]*huma.Schema{}}
		for field := range agentEventFields(typ, true) {
			one.Properties[field] = whole.Properties[field]
		}
		one.Required = slices.Sorted(maps.Keys(agentEventFields(typ, false)))
		one.Properties["id"] = all[paged].Properties["id"]
		tag := *whole.Properties["type"]
		tag.Enum = []any{value}
		one.Properties["type"] = &tag
		ref := schemaPrefix + pascal(string(typ)) + "Event"
		all[pascal(string(typ))+"Event"] = one
		union.OneOf = append(union.OneOf, &huma.Schema{Ref: ref})
		union.Discriminator.Mapping[string(typ)] = ref
	}
	all[name] = union
	delete(all, paged)
	all["EventPage"].Properties["events"].Items = &huma.Schema{Ref: schemaPrefix + name}
}

// agentEventFields returns the names of the fields that events of a type have: all that they may
// have, or those that they always have. Its own object, such as the message of a message event, is
// always there.
func agentEventFields(typ event.AgentEventType, all bool) map[string]bool {
	e := event.AgentEvent{}
	fields := reflect.ValueOf(&e).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); field.Interface().(type) {
		case string:
			if all {
				field.SetString("x")
			}
		case int:
			if all {
				field.SetInt(1)
			}
		case bool:
			field.SetBool(all)
		case json.RawMessage:
			field.SetBytes([]byte("1"))
		case time.Time:
			if all {
				field.Set(reflect.ValueOf(time.Unix(1, 0)))
			}
		default:
			if field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
			}
		}
	}
	e.Type = typ
	data, err := json.Marshal(e)
	if err != nil {
		panic("server: an agent event has no JSON form: " + err.Error())
	}
	written := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &written); err != nil {
		panic("server: the JSON form of an agent event is no object: " + err.Error())
	}
	names := map[string]bool{}
	for name := range written {
		names[name] = true
	}
	return names
}

// pascal returns tool_call as ToolCall.
func pascal(snake string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(snake, "_") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}

// introduction opens the OpenAPI document and /docs.
const introduction = `Threads are conversations between people, agents and the world that survive restarts. ` +
	`Open one with POST /v1/threads, post messages to it, and watch its events, which resume exactly where a client was cut off. ` +
	`A 2xx response to a write means that it is kept: a request with an id of your own can be repeated without harm. ` +
	`Requests with unknown fields or query parameters are rejected; responses may gain fields. ` +
	`Errors are RFC 9457 problem documents, whose errors name the fields.`

var tags = []*huma.Tag{
	{Name: "threads", Description: "Conversations: open, list, change and close them."},
	{Name: "messages", Description: "What people and agents write in a thread."},
	{Name: "events", Description: "Everything that happens in a thread, as pages and as streams, and events of its environment."},
	{Name: "approvals", Description: "Tool calls that wait for people or clients, decisions on them, and what those allow."},
	{Name: "queue", Description: "The events that a thread has yet to process, or could not."},
	{Name: "tasks", Description: "Work in the background."},
	{Name: "agents", Description: "The agents that answer."},
	{Name: "schedules", Description: "Posts at set times."},
	{Name: "webhooks", Description: "Deliveries of other systems."},
	{Name: "world", Description: "The message protocol of worlds of agents."},
	{Name: "mcp", Description: "The MCP servers whose tools agents use."},
	{Name: "knowledge", Description: "The documents that agents search."},
	{Name: "entities", Description: "The people and things that messages mention."},
	{Name: "erasures", Description: "Threads that were erased for good, with their receipts."},
	{Name: "keys", Description: "API keys."},
	{Name: "chat", Description: "Threads as chats of the AI SDK: useChat and other clients of UI message streams."},
	{Name: "rules", Description: "What handles the events of a thread's environment."},
	{Name: "server", Description: "The server itself, and what it renders for pages."},
	{Name: "health", Description: "Whether the server works."},
}
